// rate_limiter.c - a token bucket: so many requests at once, and then so many per second.
//
// The bucket is a semaphore. Who wants to go takes a permit, and waits in line for it; a task puts one
// in at each tick of an interval, unless the bucket is full.
#include <errno.h>
#include <stdio.h>
#include <weft.h>

struct limiter {
    struct weft_semaphore permits;
    uint64_t burst;      // the bucket holds so many
    weft_time period_ns; // one more each
    weft_task *filler;
};

static int fill(void *arg)
{
    struct limiter *limiter = arg;
    struct weft_interval ticks;
    int rc = weft_interval_init(&ticks, weft_after(limiter->period_ns), limiter->period_ns,
                                WEFT_MISSED_SKIP);
    while (rc == 0) {
        rc = weft_interval_tick(NULL, &ticks);
        if (rc == 0 && weft_semaphore_available(&limiter->permits) < limiter->burst) {
            rc = weft_semaphore_release(&limiter->permits, 1);
        }
    }
    return rc == -ECANCELED ? 0 : rc;
}

static int limiter_start(struct limiter *limiter, uint64_t burst, weft_time period_ns)
{
    limiter->burst = burst;
    limiter->period_ns = period_ns;
    int rc = weft_semaphore_init(&limiter->permits, burst);
    return rc < 0 ? rc : weft_spawn(&limiter->filler, fill, limiter, NULL);
}

static int limiter_stop(struct limiter *limiter)
{
    int result;
    weft_task_cancel(limiter->filler);
    int rc = weft_join(&result, limiter->filler, WEFT_FOREVER);
    rc = rc < 0 ? rc : weft_semaphore_fini(&limiter->permits);
    return rc < 0 ? rc : result;
}

static int limiter_pass(struct limiter *limiter, weft_time deadline)
{
    return weft_semaphore_acquire(&limiter->permits, 1, deadline);
}

enum { CLIENTS = 4, EACH = 5, BURST = 5 };

static struct limiter limiter;
static weft_time began;

static int client(void *arg)
{
    for (int i = 0; i < EACH; i++) {
        int rc = limiter_pass(&limiter, WEFT_FOREVER);
        if (rc < 0) {
            return rc;
        }
        printf("client %d, request %d after %llu ms\n", *(int *)arg, i,
               (unsigned long long)((weft_now() - began) / WEFT_MS));
    }
    return 0;
}

static int run(void *arg)
{
    (void)arg;
    static int numbers[CLIENTS] = { 0, 1, 2, 3 };
    weft_task *clients[CLIENTS];
    began = weft_now();
    int rc = limiter_start(&limiter, BURST, 2 * WEFT_MS);
    for (int i = 0; i < CLIENTS && rc == 0; i++) {
        rc = weft_spawn(&clients[i], client, &numbers[i], NULL);
    }
    if (rc < 0) {
        return rc;
    }
    int error;
    rc = weft_try_join_all(&error, NULL, clients, CLIENTS, WEFT_FOREVER);
    weft_time took = weft_now() - began;

    // A request that cannot wait is told so at once.
    while (rc == 0 && weft_semaphore_try_acquire(&limiter.permits, 1) == 0) {
    }
    int late = limiter_pass(&limiter, weft_now());
    printf("without waiting: %s\n", late == -ETIMEDOUT ? "refused" : "served");
    int stopped = limiter_stop(&limiter);
    bool right = error == 0 && took >= (CLIENTS * EACH - BURST) * 2 * WEFT_MS;
    return rc < 0 ? rc : stopped < 0 ? stopped : right ? 0 : -EPROTO;
}

int main(void)
{
    return weft_run(run, NULL, NULL) < 0;
}
