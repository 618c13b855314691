// uring.h - the inside of the io_uring driver, for its own files only.
//
//     uring.c            the ring: open, wait, kick, close
//     uring_probe.c      what the kernel can do
//     uring_submit.c     from op to submission
//     uring_complete.c   from completion to done()
//     uring_retry.c      what happens in between without the owner's notice
//     uring_cancel.c     cancel, forget
//     uring_buffers.c    receive buffers
//     uring_lost.c       completions that the kernel dropped
//
// The way of an op, by its stage:
//
//     submit                  +---------------------- backlog <-- no room in the queue
//       |                     v                          |
//       +------------------> RING <----------------------+
//                             |  ^   ^
//            -EAGAIN          |  |   |      -ENOBUFS, and a buffer came back
//        POLL <---------------+  |   +---------------------- starved <--+
//         +----------------------+                                     |
//               ready         +----------------------------------------+
//                             v
//                 done(), done(MORE), or for SEND_ZC: done(MORE), NOTIFY, done()
//
//   A1  An op in RING, POLL or NOTIFY is the kernel's until a completion without F_MORE.
//   A2  Everything else is in one of our lists and ends there when it is cancelled.
//   A3  A cancel is queued behind the submission that it means and before any later one at the same
//       address, and the kernel takes them in order. So none can hit a stranger.
//   A4  A descriptor's number is read once more when an op is tried again. forget() may have come in
//       between and the number may mean another file by now; the generation tells.
//   A5  done() may submit, cancel and free: nothing of the op is touched after it.
#ifndef WEFT_IO_URING_H
#define WEFT_IO_URING_H

#include <liburing.h>

#include "base/sanitizer.h"
#include "io/op_list.h"
#include "io/token.h"
#include "sched/driver.h"

#if WEFT__TSAN
#include <sanitizer/tsan_interface.h>
#endif

/// What a completion's user_data says if it is not the address of an op.
enum weft__uring_tag {
    WEFT__TAG_TRIAL,   ///< an operation that open() tries the ring with
    WEFT__TAG_MESSAGE, ///< a kick by message
    WEFT__TAG_EVENT,   ///< the eventfd was signalled
    WEFT__TAG_CANCEL,  ///< a request to cancel; the op says the rest
    WEFT__TAGS,
};

/// A request to cancel an op that has a place says which: bits that no address of an op has.
#define WEFT__TAG_CANCEL_AT(place) ((uint64_t)(place) << 3 | 7)

/// What not every kernel can do.
#define WEFT__URING_CANCEL_FD 0x01u     ///< 5.19: cancel by descriptor, or everything
#define WEFT__URING_MULTI_ACCEPT 0x02u  ///< 5.19
#define WEFT__URING_BUFFER_RING 0x04u   ///< 5.19: receive buffers that the kernel takes by itself
#define WEFT__URING_SOCK_NONEMPTY 0x08u ///< 5.19: says whether a receive left bytes behind
#define WEFT__URING_MULTI_RECV 0x10u    ///< 6.0
#define WEFT__URING_SEND_ZC 0x20u       ///< 6.0
#define WEFT__URING_DEFER 0x40u         ///< 6.1: DEFER_TASKRUN
#define WEFT__URING_NO_SIGNAL 0x80u     ///< 6.18: writes without SIGPIPE
#define WEFT__URING_COOP 0x100u         ///< 5.19: COOP_TASKRUN
#define WEFT__URING_LEAST 0x200u        ///< 5.15: without it there is no driver

/// Tests and measurements take features away from drivers that are opened from then on.
extern unsigned weft__uring_without;

/// weft__op.stage
enum weft__uring_stage {
    WEFT__STAGE_IDLE,    ///< not in flight
    WEFT__STAGE_RING,    ///< in the submission queue or in the kernel
    WEFT__STAGE_POLL,    ///< the same, but it was a poll or a pause: then the op is tried again
    WEFT__STAGE_BACKLOG, ///< in `backlog`
    WEFT__STAGE_STARVED, ///< in `starved`
    WEFT__STAGE_ENDED,   ///< in `ended`: has its result, done() is due
    WEFT__STAGE_NOTIFY,  ///< SEND_ZC: done, but the kernel still reads the bytes
    WEFT__STAGE_FAILED,  ///< SEND_ZC: failed, and the kernel has one more completion for it
};

