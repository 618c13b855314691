// timers.c - a tick every period, what happens to missed ticks, and a timer that calls a function.
#include <stdatomic.h>
#include <stdio.h>
#include <weft.h>

static double ms_since(weft_time start, weft_time then)
{
    return (double)(then - start) / (double)WEFT_MS;
}

/// Ticks every 10 ms but is busy for 25 ms after the second tick.
static int tick(const char *policy_name, enum weft_missed policy)
{
    struct weft_interval interval;
    weft_time start = weft_now();
    int rc = weft_interval_init(&interval, start + 10 * WEFT_MS, 10 * WEFT_MS, policy);
    printf("%-6s", policy_name);
    for (int i = 0; i < 6 && rc == 0; i++) {
        weft_time due;
        rc = weft_interval_tick(&due, &interval);
        if (rc == 0) {
            printf("  due %5.1f at %5.1f", ms_since(start, due), ms_since(start, weft_now()));
        }
        if (rc == 0 && i == 1) {
            rc = weft_sleep(25 * WEFT_MS);
        }
    }
    puts("");
    return rc;
}

/// Runs on the carrier, between tasks: it may wake, spawn and set timers, but not block.
static void bark(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
}

static int watchdog(void)
{
    atomic_int barks = 0;
    struct weft_timer timer; // ours; it stays in place until weft_timer_stop()
    int rc = weft_timer_init(&timer, bark, &barks);
    if (rc < 0) {
        return rc;
    }
    weft_timer_set(&timer, weft_after(20 * WEFT_MS));
    for (int i = 0; i < 5 && rc == 0; i++) {
        rc = weft_sleep(5 * WEFT_MS);
        weft_timer_set(&timer, weft_after(10 * WEFT_S)); // fed: the dog lies down again
    }
    printf("fed watchdog: barked %d times\n", atomic_load(&barks));
    weft_timer_set(&timer, weft_after(5 * WEFT_MS));
    while (atomic_load(&barks) == 0 && rc == 0) {
        rc = weft_sleep(5 * WEFT_MS);
    }
    printf("hungry watchdog: barked %d times\n", atomic_load(&barks));
    weft_timer_set(&timer, weft_after(10 * WEFT_S));
    int pending = weft_timer_stop(&timer); // from here on the storage is free again
    printf("stopped: %s\n", pending ? "an expiry was called off" : "nothing was pending");
    return rc;
}

static int run(void *arg)
{
    (void)arg;
    int rc = tick("burst", WEFT_MISSED_BURST);
    rc = rc < 0 ? rc : tick("delay", WEFT_MISSED_DELAY);
    rc = rc < 0 ? rc : tick("skip", WEFT_MISSED_SKIP);
    return rc < 0 ? rc : watchdog();
}

int main(void)
{
    return weft_run(run, NULL, NULL) < 0;
}
