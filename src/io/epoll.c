// epoll.c - a carrier waits in epoll; a kick is an eventfd.
//
// The eventfd is watched edge-triggered and never read: each signal is one event, and a kick costs
// one system call on each side. docs/design/wakeup.md has the numbers. What is done about operations
// is in epoll_ops.c.
//
//   E1  Events are taken first and the token lowered after that (K2 in io/token.h).
//   E2  A kick taken by poll() is remembered in `kicked` and ends the next wait.
//   E3  A wait ends at or after `until`. epoll_pwait2 takes a timeout that is relative to a clock
//       read before the call; the timerfd is absolute.
//
// Locks: none. Checked by: tests/unit/driver_test.c.
#include "io/epoll.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <time.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/sys.h"
#include "io/event.h"
#include "io/io.h"
#include "io/sockets.h"
#include "sched/carrier.h"

/// Kernels let a poll timeout be late by a thousandth of itself, 100 ms at most. Beyond this length
/// that is more than a timer's usual slack of 50 us, so that a wait goes in two pieces.
#define LONG_WAIT_NS (50 * WEFT_MS)
#define LONGEST_WAIT_NS (24 * 3600 * WEFT_S)

/// What an event's data says of our own descriptors; else the lower half is the descriptor.
#define TAG_KICK UINT64_MAX
#define TAG_TIMER (UINT64_MAX - 1)

static struct timespec to_timespec(weft_time t)
{
    return (struct timespec){ .tv_sec = (time_t)(t / WEFT_S), .tv_nsec = (long)(t % WEFT_S) };
}

static inline void take(struct weft__epoll *e, const struct epoll_event *event)
{
    if (weft__likely(event->data.u64 < TAG_TIMER)) {
        weft__epoll_happened(e, event);
    } else if (event->data.u64 == TAG_KICK) {
        e->kicked = true;
    } else {
        e->timer_at = WEFT_FOREVER;
    }
}

/// Takes what epoll_wait said, and does what it leads to.
static void reap(struct weft__epoll *e, int count)
{
    weft_assert(count >= 0 || errno == EINTR);
    weft__count(&e->counts.enters);
    e->turn++;
    e->calm = e->calm && count <= 1;
    for (int i = 0; i < count; i++) {
        take(e, &e->events[i]);
    }
    if (e->doubts.count > 0) {
        weft__doubts_age(e);
    }
    if (weft__epoll_has_work(e)) {
        weft__epoll_work(e);
    }
}