/// weft__op.scratch
#define WEFT__MARK_ASKED 0x01u      ///< somebody has asked the op to end
#define WEFT__MARK_LISTED 0x02u     ///< in `tracked`
#define WEFT__MARK_UNSENT 0x04u     ///< in `unsent`: its cancel found no room in the queue
#define WEFT__MARK_COPY 0x08u       ///< a SEND_ZC that has to do as a SEND
#define WEFT__MARK_WORKER 0x10u     ///< goes to one of the kernel's workers
#define WEFT__MARK_OTHER_SIDE 0x20u ///< a SPLICE whose input was ready
#define WEFT__MARK_BEGUN 0x20u      ///< a CONNECT on a non-blocking socket
#define WEFT__MARK_PATIENT 0x20u    ///< a SEND or SENDMSG that may wait inside of the kernel
#define WEFT__MARK_MULTI 0x40u      ///< submitted as multishot
#define WEFT__MARK_POLLED 0x40u     ///< a SEND or SENDMSG that has waited by poll, maybe in vain
#define WEFT__MARK_SUSPECT 0x80u    ///< in `suspects`

struct weft__uring_buffers {
    char *memory;                   ///< count * bytes, committed at first touch; NULL: none
    struct io_uring_buf_ring *ring; ///< NULL where the kernel has none
    size_t ring_bytes;
    uint32_t count, bytes;
    uint32_t free_count;
    uint32_t offered; ///< in the ring, as far as we have seen
    uint32_t window;  ///< so many are to be in the ring
    uint16_t tail;    ///< the ring's
    uint16_t *free;   ///< a stack: the buffer used last is warm
};

/// What the driver remembers of a descriptor. Descriptors beyond the table share its entries: then
/// a forget() may end an op of another one while that is waiting to be tried again.
struct weft__uring_fd {
    uint32_t ops;        ///< in flight
    uint32_t generation; ///< counts forget(): an older op must not be tried again
};

enum { WEFT__URING_FDS = WEFT__SIZED(1 << 20, 1 << 12) };

/// The ops that the kernel holds, for the day when it loses a completion (uring_lost.c): an op has
/// its place in `extra`. Free places are linked; the one that was left last is warm and is taken first.
/// What finds no place is not looked for.
struct weft__uring_flight {
    uintptr_t *places; ///< WEFT__URING_PLACES of them, committed at first touch: an op, or a link
    uint32_t used;     ///< places from here on were never used; 0 is none
    uint32_t free;     ///< the first free one; 0: none
};

enum { WEFT__URING_PLACES = WEFT__SIZED(1 << 21, 1 << 6) };

/// In a place: a link, not an op. In op->extra: uring_lost.c has cancelled it, and not its owner.
#define WEFT__FLIGHT_BIT ((uintptr_t)1)

struct weft__uring {
    // Set by open(), read by kickers.
    int ring_fd;
    int event_fd;
    bool has_messages;

    // Kickers and the owner.
    _Alignas(WEFT__LINE_PAIR) struct weft__token token;

    // The owner's alone.
    _Alignas(WEFT__LINE_PAIR) struct io_uring ring;
    const struct weft_allocator *allocator;
    unsigned features;
    unsigned submit_batch;
    unsigned sleep_flags; ///< how io_uring_enter is to sleep
    unsigned in_kernel;   ///< ops of stage RING, POLL, NOTIFY and FAILED
    unsigned notifies;    ///< of these, NOTIFY and FAILED
    int event_error;      ///< how the last poll of the eventfd ended
    int trial_result;     ///< of the trial operation
    bool kicked;          ///< a kick was taken and has not ended a wait yet
    int bell_fd;          ///< eventfd that completions signal, for lookout(); -1: not asked for yet
    bool rearm;           ///< the poll of the eventfd has ended and found no room in the queue
    bool track_all;       ///< the kernel cannot cancel by descriptor, so all ops are in `tracked`
    bool overflowed;      ///< the completion queue had run over at the last look
    bool closing;         ///< no done() any more
    bool lossy;           ///< the kernel has dropped completions (uring_lost.c)
    bool audit;           ///< and whose they were is not known yet
    struct weft__op_list backlog;  ///< found no room in the submission queue; in order
    struct weft__op_list starved;  ///< found no receive buffer; in order
    struct weft__op_list ended;    ///< done() is due
    struct weft__op_list unsent;   ///< in the kernel; their cancels found no room
    struct weft__op_list tracked;  ///< in the kernel; those that a cancel by descriptor may miss
    struct weft__op_list suspects; ///< in the kernel, or not: asked to end after it has lost some
    struct weft__uring_buffers buffers;
    struct weft__op_counts counts;
    struct weft__uring_fd *fds; ///< WEFT__URING_FDS of them, committed at first touch
    struct weft__uring_flight flight;
};

