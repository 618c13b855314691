// wake_measure.c - passes a token between two pinned threads and times it.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "wake.h"

const struct wake_mechanism *const wake_mechanisms[] = {
    &wake_spin,
    &wake_futex,
    &wake_eventfd_read,
    &wake_eventfd_epoll,
    &wake_eventfd_epoll_et,
#if WEFT_HAVE_URING
    &wake_uring_poll_defer,
    &wake_uring_poll_coop,
    &wake_uring_read_defer,
    &wake_msg_defer,
    &wake_msg_coop,
    &wake_msg_joined_defer,
    &wake_sync_msg_defer,
    &wake_sync_msg_coop,
    &wake_ring_eventfd,
#endif
    NULL,
};

struct player {
    struct wake_pair *pair;
    pthread_barrier_t *barrier;
    int me, cpu, error;
    unsigned count;
    int *errors[2];
    double round_trip_ns, wake_call_ns, cpu_ns;
};

static double now_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return -pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static void play(struct player *p, unsigned count)
{
    const struct wake_mechanism *m = p->pair->mechanism;
    for (unsigned i = 0; i < count; i++) {
        if (p->me == 0) {
            m->wake(p->pair, 1);
            m->wait(p->pair, 0);
        } else {
            m->wait(p->pair, 1);
            m->wake(p->pair, 0);
        }
    }
}

// The same exchange with a clock around each wake of side 1, which sleeps by then.
static double play_timed(struct player *p, unsigned count)
{
    const struct wake_mechanism *m = p->pair->mechanism;
    double sum_ns = 0, clock_ns = 0;
    for (unsigned i = 0; i < count; i++) {
        double t0 = now_ns(CLOCK_MONOTONIC);
        m->wake(p->pair, 1);
        double t1 = now_ns(CLOCK_MONOTONIC);
        clock_ns += now_ns(CLOCK_MONOTONIC) - t1;
        sum_ns += t1 - t0;
        m->wait(p->pair, 0);
    }
    return (sum_ns - clock_ns) / count;
}

static void *player_main(void *arg)
{
    struct player *p = arg;
    const struct wake_mechanism *m = p->pair->mechanism;
    p->error = pin(p->cpu);
    if (p->error == 0 && m->attach != NULL) {
        p->error = m->attach(p->pair, p->me);
    }
    pthread_barrier_wait(p->barrier);
    if (*p->errors[0] < 0 || *p->errors[1] < 0) {
        return NULL;
    }
    unsigned warm = p->count / 20 + 10;
    play(p, warm);
    double t0 = now_ns(CLOCK_MONOTONIC), c0 = now_ns(CLOCK_THREAD_CPUTIME_ID);
    play(p, p->count);
    p->cpu_ns = (now_ns(CLOCK_THREAD_CPUTIME_ID) - c0) / p->count;
    p->round_trip_ns = (now_ns(CLOCK_MONOTONIC) - t0) / p->count;
    if (p->me == 0) {
        p->wake_call_ns = play_timed(p, p->count);
    } else {
        play(p, p->count);
    }
    if (m->flush != NULL) {
        m->flush(p->pair, p->me);
    }
    return NULL;
}

int wake_measure(struct wake_result *out, const struct wake_mechanism *mechanism, const int cpu[2],
                 unsigned count)
{
    struct wake_pair pair = { .mechanism = mechanism };
    int rc = mechanism->open(&pair);
    if (rc < 0) {
        return rc;
    }
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, 2);
    struct player players[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        players[i] = (struct player){ .pair = &pair,
                                      .barrier = &barrier,
                                      .me = i,
                                      .cpu = cpu[i],
                                      .count = count,
                                      .errors = { &players[0].error, &players[1].error } };
    }
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&threads[i], NULL, player_main, &players[i]) != 0) {
            abort(); // the first thread could not be stopped any more
        }
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_barrier_destroy(&barrier);
    mechanism->close(&pair);
    rc = players[0].error < 0 ? players[0].error : players[1].error;
    *out = (struct wake_result){ players[0].round_trip_ns, players[0].wake_call_ns,
                                 (players[0].cpu_ns + players[1].cpu_ns) / 2 };
    return rc;
}
