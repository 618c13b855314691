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
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/sys.h"
#include "io/event.h"
#include "io/io.h"
#include "io/sockets.h"
#include "io/uring.h"
#include "io/uring_compat.h"

enum {
    DEFAULT_ENTRIES = WEFT__SIZED(256, 4),
    FEWEST_ENTRIES = 2,
    /// A multishot has many completions for one entry, and ends when it finds the queue full.
    COMPLETIONS_PER_ENTRY = 8,
};

/// Some kernels add a relative timeout to the clock without saturating; longer waits go in pieces.
#define LONGEST_WAIT_NS (24 * 3600 * WEFT_S)
#define TRIAL_LIMIT_NS (1 * WEFT_S)
/// Before asking a kernel again that has refused submissions, or that may have lost completions.
#define NAP_NS (1 * WEFT_MS)
/// Before asking ops again to end that have not when a driver is closed.
#define DRAIN_NAP_NS (20 * WEFT_MS)
/// What has been lost does not come, and zero-copy sends end when the peer has the bytes, which may be
/// never. The pages are the kernel's as long as it needs them; all that closing earlier can do is to
/// send what is written there later.
#define DRAIN_LIMIT_NS (1 * WEFT_S)

#if WEFT__TSAN
static char ring_addresses;
#endif

static int send_message(int ring_fd)
{
    struct io_uring_sqe sqe;
    memset(&sqe, 0, sizeof sqe);
    sqe.opcode = IORING_OP_MSG_RING;
    sqe.fd = ring_fd;
    sqe.off = WEFT__TAG_MESSAGE; // the user_data of the completion over there
    return io_uring_register((unsigned)-1, WEFT__REGISTER_SEND_MSG_RING, &sqe, 1);
}

static void arm_event(struct weft__uring *u)
{
    struct io_uring_sqe *sqe = weft__uring_sqe(u);
    u->rearm = sqe == NULL;
    if (sqe != NULL) {
        io_uring_prep_poll_multishot(sqe, u->event_fd, POLLIN);
        sqe->user_data = WEFT__TAG_EVENT;
    }
}

static void take_event(struct weft__uring *u, int result, uint32_t flags)
{
    u->event_error = result < 0 ? result : 0;
    u->kicked = true;
    if ((flags & IORING_CQE_F_MORE) == 0 && !u->closing) {
        // Without draining, the new poll would report the old signals.
        weft__event_drain(u->event_fd);
        arm_event(u);
    }
}

static void take_own(struct weft__uring *u, uint64_t tag, int result, uint32_t flags)
{
    if (tag >= WEFT__TAGS) {
        if (result == -ENOENT || result == -EALREADY) {
            weft__uring_cancel_missed(u, (uint32_t)(tag >> 3), result);
        }
        return;
    }
    switch (tag) {
    case WEFT__TAG_TRIAL:
        if ((flags & IORING_CQE_F_NOTIF) == 0) {
            u->trial_result = result;
        }
        break;
    case WEFT__TAG_MESSAGE: u->kicked = true; break;
    case WEFT__TAG_EVENT: take_event(u, result, flags); break;
    case WEFT__TAG_CANCEL: break;
    default: weft_assert(!"a completion that nobody asked for");
    }
}

/// Takes what the kernel has completed up to now. Returns the number of events, kicks not counted.
static int reap(struct weft__uring *u)
{
    struct io_uring_cq *cq = &u->ring.cq;
    unsigned head = *cq->khead;
    unsigned tail = io_uring_smp_load_acquire(cq->ktail);
    int events = 0;
    while (head != tail) {
        const struct io_uring_cqe *cqe = &cq->cqes[head & cq->ring_mask];
        uint64_t data = cqe->user_data;
        int result = cqe->res;
        uint32_t flags = cqe->flags;
        // Room for what done() submits and the kernel completes at once.
        io_uring_smp_store_release(cq->khead, ++head);
        if (weft__likely(data >= WEFT__TAGS && (data & 7) == 0)) {
            events += weft__uring_complete(u, (struct weft__op *)(uintptr_t)data, result, flags);
        } else {
            take_own(u, data, result, flags);
        }
    }
    return events;
}