static inline struct weft__uring_fd *weft__uring_fd(struct weft__uring *u, int fd)
{
    return &u->fds[(unsigned)fd & (WEFT__URING_FDS - 1)];
}

static inline void weft__uring_count(_Atomic uint64_t *counter)
{
    uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, value + 1, memory_order_relaxed);
}

// uring.c

/// Room for one submission, or NULL if the queue is full and the kernel takes nothing.
struct io_uring_sqe *weft__uring_make_room(struct weft__uring *u);

static inline struct io_uring_sqe *weft__uring_sqe(struct weft__uring *u)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
    return weft__likely(sqe != NULL) ? sqe : weft__uring_make_room(u);
}

/// Hands what is queued to the kernel without waiting for anything. 0, or why it was refused.
int weft__uring_flush(struct weft__uring *u);

// uring_submit.c

bool weft__uring_submit(void *state, struct weft__op *op);

/// Queues an op that is in no list.
void weft__uring_start(struct weft__uring *u, struct weft__op *op);

/// Waits for readiness, or for a moment, before the op is tried again. Without room in the queue it
/// is tried as soon as there is some.
void weft__uring_start_poll(struct weft__uring *u, struct weft__op *op, int fd, unsigned events);
void weft__uring_start_pause(struct weft__uring *u, struct weft__op *op);

/// Waits for a receive buffer.
void weft__uring_starve(struct weft__uring *u, struct weft__op *op);

/// Puts into the queue what waits for room or for buffers. Call before entering the kernel.
void weft__uring_requeue(struct weft__uring *u);

static inline bool weft__uring_has_waiting(const struct weft__uring *u)
{
    return u->backlog.head != NULL || u->unsent.head != NULL || u->starved.head != NULL;
}

static inline bool weft__uring_selects(const struct weft__op *op)
{
    return (op->mode & WEFT__OP_SELECT) != 0;
}

/// The op takes a place, or none.
static inline void weft__uring_take_place(struct weft__uring_flight *flight, struct weft__op *op)
{
    uint32_t place = flight->free;
    if (weft__likely(place != 0)) {
        flight->free = (uint32_t)(flight->places[place] >> 1);
    } else if (flight->used + 1 < WEFT__URING_PLACES) {
        place = ++flight->used;
    } else {
        op->extra = NULL;
        return;
    }
    flight->places[place] = (uintptr_t)op;
    op->extra = (void *)((uintptr_t)place << 1); // NOLINT(performance-no-int-to-ptr)
}

static inline void weft__uring_leave_place(struct weft__uring_flight *flight, struct weft__op *op)
{
    uint32_t place = (uint32_t)((uintptr_t)op->extra >> 1);
    if (weft__likely(place != 0)) {
        flight->places[place] = (uintptr_t)flight->free << 1 | WEFT__FLIGHT_BIT;
        flight->free = place;
    }
}

void weft__uring_leave_listed(struct weft__uring *u, struct weft__op *op);

/// The kernel has let go of the op.
static inline void weft__uring_leave(struct weft__uring *u, struct weft__op *op)
{
    const uint8_t listed = WEFT__MARK_LISTED | WEFT__MARK_UNSENT | WEFT__MARK_SUSPECT;
    u->in_kernel--;
    weft__uring_leave_place(&u->flight, op);
    if (weft__unlikely((op->scratch & listed) != 0)) {
        weft__uring_leave_listed(u, op);
    }
}

// uring_complete.c

/// A completion for `op`. Returns how many times done() was called: 0 or 1.
int weft__uring_complete(struct weft__uring *u, struct weft__op *op, int result, uint32_t flags);

/// The op ends without the kernel, at the next poll or wait.
void weft__uring_end(struct weft__uring *u, struct weft__op *op, int result);