/// Arms the timerfd, unless it is armed for that moment already.
static void set_timer(struct weft__epoll *e, weft_time until)
{
    if (until == e->timer_at) {
        return;
    }
    // A timer at 0 would be a disarmed one; and a signed 64-bit time must hold it.
    weft_time when = until == WEFT_FOREVER ? 0 : until > 0 ? until : 1;
    struct itimerspec spec = { .it_value = to_timespec(when < INT64_MAX ? when : INT64_MAX) };
    int rc = timerfd_settime(e->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
    weft_assert(rc == 0);
    e->timer_at = until;
}

/// Sleeps until there is an event or, roughly, until `until`.
static int sleep_until(struct weft__epoll *e, weft_time until)
{
    if (weft__unlikely(e->retrying.head != NULL) && e->retry_at < until) {
        until = e->retry_at;
    }
    if (e->timer_fd >= 0) {
        set_timer(e, until);
    }
    if (e->timer_fd >= 0 || until == WEFT_FOREVER) {
        return epoll_wait(e->epoll_fd, e->events, WEFT__EPOLL_EVENTS, -1);
    }
    weft_time now = weft__clock_ns();
    weft_time left = until > now ? until - now : 0;
    if (left > LONG_WAIT_NS) {
        left -= left / 512;
        left = left < LONGEST_WAIT_NS ? left : LONGEST_WAIT_NS;
    }
    struct timespec timeout = to_timespec(left);
    return epoll_pwait2(e->epoll_fd, e->events, WEFT__EPOLL_EVENTS, &timeout, NULL);
}

static int look(struct weft__epoll *e)
{
    return epoll_wait(e->epoll_fd, e->events, WEFT__EPOLL_EVENTS, 0);
}

/// A look first if there may be something: what it brings needs no proof any more (epoll_trust.c, T3).
static int look_or_sleep(struct weft__epoll *e, weft_time until)
{
    if (e->doubts.count > 0) {
        int count = e->calm ? 0 : look(e);
        if (count != 0) {
            return count;
        }
        e->calm = true;
        weft__doubts_settle(e);
    }
    return weft__epoll_has_work(e) ? look(e) : sleep_until(e, until);
}

static int epoll_driver_poll(void *state)
{
    struct weft__epoll *e = state;
    e->ended = 0;
    if (e->waiting > 0) {
        reap(e, look(e));
    } else if (weft__epoll_has_work(e)) {
        weft__epoll_work(e);
    }
    return e->ended;
}

static int epoll_driver_wait(void *state, weft_time until)
{
    struct weft__epoll *e = state;
    e->ended = 0;
    while (e->ended == 0 && !e->kicked) {
        reap(e, look_or_sleep(e, until));
        if (e->ended == 0 && weft__clock_ns() >= until) {
            break;
        }
    }
    if (e->kicked) {
        e->kicked = false;
        weft__token_lower(&e->token);
    }
    return e->ended;
}

/// An epoll set is readable itself while it has events.
static int epoll_driver_lookout(void *state, int *fd, weft_time *until)
{
    struct weft__epoll *e = state;
    e->ended = 0;
    reap(e, look(e));
    if (e->doubts.count > 0) {
        e->calm = true;
        weft__doubts_settle(e);
    }
    if (e->kicked) {
        e->kicked = false;
        weft__token_lower(&e->token);
    }
    *fd = e->epoll_fd;
    *until = weft__epoll_has_work(e) ? 0 : e->retrying.head != NULL ? e->retry_at : WEFT_FOREVER;
    return e->ended;
}

static void epoll_driver_kick(void *state, void *from)
{
    struct weft__epoll *e = state;
    (void)from;
    if (weft__token_raise(&e->token)) {
        weft__event_signal(e->event_fd);
    }
}

static int watch(struct weft__epoll *e, int fd, uint32_t events, uint64_t tag)
{
    struct epoll_event event = { .events = events, .data.u64 = tag };
    return epoll_ctl(e->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static void close_if_open(int fd)
{
    if (fd >= 0) {
        weft__sys_close(fd);
    }
}

/// Uses epoll_pwait2 (Linux 5.11) if it answers, else a timerfd.
static int choose_clock(struct weft__epoll *e)
{
    struct timespec zero = { 0 };
    if (epoll_pwait2(e->epoll_fd, e->events, WEFT__EPOLL_EVENTS, &zero, NULL) >= 0 ||
        errno == EINTR) {
        return 0;
    }
    e->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (e->timer_fd < 0) {
        return -errno;
    }
    return watch(e, e->timer_fd, EPOLLIN | EPOLLET, TAG_TIMER);
}

static void free_state(struct weft__epoll *e)
{
    weft__epoll_await_jobs(e);
    weft__epoll_buffers_fini(e);
    weft__slots_fini(e);
    weft__free(e->allocator, e->splices.ops, e->splices.room * sizeof(struct weft__op *));
    close_if_open(e->timer_fd);
    close_if_open(e->epoll_fd);
    close_if_open(e->event_fd);
    weft__free(e->allocator, e, sizeof *e);
}

static int epoll_driver_open(void **state, const struct weft__driver_config *config)
{
    *state = NULL;
    struct weft__epoll *e = weft__alloc(config->allocator, sizeof *e, _Alignof(struct weft__epoll));
    if (e == NULL) {
        return -ENOMEM;
    }
    e->allocator = config->allocator;
    e->offload = config->offload;
    e->epoll_fd = e->timer_fd = -1;
    e->timer_at = WEFT_FOREVER;
    int rc = e->event_fd = weft__sys_eventfd(0);
    if (rc < 0) {
        goto fail;
    }
    e->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (e->epoll_fd < 0) {
        rc = -errno;
        goto fail;
    }
    rc = watch(e, e->event_fd, EPOLLIN | EPOLLET, TAG_KICK);
    if (rc < 0) {
        goto fail;
    }
    rc = choose_clock(e);
    if (rc < 0) {
        goto fail;
    }
    rc = weft__epoll_buffers_init(e, config->buffers, config->buffer_bytes);
    if (rc < 0) {
        goto fail;
    }
    *state = e;
    return 0;

fail:
    free_state(e);
    return rc;
}

static void epoll_driver_close(void *state)
{
    free_state(state);
}

static const struct weft__op_counts *epoll_driver_counts(void *state)
{
    return &((struct weft__epoll *)state)->counts;
}

const struct weft__driver weft__epoll_driver = {
    .name = "epoll",
    .open = epoll_driver_open,
    .close = epoll_driver_close,
    .poll = epoll_driver_poll,
    .wait = epoll_driver_wait,
    .lookout = epoll_driver_lookout,
    .kick = epoll_driver_kick,
    .submit = weft__epoll_submit,
    .write_now = weft__epoll_write_now,
    .cancel = weft__epoll_cancel,
    .forget = weft__epoll_forget,
    .buffer = weft__epoll_buffer,
    .give = weft__epoll_give,
    .counts = epoll_driver_counts,
    .sockets = &weft__sockets_nonblocking,
};