/// Makes what is queued visible to the kernel. Returns how many it has not taken yet. liburing's own
/// calls cannot pass the newer flags, or take a second system call for it.
static inline unsigned publish(struct weft__uring *u)
{
    struct io_uring_sq *sq = &u->ring.sq;
    sq->sqe_head = sq->sqe_tail;
    io_uring_smp_store_release(sq->ktail, sq->sqe_tail);
    weft__uring_sent();
    return sq->sqe_tail - *sq->khead;
}

/// The one system call. Errors that pass let the caller look again; anything else means that the
/// ring was misused, or forbidden after it was opened. Returns how many submissions were taken, or
/// a negative errno.
static int enter(struct weft__uring *u, unsigned queued, unsigned want, unsigned flags,
                 struct io_uring_getevents_arg *arg)
{
    weft__uring_count(&u->counts.enters);
    int rc = io_uring_enter2((unsigned)u->ring_fd, queued, want, flags, (sigset_t *)arg,
                             arg != NULL ? sizeof *arg : _NSIG / 8);
    switch (rc) {
    case -EBADR: // completions were dropped for lack of memory: one may have been a kick
        weft__uring_count(&u->counts.cq_overflows);
        u->kicked = true;
        u->lossy = u->audit = true;
        break;
    case -EAGAIN:
    case -EBUSY:
    case -ENOMEM: weft__uring_count(&u->counts.submit_refused); break;
    default: break;
    }
    return rc;
}

static bool is_passing(int rc)
{
    return rc >= 0 || rc == -EBADR || rc == -ETIME || rc == -EINTR || rc == -EAGAIN ||
           rc == -EBUSY || rc == -ENOMEM;
}

static bool is_refusal(int rc)
{
    return rc == -EAGAIN || rc == -EBUSY || rc == -ENOMEM;
}

int weft__uring_flush(struct weft__uring *u)
{
    for (unsigned queued; (queued = publish(u)) > 0;) {
        int rc = enter(u, queued, 0, 0, NULL);
        weft_assert(is_passing(rc));
        if (rc == 0 || is_refusal(rc)) {
            return rc < 0 ? rc : -EAGAIN;
        }
    }
    return 0;
}

struct io_uring_sqe *weft__uring_make_room(struct weft__uring *u)
{
    weft__uring_count(&u->counts.queue_full);
    (void)weft__uring_flush(u);
    return io_uring_get_sqe(&u->ring);
}

/// Looks whether the completion queue has run over, which entering with GETEVENTS mends.
static unsigned look_at_flags(struct weft__uring *u)
{
    unsigned flags = IO_URING_READ_ONCE(*u->ring.sq.kflags);
    bool overflowed = (flags & IORING_SQ_CQ_OVERFLOW) != 0;
    if (weft__unlikely(overflowed && !u->overflowed)) {
        weft__uring_count(&u->counts.cq_overflows);
    }
    u->overflowed = overflowed;
    return flags;
}

/// Queues what has been waiting for room, for buffers or for being armed again.
static void queue_waiting(struct weft__uring *u)
{
    if (weft__unlikely(u->rearm)) {
        arm_event(u);
    }
    weft__uring_buffers_offer(u);
    if (weft__unlikely(weft__uring_has_waiting(u))) {
        weft__uring_requeue(u);
    }
}

