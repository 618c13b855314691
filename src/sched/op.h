// op.h - one operation in flight in a driver.
//
// Completion-shaped on every driver: an op is submitted, and ends at its own final completion. Until
// then the driver owns the op and what it points to; nobody may free either, cancel or not.
//
//   O1  submit() either ends the op at once and says so (true: `result` is set, done() is not
//       called), or the op is in flight and done() is called later, on the carrier's thread.
//   O2  done() is called with WEFT__OP_MORE in `result_flags` as long as more will follow. The last
//       call has no WEFT__OP_MORE; during it the op is the caller's again and may be submitted anew
//       or freed.
//   O3  A cancel is a request: the op still ends by done(), with -ECANCELED if nothing had happened,
//       else with what did happen (bytes that arrived win over the cancel). Cancelling twice, or an
//       op that is about to end, does no harm. It can always be queued, so it cannot fail.
//   O4  MULTI is permission, not obligation: a driver may end a MULTI op after its first result, as
//       if it had been a plain one, and the owner submits it again.
//   O5  An op with SELECT brings no buffer: the driver takes one of the carrier's receive buffers
//       when there are bytes, and hands it over by its number with WEFT__OP_BUFFER. When all are out
//       the op waits until some come back (weft__driver.give) and the driver counts it.
//   O6  Submit and cancel are called on the carrier's thread only. done() is called by poll() and
//       wait() only, never from inside submit, cancel, forget or give.
#ifndef WEFT_SCHED_OP_H
#define WEFT_SCHED_OP_H

#include <stdatomic.h>

#include "base/base.h"

enum weft__op_code {
    WEFT__OP_READ,    ///< data, size, offset (-1: the descriptor's own position)
    WEFT__OP_WRITE,   ///< likewise
    WEFT__OP_READV,   ///< data is a struct iovec[size], offset
    WEFT__OP_WRITEV,  ///< likewise
    WEFT__OP_RECV,    ///< data, size, flags (MSG_*; with MSG_DONTWAIT, here and below, -EAGAIN is a
                      ///< result); SELECT, MULTI
    WEFT__OP_SEND,    ///< data, size, flags (MSG_*; MSG_NOSIGNAL is implied)
    WEFT__OP_SEND_ZC, ///< like SEND, but the bytes are borrowed until the last completion: first the
                      ///< result with MORE, then 0 with NOTIFY. May end like SEND.
    WEFT__OP_RECVMSG, ///< data is a struct msghdr, flags
    WEFT__OP_SENDMSG, ///< likewise; MSG_NOSIGNAL is implied
    WEFT__OP_ACCEPT, ///< data is a struct sockaddr_storage or NULL, addr_size, flags (SOCK_*); MULTI
    WEFT__OP_CONNECT, ///< data is a struct sockaddr, size
    WEFT__OP_POLL,    ///< flags (POLL*): the result is what is ready, of these and POLLERR, POLLHUP
    WEFT__OP_SPLICE, ///< fd <- from_fd, size, flags (SPLICE_F_*), offset of fd, from_offset (-1: none)
    WEFT__OP_FSYNC, ///< flags: 1 for data only
    WEFT__OP_CODES,
};

/// weft__op.mode. MANAGED says that the descriptor is made and closed by weft alone: the driver may
/// keep it registered between operations.
#define WEFT__OP_MULTI 0x1u  ///< one submission, many results
#define WEFT__OP_SELECT 0x2u ///< the driver chooses the buffer
#define WEFT__OP_MANAGED 0x4u
#define WEFT__OP_UNCOUNTED 0x8u ///< weft's own, which the program did not ask for

/// weft__op.result_flags; a buffer's number is in the upper 16 bits.
#define WEFT__OP_MORE 0x1u   ///< done() will be called again
#define WEFT__OP_BUFFER 0x2u ///< the bytes are in a receive buffer
#define WEFT__OP_NOTIFY 0x4u ///< not a result: the bytes of a SEND_ZC are the caller's again
#define WEFT__OP_EMPTY 0x8u  ///< of a RECV: the socket had no more bytes when it was done; a hint