/// Calls done() of those. Returns how many.
int weft__uring_deliver(struct weft__uring *u);

/// The op is the owner's again.
static inline void weft__uring_let_go(struct weft__uring *u, struct weft__op *op)
{
    weft__op_count(&u->counts.completed, op);
    weft__uring_fd(u, op->fd)->ops--;
    if (weft__unlikely(op->code == WEFT__OP_SPLICE)) {
        weft__uring_fd(u, op->from_fd)->ops--;
    }
    op->stage = WEFT__STAGE_IDLE;
}

// uring_retry.c

/// A poll or a pause in front of the op has ended. True: so has the op, with `result`.
bool weft__uring_after_poll(struct weft__uring *u, struct weft__op *op, int *result,
                            uint32_t *flags);

/// An op failed. True: that is its end, with `result`.
bool weft__uring_after_error(struct weft__uring *u, struct weft__op *op, int *result);

/// Receives into one of our buffers, where the kernel does not do that. False: the op waits, for
/// bytes or for a buffer.
bool weft__uring_receive(struct weft__uring *u, struct weft__op *op, int *result, uint32_t *flags);

// uring_cancel.c

void weft__uring_cancel(void *state, struct weft__op *op);
void weft__uring_forget(void *state, int fd);
void weft__uring_put_cancel(struct io_uring_sqe *sqe, struct weft__op *op);

/// The op that a request to cancel was about, and which had this place, was not found (-ENOENT) or is at
/// work (-EALREADY).
void weft__uring_cancel_missed(struct weft__uring *u, uint32_t place, int result);

/// Asks everything that the kernel holds to end.
void weft__uring_cancel_all(struct weft__uring *u);

// uring_lost.c

/// A cancel was queued for the op, and its completion may have been dropped long ago.
void weft__uring_suspect(struct weft__uring *u, struct weft__op *op);

/// Ends those that the kernel does not know. Call after taking completions, while weft__uring_doubts().
void weft__uring_judge(struct weft__uring *u);

static inline bool weft__uring_doubts(const struct weft__uring *u)
{
    return weft__unlikely(u->audit || u->suspects.head != NULL);
}

/// Submits the op, which the kernel has just let go of with `result`, again if that was because of
/// weft__uring_judge() and nobody else, and nothing was done. False: it is over.
bool weft__uring_go_on(struct weft__uring *u, struct weft__op *op, int result);

// uring_buffers.c

int weft__uring_buffers_open(struct weft__uring *u, const struct weft__driver_config *config);
void weft__uring_buffers_close(struct weft__uring *u);
void *weft__uring_buffer(void *state, uint16_t number);
void weft__uring_give(void *state, uint16_t number);

/// Offers the kernel as many buffers as the window wants.
void weft__uring_buffers_offer(struct weft__uring *u);

/// The kernel has handed one out.
void weft__uring_buffers_taken(struct weft__uring *u, uint16_t number);

/// Takes a free one; false if there is none. For kernels without a ring of buffers.
bool weft__uring_buffers_take(struct weft__uring *u, uint16_t *number);

/// An op found none in the ring: offer more from now on, if there are any.
void weft__uring_buffers_short(struct weft__uring *u);

/// How many ops may look for a buffer with hope.
static inline uint32_t weft__uring_buffers_ready(const struct weft__uring *u)
{
    return u->buffers.ring != NULL ? u->buffers.offered : u->buffers.free_count;
}

// uring_probe.c

/// Sets u->features. Called by open() with an empty ring. 0 or a negative errno.
int weft__uring_probe(struct weft__uring *u);

/// Sends the operation that `sqe` describes through the ring and waits for its result. 0, or why the
/// ring does not work.
int weft__uring_try(struct weft__uring *u, const struct io_uring_sqe *sqe, int *result);

// The thread sanitizer does not see the kernel. As for read() and write() it is told that whoever
// receives has synchronised with everybody who has sent.
#if WEFT__TSAN
extern char weft__uring_wire;
#define weft__uring_sent() __tsan_release(&weft__uring_wire)
#define weft__uring_received() __tsan_acquire(&weft__uring_wire)
#else
#define weft__uring_sent() ((void)0)
#define weft__uring_received() ((void)0)
#endif

#endif
