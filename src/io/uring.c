// uring.c - a carrier waits in its own io_uring.
//
// Two ways lead a kick into the ring. A message (synchronous MSG_RING, Linux 6.13) is the fastest
// thing that wakes a sleeper here and needs no ring on the kicker's side. An eventfd, polled by the
// ring from open to close, takes every kick before 6.13 and each one whose message the kernel
// refuses. docs/design/wakeup.md has the numbers.
//
//   U1  Completions are taken first and the token lowered after that (K2 in io/token.h).
//   U2  A kick taken by poll() is remembered in `kicked` and ends the next wait.
//   U3  The poll of the eventfd is armed whenever the ring sleeps: enter() submits before it sleeps.
//   U4  A wait ends at or after `until`: the timeout is relative to a clock read before the call.
//
// Rejected: MSG_RING from the kicker's own ring (as fast, but failure is reported later and
// elsewhere, when the target may be gone).
// Locks: none. Checked by: tests/unit/driver_test.c.
#include "io/io.h"

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/sanitizer.h"
#include "base/sys.h"
#include "io/event.h"
#include "io/sockets.h"
#include "io/token.h"
#include "io/uring_compat.h"

#if WEFT__TSAN
#include <sanitizer/tsan_interface.h>
#endif

enum {
    DEFAULT_ENTRIES = WEFT__SIZED(256, 4),
    FEWEST_ENTRIES = 2, ///< open() queues two operations at once
};

/// Some kernels add a relative timeout to the clock without saturating; longer waits go in pieces.
#define LONGEST_WAIT_NS (24 * 3600 * WEFT_S)
#define TRIAL_LIMIT_NS (1 * WEFT_S)

/// What a completion's user_data says.
enum tag {
    TAG_TRIAL,   ///< the operation that open() tries the ring with
    TAG_MESSAGE, ///< a kick by message
    TAG_EVENT,   ///< the eventfd was signalled
};

struct uring {
    // Set by open(), read by kickers.
    int ring_fd;
    int event_fd;
    bool has_messages;

    // Kickers and the owner.
    _Alignas(WEFT__LINE_PAIR) struct weft__token token;

    // The owner's alone.
    _Alignas(WEFT__LINE_PAIR) struct io_uring ring;
    const struct weft_allocator *allocator;
    unsigned sleep_flags; ///< how io_uring_enter is to sleep
    int event_error;      ///< how the last poll of the eventfd ended
    bool kicked;          ///< a kick was taken and has not ended a wait yet
    bool rearm;           ///< the poll of the eventfd has ended and found no room in the queue
    bool trial_ok;        ///< the trial operation came back
};

static int send_message(int ring_fd)
{
    struct io_uring_sqe sqe;
    memset(&sqe, 0, sizeof sqe);
    sqe.opcode = IORING_OP_MSG_RING;
    sqe.fd = ring_fd;
    sqe.off = TAG_MESSAGE; // the user_data of the completion over there
    return io_uring_register((unsigned)-1, WEFT__REGISTER_SEND_MSG_RING, &sqe, 1);
}

static void arm_event(struct uring *u)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
    u->rearm = sqe == NULL;
    if (sqe != NULL) {
        io_uring_prep_poll_multishot(sqe, u->event_fd, POLLIN);
        sqe->user_data = TAG_EVENT;
    }
}

static void take(struct uring *u, const struct io_uring_cqe *cqe)
{
    switch (cqe->user_data) {
    case TAG_TRIAL: u->trial_ok = cqe->res >= 0; break;
    case TAG_MESSAGE: u->kicked = true; break;
    case TAG_EVENT:
        u->event_error = cqe->res < 0 ? cqe->res : 0;
        u->kicked = true;
        if ((cqe->flags & IORING_CQE_F_MORE) == 0) {
            // Without draining, the new poll would report the old signals.
            weft__event_drain(u->event_fd);
            arm_event(u);
        }
        break;
    default: weft_assert(!"a completion that nobody asked for");
    }
}