#define WEFT__OP_WAITALL 0x100u ///< MSG_WAITALL, among `flags`

struct weft__op {
    // The owner's; fixed while in flight.
    void (*done)(struct weft__op *op);
    void *data;
    size_t size;
    int64_t offset;
    union {
        uint32_t *addr_size; // ACCEPT: room and then length of the address at `data`
        int64_t from_offset; // SPLICE
    };
    int from_fd; // SPLICE
    int fd;
    uint32_t flags;
    uint8_t code; // enum weft__op_code
    uint8_t mode;

    // The driver's, while in flight.
    uint8_t stage; // its own account of where the op is; 0: not in flight
    uint8_t scratch;
    struct weft__op *next;
    struct weft__op **link;
    union {
        void *extra;                         // what it keeps beside the op
        void (*finish)(struct weft__op *op); // after done(), of one in an annex: comes next
    };
    uint32_t generation; // of the descriptor

    // Valid in done(), or after submit() returned true.
    uint32_t result_flags;
    int64_t result; // as the system call, or a negative errno
};

/// Makes an op that moves bytes where the descriptor stands. Field by field: for the whole of it a
/// compiler would call upon the string instructions, which take longer than all else here.
static inline void weft__op_init(struct weft__op *op, enum weft__op_code code, int fd, void *data,
                                 size_t size)
{
    op->done = NULL;
    op->data = data;
    op->size = size;
    op->offset = -1;
    op->from_offset = 0;
    op->from_fd = 0;
    op->fd = fd;
    op->flags = 0;
    op->code = (uint8_t)code;
    op->mode = 0;
    op->stage = 0;
    op->scratch = 0;
    op->next = NULL;
    op->link = NULL;
    op->extra = NULL;
    op->generation = 0;
    op->result_flags = 0;
    op->result = 0;
}

/// Whether an op that was cancelled, and says so, can be submitted again as if nothing had been. Not a
/// connect, which goes on in the kernel; nor what should come in one piece, or is told when it is over.
static inline bool weft__op_may_move(const struct weft__op *op)
{
    switch ((enum weft__op_code)op->code) {
    case WEFT__OP_READ:
    case WEFT__OP_READV:
    case WEFT__OP_WRITE:
    case WEFT__OP_WRITEV:
    case WEFT__OP_ACCEPT:
    case WEFT__OP_POLL: return true;
    case WEFT__OP_RECV:
    case WEFT__OP_SEND:
    case WEFT__OP_RECVMSG:
    case WEFT__OP_SENDMSG: return (op->flags & WEFT__OP_WAITALL) == 0;
    default: return false;
    }
}

static inline uint16_t weft__op_buffer(const struct weft__op *op)
{
    return (uint16_t)(op->result_flags >> 16);
}

/// What a driver counts. Written by its carrier only, read by anyone.
struct weft__op_counts {
    _Atomic uint64_t submitted;      // ops
    _Atomic uint64_t completed;      // final completions
    _Atomic uint64_t cancels;        // requests passed to the kernel
    _Atomic uint64_t enters;         // system calls that submit or wait
    _Atomic uint64_t queue_full;     // submissions that had to wait for room
    _Atomic uint64_t submit_refused; // EAGAIN, EBUSY, ENOMEM from submitting
    _Atomic uint64_t cq_overflows;   // times the completion queue had run over
    _Atomic uint64_t no_buffers;     // ops that found no receive buffer
    _Atomic uint64_t multishot_ends; // multishot ops that the kernel ended and the owner re-arms
    _Atomic uint64_t short_writes;   // writes and sends that took only a part
    _Atomic uint64_t offloaded;      // ops that went to the blocking pool
};

/// Counts the op as submitted or completed, unless it is one of weft's own: its end must not be taken
/// back later, for anybody who reads a counter that goes down believes that it began anew.
static inline void weft__op_count(_Atomic uint64_t *counter, const struct weft__op *op)
{
    uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, value + ((op->mode & WEFT__OP_UNCOUNTED) == 0),
                          memory_order_relaxed);
}

#endif
