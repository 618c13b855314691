// uring_complete.c - from completion to done().
#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "io/uring.h"

#if WEFT__TSAN
char weft__uring_wire;
#endif

static size_t wanted(const struct weft__op *op)
{
    const struct msghdr *message = op->data;
    const struct iovec *parts = op->data;
    size_t count = op->size, sum = 0;
    switch (op->code) {
    case WEFT__OP_WRITE:
    case WEFT__OP_SEND:
    case WEFT__OP_SEND_ZC: return op->size;
    case WEFT__OP_SENDMSG:
        parts = message->msg_iov;
        count = message->msg_iovlen;
        break;
    case WEFT__OP_WRITEV: break;
    default: return 0;
    }
    for (size_t i = 0; i < count; i++) {
        sum += parts[i].iov_len;
    }
    return sum;
}

static inline void count_short(struct weft__uring *u, const struct weft__op *op, int result)
{
    if (result > 0 && weft__unlikely((size_t)result < wanted(op))) {
        weft__uring_count(&u->counts.short_writes);
    }
}

static uint32_t result_flags(struct weft__uring *u, const struct weft__op *op, int result,
                             uint32_t flags)
{
    uint32_t answer = 0;
    if ((flags & IORING_CQE_F_BUFFER) != 0) {
        uint16_t number = (uint16_t)(flags >> IORING_CQE_BUFFER_SHIFT);
        weft__uring_buffers_taken(u, number);
        if (result > 0) {
            answer = WEFT__OP_BUFFER | (flags & 0xffff0000u);
        } else {
            weft__uring_give(u, number); // at the end of a stream some kernels bring one, too
        }
    }
    if ((flags & IORING_CQE_F_MORE) != 0) {
        answer |= WEFT__OP_MORE;
    }
    if (op->code == WEFT__OP_RECV && result > 0 && (flags & IORING_CQE_F_SOCK_NONEMPTY) == 0 &&
        (u->features & WEFT__URING_SOCK_NONEMPTY) != 0) {
        answer |= WEFT__OP_EMPTY;
    }
    return answer;
}

static inline int call_done(struct weft__uring *u, struct weft__op *op)
{
    if (weft__unlikely(u->closing)) {
        return 0;
    }
    weft__uring_received();
    op->done(op);
    return 1;
}

/// Not the end: a result of a multishot, or of a SEND_ZC whose bytes are still read.
static int more_to_come(struct weft__uring *u, struct weft__op *op, int result, uint32_t flags)
{
    op->result = result;
    if (op->code == WEFT__OP_SEND_ZC) {
        u->notifies++;
        op->stage = result < 0 ? WEFT__STAGE_FAILED : WEFT__STAGE_NOTIFY;
        if (result < 0) {
            return 0;
        }
        count_short(u, op, result);
    }
    op->result_flags = result_flags(u, op, result, flags);
    return call_done(u, op);
}

/// The last completion of a SEND_ZC that had its result.
static int after_notify(struct weft__uring *u, struct weft__op *op)
{
    weft__uring_leave(u, op);
    weft__uring_let_go(u, op);
    op->result = 0;
    op->result_flags = WEFT__OP_NOTIFY;
    return call_done(u, op);
}

int weft__uring_complete(struct weft__uring *u, struct weft__op *op, int result, uint32_t flags)
{
    if (weft__unlikely(op->stage >= WEFT__STAGE_NOTIFY)) {
        u->notifies--;
        if (op->stage == WEFT__STAGE_NOTIFY) {
            return after_notify(u, op);
        }
        op->stage = WEFT__STAGE_RING;
        result = (int)op->result;
    } else if (weft__unlikely((flags & IORING_CQE_F_NOTIF) != 0)) {
        result = -EIO; // the result itself was dropped
    }
    if ((flags & IORING_CQE_F_MORE) != 0) {
        return more_to_come(u, op, result, flags);
    }
    weft__uring_leave(u, op);
    uint32_t answer = result_flags(u, op, result, flags);
    if (weft__unlikely(u->lossy) && weft__uring_go_on(u, op, result)) {
        return 0;
    }
    if (weft__unlikely(op->stage == WEFT__STAGE_POLL)) {
        if (!u->closing && !weft__uring_after_poll(u, op, &result, &answer)) {
            return 0;
        }
    } else if (weft__unlikely(result < 0)) {
        if (!u->closing && !weft__uring_after_error(u, op, &result)) {
            return 0;
        }
    } else if ((op->mode & WEFT__OP_MULTI) != 0 && (op->scratch & WEFT__MARK_MULTI) != 0 &&
               (result > 0 || op->code == WEFT__OP_ACCEPT)) {
        weft__uring_count(&u->counts.multishot_ends);
    }
    count_short(u, op, result);
    weft__uring_let_go(u, op);
    op->result = result;
    op->result_flags = answer;
    return call_done(u, op);
}

void weft__uring_end(struct weft__uring *u, struct weft__op *op, int result)
{
    op->stage = WEFT__STAGE_ENDED;
    op->result = result;
    op->result_flags = 0;
    weft__op_list_push(&u->ended, op);
}

int weft__uring_deliver(struct weft__uring *u)
{
    int count = 0;
    // What ends meanwhile is for the next time, or two ops could keep us here for ever.
    struct weft__op *last = weft__op_list_empty(&u->ended)
                                ? NULL
                                : weft__container_of(u->ended.tail, struct weft__op, next);
    for (struct weft__op *op = NULL; last != NULL && op != last; count++) {
        op = weft__op_list_pop(&u->ended);
        weft__uring_let_go(u, op);
        (void)call_done(u, op);
    }
    return count;
}
