// epoll.c - a carrier waits in epoll; a kick is an eventfd.
//
// The eventfd is watched edge-triggered and never read: each signal is one event, and a kick costs
// one system call on each side. docs/design/wakeup.md has the numbers.
//
//   E1  Events are taken first and the token lowered after that (K2 in io/token.h).
//   E2  A kick taken by poll() is remembered in `kicked` and ends the next wait.
//   E3  A wait ends at or after `until`. epoll_pwait2 takes a timeout that is relative to a clock
//       read before the call; the timerfd is absolute.
//
// Locks: none. Checked by: tests/unit/driver_test.c.
#include "io/io.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/sys.h"
#include "io/event.h"
#include "io/sockets.h"
#include "io/token.h"

enum {
    EVENTS_AT_ONCE = WEFT__SIZED(64, 1),
};

/// Kernels let a poll timeout be late by a thousandth of itself, 100 ms at most. Beyond this length
/// that is more than a timer's usual slack of 50 us, so that a wait goes in two pieces.
#define LONG_WAIT_NS (50 * WEFT_MS)
#define LONGEST_WAIT_NS (24 * 3600 * WEFT_S)

/// What an event's data says.
enum tag {
    TAG_KICK,
    TAG_TIMER,
};

struct epoll {
    // Set by open(), read by kickers.
    int event_fd;

    // Kickers and the owner.
    _Alignas(WEFT__LINE_PAIR) struct weft__token token;

    // The owner's alone.
    _Alignas(WEFT__LINE_PAIR) int epoll_fd;
    int timer_fd;       ///< -1 where epoll_pwait2 does the timing
    weft_time timer_at; ///< what the timerfd is armed for, or WEFT_FOREVER
    unsigned watched;   ///< descriptors in the set that are not our own
    bool kicked;        ///< a kick was taken and has not ended a wait yet
    const struct weft_allocator *allocator;
    struct epoll_event events[EVENTS_AT_ONCE];
};

static struct timespec to_timespec(weft_time t)
{
    return (struct timespec){ .tv_sec = (time_t)(t / WEFT_S), .tv_nsec = (long)(t % WEFT_S) };
}

static void take(struct epoll *e, const struct epoll_event *event)
{
    switch (event->data.u64) {
    case TAG_KICK: e->kicked = true; break;
    case TAG_TIMER: e->timer_at = WEFT_FOREVER; break;
    default: weft_assert(!"an event that nobody asked for");
    }
}

/// Takes what epoll_wait said. Returns the number of events, kicks and timeouts not counted.
static int reap(struct epoll *e, int count)
{
    weft_assert(count >= 0 || errno == EINTR);
    for (int i = 0; i < count; i++) {
        take(e, &e->events[i]);
    }
    return 0;
}

/// Arms the timerfd, unless it is armed for that moment already.
static void set_timer(struct epoll *e, weft_time until)
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
static int sleep_until(struct epoll *e, weft_time until)
{
    if (e->timer_fd >= 0) {
        set_timer(e, until);
    }
    if (e->timer_fd >= 0 || until == WEFT_FOREVER) {
        return epoll_wait(e->epoll_fd, e->events, EVENTS_AT_ONCE, -1);
    }
    weft_time now = weft__clock_ns();
    weft_time left = until > now ? until - now : 0;
    if (left > LONG_WAIT_NS) {
        left -= left / 512;
        left = left < LONGEST_WAIT_NS ? left : LONGEST_WAIT_NS;
    }
    struct timespec timeout = to_timespec(left);
    return epoll_pwait2(e->epoll_fd, e->events, EVENTS_AT_ONCE, &timeout, NULL);
}

static int epoll_driver_poll(void *state)
{
    struct epoll *e = state;
    if (e->watched == 0) {
        return 0;
    }
    return reap(e, epoll_wait(e->epoll_fd, e->events, EVENTS_AT_ONCE, 0));
}

static int epoll_driver_wait(void *state, weft_time until)
{
    struct epoll *e = state;
    int events = 0;
    while (events == 0 && !e->kicked) {
        events = reap(e, sleep_until(e, until));
        if (weft__clock_ns() >= until) {
            break;
        }
    }
    if (e->kicked) {
        e->kicked = false;
        weft__token_lower(&e->token);
    }
    return events;
}

static void epoll_driver_kick(void *state, void *from)
{
    struct epoll *e = state;
    (void)from;
    if (weft__token_raise(&e->token)) {
        weft__event_signal(e->event_fd);
    }
}

static int watch(struct epoll *e, int fd, uint32_t events, enum tag tag)
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
static int choose_clock(struct epoll *e)
{
    struct timespec zero = { 0 };
    if (epoll_pwait2(e->epoll_fd, e->events, EVENTS_AT_ONCE, &zero, NULL) >= 0 || errno == EINTR) {
        return 0;
    }
    e->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (e->timer_fd < 0) {
        return -errno;
    }
    return watch(e, e->timer_fd, EPOLLIN | EPOLLET, TAG_TIMER);
}

static void free_state(struct epoll *e)
{
    close_if_open(e->timer_fd);
    close_if_open(e->epoll_fd);
    close_if_open(e->event_fd);
    weft__free(e->allocator, e, sizeof *e);
}

static int epoll_driver_open(void **state, const struct weft__driver_config *config)
{
    *state = NULL;
    struct epoll *e = weft__alloc(config->allocator, sizeof *e, _Alignof(struct epoll));
    if (e == NULL) {
        return -ENOMEM;
    }
    e->allocator = config->allocator;
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

const struct weft__driver weft__epoll_driver = {
    .name = "epoll",
    .open = epoll_driver_open,
    .close = epoll_driver_close,
    .poll = epoll_driver_poll,
    .wait = epoll_driver_wait,
    .kick = epoll_driver_kick,
    .sockets = &weft__sockets_nonblocking,
};
