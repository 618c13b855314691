// million.c - starts a million virtual threads (or as many as you say), lets all of them sleep,
// wakes them and shuts down. `million 10000` is a quick try.
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>

struct census {
    long count;
    atomic_long asleep; // threads that have started and go to sleep
    atomic_long woken;  // threads that came back from their sleep
};

static int sleeper(void *arg)
{
    struct census *census = arg;
    atomic_fetch_add(&census->asleep, 1);
    int rc = weft_sleep(3600 * WEFT_S);
    atomic_fetch_add(&census->woken, 1);
    return rc == -ECANCELED ? 0 : rc; // being woken by the cancel is what we are here for
}

/// A line such as "VmRSS:    1234 kB" of this process's status, in bytes.
static double status_bytes(const char *field)
{
    char line[128];
    double kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, field, strlen(field)) == 0) {
            kib = strtod(line + strlen(field) + 1, NULL);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return kib * 1024;
}

static double seconds_since(weft_time start)
{
    return (double)(weft_now() - start) / 1e9;
}

static int run(void *arg)
{
    struct census *census = arg;
    struct weft_attr everywhere = WEFT_ATTR_INIT;
    struct weft_scope scope;
    double resident = status_bytes("VmRSS:");
    double tables = status_bytes("VmPTE:");
    printf("starting %ld virtual threads on %d carriers\n", census->count, weft_carrier_count());
    weft_time start = weft_now();
    weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER);
    everywhere.place = WEFT_PLACE_SPREAD;
    weft_scope_set_attr(&scope, &everywhere);
    long spawned = 0;
    while (spawned < census->count && weft_scope_spawn(&scope, sleeper, census) == 0) {
        spawned++;
    }
    while (atomic_load(&census->asleep) < spawned && weft_sleep(WEFT_MS) == 0) {
    }
    double seconds = seconds_since(start);
    if (spawned < census->count) {
        printf("only %ld could be started\n", spawned);
    }
    resident = (status_bytes("VmRSS:") - resident) / (double)spawned;
    tables = (status_bytes("VmPTE:") - tables) / (double)spawned;
    printf("all started and asleep   %8.2f s  %9.0f ns each\n", seconds, seconds * 1e9 / spawned);
    printf("resident memory          %8.0f bytes each, and %.0f for page tables\n", resident,
           tables);

    start = weft_now();
    weft_scope_cancel(&scope); // every sleep returns -ECANCELED
    int rc = weft_scope_join(&scope);
    seconds = seconds_since(start);
    printf("all woken and ended      %8.2f s  %9.0f ns each\n", seconds, seconds * 1e9 / spawned);
    return rc == -ECANCELED && spawned == census->count ? 0 : rc; // -ECANCELED: by ourselves
}

int main(int argc, char **argv)
{
    struct census census = { .count = argc > 1 ? strtol(argv[1], NULL, 10) : 1000000 };
    if (census.count <= 0) {
        fprintf(stderr, "usage: million [COUNT]\n");
        return 2;
    }
    int rc = weft_run(run, &census, NULL);
    if (rc < 0) {
        fprintf(stderr, "million: %s\n", strerror(-rc));
        return 1;
    }
    printf("clean shutdown: %ld of %ld threads came back, nothing is left running\n",
           atomic_load(&census.woken), census.count);
    return atomic_load(&census.woken) != census.count;
}
