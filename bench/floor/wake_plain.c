// wake_plain.c - wake-ups without io_uring: shared memory, futex, eventfd, epoll.
#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wake.h"

struct word {
    _Alignas(128) _Atomic uint32_t value;
};

struct words {
    struct word side[2];
};

static int words_open(struct wake_pair *pair)
{
    struct words *words = aligned_alloc(128, sizeof *words);
    if (words == NULL) {
        return -ENOMEM;
    }
    atomic_init(&words->side[0].value, 0);
    atomic_init(&words->side[1].value, 0);
    pair->state = words;
    return 0;
}

static void words_close(struct wake_pair *pair)
{
    free(pair->state);
}

static void spin_wake(struct wake_pair *pair, int to)
{
    struct words *words = pair->state;
    atomic_store_explicit(&words->side[to].value, 1, memory_order_release);
}

static void spin_wait(struct wake_pair *pair, int me)
{
    _Atomic uint32_t *value = &((struct words *)pair->state)->side[me].value;
    while (atomic_load_explicit(value, memory_order_acquire) == 0) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    atomic_store_explicit(value, 0, memory_order_relaxed);
}

static void futex_wake(struct wake_pair *pair, int to)
{
    struct words *words = pair->state;
    atomic_store_explicit(&words->side[to].value, 1, memory_order_release);
    syscall(SYS_futex, &words->side[to].value, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void futex_wait(struct wake_pair *pair, int me)
{
    _Atomic uint32_t *value = &((struct words *)pair->state)->side[me].value;
    while (atomic_exchange_explicit(value, 0, memory_order_acquire) == 0) {
        syscall(SYS_futex, value, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    }
}

struct fds {
    int event[2];
    int epoll[2];
};

static void fds_close(struct wake_pair *pair)
{
    struct fds *fds = pair->state;
    for (int i = 0; i < 2; i++) {
        if (fds->event[i] >= 0) {
            close(fds->event[i]);
        }
        if (fds->epoll[i] >= 0) {
            close(fds->epoll[i]);
        }
    }
    free(fds);
}

static int fds_open(struct wake_pair *pair, int eventfd_flags, uint32_t epoll_events)
{
    struct fds *fds = malloc(sizeof *fds);
    if (fds == NULL) {
        return -ENOMEM;
    }
    *fds = (struct fds){ { -1, -1 }, { -1, -1 } };
    pair->state = fds;
    for (int i = 0; i < 2; i++) {
        fds->event[i] = eventfd(0, EFD_CLOEXEC | eventfd_flags);
        if (fds->event[i] < 0) {
            goto undo;
        }
        if (epoll_events == 0) {
            continue;
        }
        fds->epoll[i] = epoll_create1(EPOLL_CLOEXEC);
        struct epoll_event event = { .events = epoll_events };
        if (fds->epoll[i] < 0 ||
            epoll_ctl(fds->epoll[i], EPOLL_CTL_ADD, fds->event[i], &event) < 0) {
            goto undo;
        }
    }
    return 0;
undo:;
    int error = errno;
    fds_close(pair);
    return -error;
}

static int eventfd_open(struct wake_pair *pair)
{
    return fds_open(pair, 0, 0);
}

static int epoll_open(struct wake_pair *pair)
{
    return fds_open(pair, EFD_NONBLOCK, EPOLLIN);
}

static int epoll_et_open(struct wake_pair *pair)
{
    return fds_open(pair, EFD_NONBLOCK, EPOLLIN | EPOLLET);
}

static void eventfd_wake(struct wake_pair *pair, int to)
{
    struct fds *fds = pair->state;
    uint64_t one = 1;
    if (write(fds->event[to], &one, sizeof one) != sizeof one) {
        abort();
    }
}

static void eventfd_drain(int fd)
{
    uint64_t value;
    if (read(fd, &value, sizeof value) != sizeof value) {
        abort();
    }
}

static void eventfd_wait(struct wake_pair *pair, int me)
{
    eventfd_drain(((struct fds *)pair->state)->event[me]);
}

static void epoll_et_wait(struct wake_pair *pair, int me)
{
    struct fds *fds = pair->state;
    struct epoll_event event;
    while (epoll_wait(fds->epoll[me], &event, 1, -1) != 1) {
    }
}

static void epoll_lt_wait(struct wake_pair *pair, int me)
{
    epoll_et_wait(pair, me);
    eventfd_wait(pair, me);
}

const struct wake_mechanism wake_spin = {
    .name = "spin",
    .what = "shared memory, both sides spin (no sleep)",
    .open = words_open,
    .wake = spin_wake,
    .wait = spin_wait,
    .close = words_close,
};
const struct wake_mechanism wake_futex = {
    .name = "futex",
    .what = "FUTEX_WAKE / FUTEX_WAIT, private",
    .open = words_open,
    .wake = futex_wake,
    .wait = futex_wait,
    .close = words_close,
};
const struct wake_mechanism wake_eventfd_read = {
    .name = "eventfd-read",
    .what = "write / blocking read",
    .open = eventfd_open,
    .wake = eventfd_wake,
    .wait = eventfd_wait,
    .close = fds_close,
};
const struct wake_mechanism wake_eventfd_epoll = {
    .name = "eventfd-epoll",
    .what = "write / epoll_wait, then read to drain",
    .open = epoll_open,
    .wake = eventfd_wake,
    .wait = epoll_lt_wait,
    .close = fds_close,
};
const struct wake_mechanism wake_eventfd_epoll_et = {
    .name = "eventfd-epoll-et",
    .what = "write / epoll_wait edge-triggered, never drained",
    .open = epoll_et_open,
    .wake = eventfd_wake,
    .wait = epoll_et_wait,
    .close = fds_close,
};