/// Submits, and sleeps until there is a completion or the timeout is over: in one system call.
static int enter_and_sleep(struct weft__uring *u, unsigned queued, weft_time timeout_ns)
{
    struct __kernel_timespec timeout = {
        .tv_sec = (int64_t)(timeout_ns / WEFT_S),
        .tv_nsec = (long long)(timeout_ns % WEFT_S),
    };
    struct io_uring_getevents_arg arg = {
        .ts = timeout_ns == WEFT_FOREVER ? 0 : (uintptr_t)&timeout,
    };
    return enter(u, queued, 1, u->sleep_flags, &arg);
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

/// Takes completions after entering the kernel, and then the ends that need none.
static int reap_all(struct weft__uring *u)
{
    int events = reap(u);
    if (weft__uring_doubts(u)) {
        weft__uring_judge(u);
    }
    return events + (weft__likely(u->ended.head == NULL) ? 0 : weft__uring_deliver(u));
}

/// Submits and takes completions. Enters the kernel only if one of the two sides has something.
static int uring_poll(void *state)
{
    const unsigned wants_enter = IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW;
    struct weft__uring *u = state;
    queue_waiting(u);
    unsigned queued = publish(u);
    if (queued > 0 || (look_at_flags(u) & wants_enter) != 0 || weft__uring_doubts(u)) {
        int rc = enter(u, queued, 0, IORING_ENTER_GETEVENTS, NULL);
        weft_assert(is_passing(rc));
    }
    return reap_all(u);
}

/// Ops that starve although there are buffers must not be slept on.
static bool is_hungry(const struct weft__uring *u)
{
    return !weft__op_list_empty(&u->starved) && weft__uring_buffers_ready(u) > 0;
}

/// One attempt of a wait. Returns the number of events.
static int sleep_once(struct weft__uring *u, weft_time until)
{
    queue_waiting(u);
    unsigned queued = publish(u);
    if (queued == 0 && io_uring_cq_ready(&u->ring) > 0) {
        return reap(u);
    }
    weft_time timeout_ns = timeout_until(until);
    // A timeout of 0 would cost a timer interrupt.
    if (timeout_ns == 0 || u->ended.head != NULL || is_hungry(u)) {
        return uring_poll(u);
    }
    if (weft__uring_doubts(u) && timeout_ns > NAP_NS) {
        timeout_ns = NAP_NS;
    }
    (void)look_at_flags(u);
    int rc = enter_and_sleep(u, queued, timeout_ns);
    weft_assert(is_passing(rc));
    int events = reap_all(u);
    if (events == 0 && is_refusal(rc)) {
        rc = enter_and_sleep(u, 0, timeout_ns < NAP_NS ? timeout_ns : NAP_NS);
        weft_assert(is_passing(rc));
        events = reap_all(u);
    }
    return events;
}

static int uring_wait(void *state, weft_time until)
{
    struct weft__uring *u = state;
    int events = u->kicked ? uring_poll(u) : 0;
    while (events == 0 && !u->kicked) {
        events = sleep_once(u, until);
        if (events == 0 && until != WEFT_FOREVER && weft__clock_ns() >= until) {
            break;
        }
    }
    if (u->kicked) {
        u->kicked = false;
        weft__token_lower(&u->token);
    }
    return events;
}

/// The ring's own descriptor would not do: with deferred task work it is not readable before its
/// owner has entered the kernel. A registered eventfd is signalled when that work is queued.
static int open_bell(struct weft__uring *u)
{
    int fd = weft__sys_eventfd(0);
    int rc = fd < 0 ? fd : io_uring_register_eventfd(&u->ring, fd);
    if (rc < 0) {
        if (fd >= 0) {
            weft__sys_close(fd);
        }
        return rc;
    }
    u->bell_fd = fd;
    return 0;
}

static int uring_lookout(void *state, int *fd, weft_time *until)
{
    struct weft__uring *u = state;
    int rc = u->bell_fd < 0 ? open_bell(u) : 0;
    if (rc < 0) {
        return rc;
    }
    weft__event_drain(u->bell_fd); // first: what comes from now on signals again
    int events = uring_poll(u);
    if (u->kicked) {
        u->kicked = false;
        weft__token_lower(&u->token);
    }
    bool unsent = u->ring.sq.sqe_tail != *u->ring.sq.khead || weft__uring_doubts(u);
    *fd = u->bell_fd;
    *until = u->ended.head != NULL || is_hungry(u) ? 0
             : unsent                              ? weft__clock_ns() + NAP_NS
                                                   : WEFT_FOREVER;
    return events;
}

static void uring_kick(void *state, void *from)
{
    struct weft__uring *u = state;
    (void)from;
    if (weft__token_raise(&u->token)) {
        if (!u->has_messages || send_message(u->ring_fd) < 0) {
            weft__event_signal(u->event_fd);
        }
    }
}

// liburing maps and unmaps by bare system calls. The thread sanitizer does not see them, so it has to
// be told that a ring at the address of an older one comes after that.
static void unmap_ring(struct weft__uring *u)
{
#if WEFT__TSAN
    __tsan_release(&ring_addresses);
#endif
    io_uring_queue_exit(&u->ring);
}

static int map_ring(struct weft__uring *u, unsigned entries, unsigned flags)
{
    struct io_uring_params params = {
        .flags = flags | IORING_SETUP_CLAMP | IORING_SETUP_CQSIZE,
        .cq_entries = entries < UINT_MAX / COMPLETIONS_PER_ENTRY ? entries * COMPLETIONS_PER_ENTRY
                                                                 : UINT_MAX,
    };
    int rc = io_uring_queue_init_params(entries, &u->ring, &params);
#if WEFT__TSAN
    __tsan_acquire(&ring_addresses);
#endif
    return rc;
}

/// The best ring this kernel makes. SINGLE_ISSUER binds it to the calling thread, so that one that is
/// shared does without; and with COOP_TASKRUN its completions exist although that thread is busy.
static int make_ring(struct weft__uring *u, unsigned entries, bool shared)
{
    static const struct {
        unsigned flags, feature;
    } kinds[] = {
        { IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_TASKRUN_FLAG |
              IORING_SETUP_SUBMIT_ALL,
          WEFT__URING_DEFER }, // 6.1
        { IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL,
          WEFT__URING_COOP }, // 5.19
        { 0, 0 },
    };
    int rc = -EINVAL;
    for (size_t i = 0; i < WEFT__ARRAY_LEN(kinds) && rc == -EINVAL; i++) {
        bool ours_alone = (kinds[i].flags & IORING_SETUP_SINGLE_ISSUER) != 0;
        if ((kinds[i].feature & weft__uring_without) == 0 && !(shared && ours_alone)) {
            rc = map_ring(u, entries, kinds[i].flags);
        }
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
    for (unsigned i = 0; i < u->ring.sq.ring_entries; i++) { // publish() relies on it
        u->ring.sq.array[i] = i;
    }
    return 0;
}

int weft__uring_try(struct weft__uring *u, const struct io_uring_sqe *sqe, int *result)
{
    enum { PENDING = 1 << 30 };
    struct io_uring_sqe *slot = weft__uring_sqe(u);
    if (slot == NULL) {
        return -EAGAIN;
    }
    *slot = *sqe;
    slot->user_data = WEFT__TAG_TRIAL;
    u->trial_result = PENDING;
    weft_time limit = weft__clock_ns() + TRIAL_LIMIT_NS;
    while (u->trial_result == PENDING) {
        int rc = enter_and_sleep(u, publish(u), timeout_until(limit));
        if (!is_passing(rc)) {
            return rc;
        }
        reap(u);
        if (u->trial_result == PENDING && weft__clock_ns() >= limit) {
            return -ETIMEDOUT;
        }
    }
    *result = u->trial_result;
    return 0;
}

/// Sends an operation and a message through the ring, and leaves the poll of the eventfd armed.
static int try_ring(struct weft__uring *u)
{
    int rc = weft__uring_probe(u);
    if (rc < 0) {
        return rc;
    }
    arm_event(u);
    u->has_messages = send_message(u->ring_fd) == 0;
    weft_time limit = weft__clock_ns() + TRIAL_LIMIT_NS;
    do {
        struct io_uring_sqe nop;
        int result;
        io_uring_prep_nop(&nop);
        rc = weft__uring_try(u, &nop, &result);
        if (rc == 0) {
            rc = u->event_error; // before 5.13 there is no multishot poll
        }
        if (rc == 0 && weft__clock_ns() >= limit) {
            rc = -ETIMEDOUT;
        }
    } while (rc == 0 && u->kicked != u->has_messages);
    u->kicked = false;
    return rc;
}

static void init_state(struct weft__uring *u, const struct weft__driver_config *config)
{
    u->allocator = config->allocator;
    u->submit_batch = config->submit_batch != 0 ? config->submit_batch : UINT_MAX;
    u->bell_fd = -1;
    weft__op_list_init(&u->backlog);
    weft__op_list_init(&u->starved);
    weft__op_list_init(&u->ended);
    weft__op_list_init(&u->unsent);
    weft__op_list_init(&u->tracked);
    weft__op_list_init(&u->suspects);
}

#define FDS_BYTES (WEFT__URING_FDS * sizeof(struct weft__uring_fd))
#define TABLE_BYTES (FDS_BYTES + WEFT__URING_PLACES * sizeof(uintptr_t))

/// What is indexed by descriptor, and the places of ops.
static int map_tables(struct weft__uring *u)
{
    void *memory;
    int rc = weft__sys_map(&memory, TABLE_BYTES, weft__sys_page_bytes());
    if (rc == 0) {
        u->fds = memory;
        u->flight.places = (uintptr_t *)(void *)((char *)memory + FDS_BYTES);
    }
    return rc;
}

static int uring_open(void **state, const struct weft__driver_config *config)
{
    *state = NULL;
    struct weft__uring *u = weft__alloc(config->allocator, sizeof *u, _Alignof(struct weft__uring));
    if (u == NULL) {
        return -ENOMEM;
    }
    init_state(u, config);
    int rc = map_tables(u);
    if (rc < 0) {
        goto free_state;
    }
    rc = u->event_fd = weft__sys_eventfd(0);
    if (rc < 0) {
        goto unmap_tables;
    }
    unsigned entries = config->entries != 0 ? config->entries : DEFAULT_ENTRIES;
    rc = make_ring(u, entries < FEWEST_ENTRIES ? FEWEST_ENTRIES : entries, config->shared);
    if (rc < 0) {
        goto close_event;
    }
    rc = try_ring(u);
    if (rc == 0) {
        rc = weft__uring_buffers_open(u, config);
    }
    if (rc < 0) {
        goto exit_ring;
    }
    u->track_all = (u->features & WEFT__URING_CANCEL_FD) == 0;
    u->counts = (struct weft__op_counts){ 0 }; // the trials are no business of anybody
    *state = u;
    return 0;

exit_ring:
    unmap_ring(u);
    weft__uring_buffers_close(u);
close_event:
    weft__sys_close(u->event_fd);
unmap_tables:
    weft__sys_unmap(u->fds, TABLE_BYTES);
free_state:
    weft__free(config->allocator, u, sizeof *u);
    return rc;
}

/// Waits for everything that the kernel holds, because unmapping a ring does not: the kernel would
/// go on writing into memory that is somebody else's by then.
static void uring_drain(void *state)
{
    struct weft__uring *u = state;
    if (u->closing) {
        return;
    }
    weft_time limit = weft__clock_ns() + DRAIN_LIMIT_NS;
    u->closing = true;
    weft__op_list_init(&u->backlog);
    weft__op_list_init(&u->starved);
    weft__op_list_init(&u->ended);
    while (u->in_kernel > 0) {
        bool limited = u->in_kernel == u->notifies || u->lossy;
        if (limited && weft__clock_ns() >= limit) {
            break;
        }
        if (u->in_kernel > u->notifies) {
            weft__uring_cancel_all(u);
        }
        int rc = enter_and_sleep(u, publish(u), DRAIN_NAP_NS);
        weft_assert(is_passing(rc));
        reap(u);
    }
}

static void uring_close(void *state)
{
    struct weft__uring *u = state;
    uring_drain(u);
    unmap_ring(u);
    weft__uring_buffers_close(u);
    weft__sys_close(u->event_fd);
    if (u->bell_fd >= 0) {
        weft__sys_close(u->bell_fd);
    }
    weft__sys_unmap(u->fds, TABLE_BYTES);
    weft__free(u->allocator, u, sizeof *u);
}

static const struct weft__op_counts *uring_counts(void *state)
{
    struct weft__uring *u = state;
    return &u->counts;
}

const struct weft__driver weft__uring_driver = {
    .name = "uring",
    .open = uring_open,
    .close = uring_close,
    .drain = uring_drain,
    .poll = uring_poll,
    .wait = uring_wait,
    .lookout = uring_lookout,
    .kick = uring_kick,
    .submit = weft__uring_submit,
    .cancel = weft__uring_cancel,
    .forget = weft__uring_forget,
    .buffer = weft__uring_buffer,
    .give = weft__uring_give,
    .counts = uring_counts,
    .sockets = &weft__sockets_blocking,
};