/// Takes what the kernel has completed. Returns the number of events, kicks not counted.
static int reap(struct uring *u)
{
    struct io_uring_cqe *cqe;
    unsigned head, count = 0;
    io_uring_for_each_cqe(&u->ring, head, cqe)
    {
        take(u, cqe);
        count++;
    }
    io_uring_cq_advance(&u->ring, count);
    return 0;
}

/// Answers what io_uring_enter said. Errors that pass let the wait look again; anything else means
/// that the ring was misused, or forbidden after it was opened.
static void check_enter(struct uring *u, int rc)
{
    switch (rc) {
    case -EBADR: // completions were dropped for lack of memory: one may have been a kick
        u->kicked = true;
        break;
    case -ETIME:
    case -EINTR:
    case -EAGAIN:
    case -EBUSY:
    case -ENOMEM: break;
    default: weft_assert(rc >= 0);
    }
}

/// Submits, and sleeps until there is a completion or the timeout is over. 0 or a negative errno.
static int enter(struct uring *u, weft_time timeout_ns)
{
    if (u->rearm) {
        arm_event(u);
    }
    if (io_uring_sq_ready(&u->ring) > 0) {
        int rc = io_uring_submit(&u->ring);
        if (rc < 0) {
            return rc;
        }
    }
    // liburing's own waits cannot pass the newer flags.
    struct __kernel_timespec timeout = {
        .tv_sec = (int64_t)(timeout_ns / WEFT_S),
        .tv_nsec = (long long)(timeout_ns % WEFT_S),
    };
    struct io_uring_getevents_arg arg = {
        .ts = timeout_ns == WEFT_FOREVER ? 0 : (uintptr_t)&timeout,
    };
    int rc = io_uring_enter2((unsigned)u->ring_fd, 0, 1, u->sleep_flags, (sigset_t *)&arg,
                             sizeof arg);
    return rc < 0 ? rc : 0;
}

static weft_time timeout_until(weft_time until)
{
    if (until == WEFT_FOREVER) {
        return WEFT_FOREVER;
    }
    weft_time now = weft__clock_ns();
    weft_time left = until > now ? until - now : 0;
    return left < LONGEST_WAIT_NS ? left : LONGEST_WAIT_NS;
}

/// Submits and takes completions. Enters the kernel only if one of the two sides has something.
static int uring_poll(void *state)
{
    const unsigned wants_enter = IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW;
    struct uring *u = state;
    unsigned flags = IO_URING_READ_ONCE(*u->ring.sq.kflags);
    if (io_uring_sq_ready(&u->ring) > 0 || (flags & wants_enter) != 0) {
        check_enter(u, io_uring_submit_and_get_events(&u->ring));
    }
    return reap(u);
}

static int uring_wait(void *state, weft_time until)
{
    struct uring *u = state;
    int events = 0;
    while (events == 0 && !u->kicked) {
        weft_time timeout_ns = timeout_until(until);
        if (timeout_ns == 0) {
            events = uring_poll(u); // a timeout of 0 would cost a timer interrupt
            break;
        }
        check_enter(u, enter(u, timeout_ns));
        events = reap(u);
    }
    if (u->kicked) {
        u->kicked = false;
        weft__token_lower(&u->token);
    }
    return events;
}

static void uring_kick(void *state, void *from)
{
    struct uring *u = state;
    (void)from;
    if (weft__token_raise(&u->token)) {
        if (!u->has_messages || send_message(u->ring_fd) < 0) {
            weft__event_signal(u->event_fd);
        }
    }
}

#if WEFT__TSAN
static char ring_addresses;
#endif

// liburing maps and unmaps by bare system calls. The thread sanitizer does not see them, so it has to
// be told that a ring at the address of an older one comes after that.
static void unmap_ring(struct uring *u)
{
#if WEFT__TSAN
    __tsan_release(&ring_addresses);
#endif
    io_uring_queue_exit(&u->ring);
}

