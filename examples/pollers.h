// pollers.h - five ways to run a loop of one's own beside virtual threads on the same OS thread.
//
// The loop stands for whatever a program has to poll itself: here a counter of jobs that other threads
// add to. All but the last are pollers of a carrier (weft/poller.h).
#ifndef EXAMPLE_POLLERS_H
#define EXAMPLE_POLLERS_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <weft.h>

struct loop {
    weft_poller *poller;
    atomic_bool stop;
    atomic_ulong posted;  // jobs
    atomic_ulong handled; // jobs
    atomic_ulong rounds;
    atomic_ulong sleeps;
    int bell; // eventfd: there are jobs, or the loop has to stop
    int set;  // epoll set of the blocking poller
    pthread_mutex_t mutex;
    pthread_cond_t rung; // of the poller that sleeps on a lock
    bool permit;         // under mutex
};

static inline int loop_init(struct loop *loop)
{
    *loop = (struct loop){ .set = -1 };
    pthread_mutex_init(&loop->mutex, NULL);
    pthread_condattr_t monotonic; // as deadlines are
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&loop->rung, &monotonic);
    pthread_condattr_destroy(&monotonic);
    loop->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return loop->bell < 0 ? -errno : 0;
}

static inline void loop_fini(struct loop *loop)
{
    close(loop->bell);
    pthread_cond_destroy(&loop->rung);
    pthread_mutex_destroy(&loop->mutex);
}

// Ends a sleep on the lock: sticky, so that it does not matter whether the loop sleeps already.
static inline void loop_wake(void *arg)
{
    struct loop *loop = (struct loop *)arg;
    pthread_mutex_lock(&loop->mutex);
    loop->permit = true;
    pthread_cond_signal(&loop->rung);
    pthread_mutex_unlock(&loop->mutex);
}

static inline void loop_ring(struct loop *loop)
{
    const uint64_t one = 1;
    ssize_t n = write(loop->bell, &one, sizeof one);
    (void)n; // full means that it has been rung often enough
    loop_wake(loop);
}

// From any thread.
static inline void loop_post(struct loop *loop, unsigned long jobs)
{
    atomic_fetch_add(&loop->posted, jobs);
    loop_ring(loop);
}

static inline void loop_stop(struct loop *loop)
{
    atomic_store(&loop->stop, true);
    loop_ring(loop);
}

// The loop's own work, without waiting. True: there was some.
static inline bool loop_poll(struct loop *loop)
{
    uint64_t count;
    atomic_fetch_add(&loop->rounds, 1);
    ssize_t n = read(loop->bell, &count, sizeof count);
    (void)n;
    unsigned long jobs = atomic_load(&loop->posted) - atomic_load(&loop->handled);
    atomic_fetch_add(&loop->handled, jobs);
    return jobs > 0;
}

// Spinning: the shortest way from event to work, at the price of a CPU.
static inline int loop_spin(void *arg)
{
    struct loop *loop = (struct loop *)arg;
    int rc = 0;
    while (!atomic_load(&loop->stop) && rc >= 0) {
        rc = weft_poller_maybe_yield(loop->poller, loop_poll(loop));
    }
    return 0;
}

// Blocking with a permit: everything that can end the sleep is a descriptor that stays readable.
static inline int loop_sleep_in_epoll(void *arg, int fd, weft_time until)
{
    struct loop *loop = (struct loop *)arg;
    struct epoll_event event;
    weft_time now = weft_now();
    weft_time left_ns = until > now ? until - now : 0;
    int timeout_ms = until == WEFT_FOREVER ? -1
                     : left_ns > WEFT_S    ? 1000
                                           : (int)((left_ns + WEFT_MS - 1) / WEFT_MS);
    (void)fd; // is in the set
    atomic_fetch_add(&loop->sleeps, 1);
    return epoll_wait(loop->set, &event, 1, timeout_ms);
}

static inline int loop_watch(const struct loop *loop, int fd)
{
    struct epoll_event event = { .events = EPOLLIN };
    return fd < 0 ? fd : epoll_ctl(loop->set, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static inline int loop_block(void *arg)
{
    struct loop *loop = (struct loop *)arg;
    loop->set = epoll_create1(EPOLL_CLOEXEC);
    int rc = loop->set < 0 ? -errno : loop_watch(loop, loop->bell);
    rc = rc == 0 ? loop_watch(loop, weft_poller_fd(loop->poller)) : rc;
    int error = rc;
    while (!atomic_load(&loop->stop) && rc >= 0) {
        bool had_io = loop_poll(loop);
        rc = weft_poller_maybe_yield(loop->poller, had_io);
        if (rc == 0 && !had_io && !atomic_load(&loop->stop)) { // nobody had anything to do
            (void)weft_poll_guard(loop->poller, loop_sleep_in_epoll, loop);
        }
    }
    close(loop->set);
    return error;
}

// Blocking with a lock: the last look and the sleep are one step for whoever wakes. Without the
// descriptor it may sleep only while none of the carrier's operations is in flight.
static inline void loop_sleep_on_lock(struct loop *loop)
{
    pthread_mutex_lock(&loop->mutex);
    while (!loop->permit && weft_poller_can_park(loop->poller)) {
        weft_time until = weft_poller_next_deadline(loop->poller);
        struct timespec when = { .tv_sec = (time_t)(until / WEFT_S),
                                 .tv_nsec = (long)(until % WEFT_S) };
        atomic_fetch_add(&loop->sleeps, 1);
        if (until == WEFT_FOREVER) {
            pthread_cond_wait(&loop->rung, &loop->mutex);
        } else if (pthread_cond_timedwait(&loop->rung, &loop->mutex, &when) == ETIMEDOUT) {
            break;
        }
    }
    loop->permit = false;
    pthread_mutex_unlock(&loop->mutex);
}

static inline int loop_lock(void *arg) // registered with loop_wake()
{
    struct loop *loop = (struct loop *)arg;
    int rc = 0;
    while (!atomic_load(&loop->stop) && rc >= 0) {
        bool had_io = loop_poll(loop);
        rc = weft_poller_maybe_yield(loop->poller, had_io);
        if (rc == 0 && !had_io && weft_poller_try_park(loop->poller)) {
            loop_sleep_on_lock(loop);
            weft_poller_unpark(loop->poller);
        }
    }
    return 0;
}

// Cooperative: it waits as any virtual thread does, and the carrier sleeps by itself.
static inline int loop_cooperate(void *arg)
{
    struct loop *loop = (struct loop *)arg;
    int rc = 0;
    while (!atomic_load(&loop->stop) && rc >= 0) {
        rc = weft_poll(loop->bell, 0x1 /* POLLIN */, WEFT_FOREVER);
        bool had_io = loop_poll(loop);
        rc = rc < 0 ? rc : weft_poller_maybe_yield(loop->poller, had_io);
    }
    return 0;
}

// Not a poller at all: an ordinary thread that may move to another carrier between two rounds.
static inline int loop_yield(void *arg)
{
    struct loop *loop = (struct loop *)arg;
    int rc = 0;
    while (!atomic_load(&loop->stop) && rc == 0) {
        (void)loop_poll(loop);
        rc = weft_yield();
    }
    return 0;
}

#endif