static int map_ring(struct uring *u, unsigned entries, unsigned flags)
{
    int rc = io_uring_queue_init(entries, &u->ring, flags);
#if WEFT__TSAN
    __tsan_acquire(&ring_addresses);
#endif
    return rc;
}

/// The best ring this kernel makes. SINGLE_ISSUER binds it to the calling thread.
static int make_ring(struct uring *u, unsigned entries)
{
    static const unsigned flags[] = {
        IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_TASKRUN_FLAG |
            IORING_SETUP_SUBMIT_ALL,                                                     // 6.1
        IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL, // 5.19
        0,
    };
    int rc = -EINVAL;
    for (size_t i = 0; i < WEFT__ARRAY_LEN(flags) && rc == -EINVAL; i++) {
        rc = map_ring(u, entries, flags[i] | IORING_SETUP_CLAMP);
    }
    if (rc < 0) {
        return rc;
    }
    unsigned features = u->ring.features;
    if ((features & IORING_FEAT_EXT_ARG) == 0) { // before 5.11
        unmap_ring(u);
        return -ENOSYS;
    }
    u->ring_fd = u->ring.ring_fd;
    u->sleep_flags = IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG;
    if ((features & WEFT__FEAT_NO_IOWAIT) != 0) {
        u->sleep_flags |= WEFT__ENTER_NO_IOWAIT;
    }
    return 0;
}

/// Sends one operation and a message through the ring. Leaves the poll of the eventfd armed.
static int try_ring(struct uring *u)
{
    arm_event(u);
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
    weft_assert(sqe != NULL);
    io_uring_prep_nop(sqe);
    sqe->user_data = TAG_TRIAL;
    u->has_messages = send_message(u->ring_fd) == 0;
    weft_time limit = weft__clock_ns() + TRIAL_LIMIT_NS;
    while (!u->trial_ok || u->kicked != u->has_messages) {
        int rc = enter(u, timeout_until(limit));
        if (rc < 0 && rc != -ETIME && rc != -EINTR) {
            return rc;
        }
        reap(u);
        if (u->event_error < 0) { // before 5.13 there is no multishot poll
            return u->event_error;
        }
        if (weft__clock_ns() >= limit) {
            return -ETIMEDOUT;
        }
    }
    u->kicked = false;
    return 0;
}

static int uring_open(void **state, const struct weft__driver_config *config)
{
    *state = NULL;
    struct uring *u = weft__alloc(config->allocator, sizeof *u, _Alignof(struct uring));
    if (u == NULL) {
        return -ENOMEM;
    }
    u->allocator = config->allocator;
    int rc = u->event_fd = weft__sys_eventfd(0);
    if (rc < 0) {
        goto free_state;
    }
    unsigned entries = config->entries != 0 ? config->entries : DEFAULT_ENTRIES;
    rc = make_ring(u, entries < FEWEST_ENTRIES ? FEWEST_ENTRIES : entries);
    if (rc < 0) {
        goto close_event;
    }
    rc = try_ring(u);
    if (rc < 0) {
        goto exit_ring;
    }
    *state = u;
    return 0;

exit_ring:
    unmap_ring(u);
close_event:
    weft__sys_close(u->event_fd);
free_state:
    weft__free(config->allocator, u, sizeof *u);
    return rc;
}

static void uring_close(void *state)
{
    struct uring *u = state;
    unmap_ring(u);
    weft__sys_close(u->event_fd);
    weft__free(u->allocator, u, sizeof *u);
}

const struct weft__driver weft__uring_driver = {
    .name = "uring",
    .open = uring_open,
    .close = uring_close,
    .poll = uring_poll,
    .wait = uring_wait,
    .kick = uring_kick,
    .sockets = &weft__sockets_blocking,
};
