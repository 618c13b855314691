// epoll_ops.c - operations of the epoll driver: try, wait for readiness, try again.
//
//        submit -- ends at once --> (true)
//          | would block                            would stall (a disk)
//          v                                               |
//       slot.readers, .writers, .others <----------+       v
//          | event: try again                      |   blocking pool
//          +-- would block ------------------------+       |
//          v                                               v
//        done() <------- driver.ending <-- cancel     done()
//
//   W1  Of a MANAGED descriptor epoll reports edges. A hint EMPTY is set only after a system call that
//       found it so, and cleared by every event. Whatever comes after that call makes a new edge, so
//       an op that relies on the hint instead of trying is woken.
//   W2  A read shorter than asked for counts as such a call. Not so when an end, an error or urgent
//       bytes had been reported (WARY): those stop a read short, and their edge has passed.
//   W3  Of a plain descriptor the hint is only a guess: arming it reports at once what is there.
//   W4  done() may do anything: submit, cancel, forget, free its op. So no pointer to an op is kept
//       across it, slots stay where they are, and a changed generation ends the work on a slot.
//   W5  Nothing is ended inside cancel(), forget() or give(): their callers may be about to park.
//
// Checked by: tests/unit/op_test.c, tests/unit/epoll_ops_test.c.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "io/epoll.h"
#include "sched/carrier.h"

/// Which side of its descriptor an op uses.
enum side { NEITHER, READS, WRITES };

static const uint8_t sides[WEFT__OP_CODES] = {
    [WEFT__OP_READ] = READS,     [WEFT__OP_READV] = READS,    [WEFT__OP_RECV] = READS,
    [WEFT__OP_RECVMSG] = READS,  [WEFT__OP_ACCEPT] = READS,   [WEFT__OP_WRITE] = WRITES,
    [WEFT__OP_WRITEV] = WRITES,  [WEFT__OP_SEND] = WRITES,    [WEFT__OP_SEND_ZC] = WRITES,
    [WEFT__OP_SENDMSG] = WRITES, [WEFT__OP_CONNECT] = WRITES,
};

static void count_short(struct weft__epoll *e, const struct weft__op *op, int64_t result)
{
    bool writes = sides[op->code] == WRITES && op->code != WEFT__OP_CONNECT;
    if (writes && result >= 0 && weft__unlikely((size_t)result < weft__op_bytes(op))) {
        weft__count(&e->counts.short_writes);
    }
}

/// The op's account when it ends, however it does.
static void settle(struct weft__epoll *e, struct weft__op *op, int64_t result)
{
    op->stage = WEFT__EPOLL_IDLE;
    op->result = result;
    weft__count(&e->counts.completed);
    count_short(e, op, result);
    if (weft__unlikely(op->code == WEFT__OP_SPLICE)) {
        weft__splices_remove(e, op);
    }
}

void weft__epoll_end(struct weft__epoll *e, struct weft__op *op, int64_t result)
{
    settle(e, op, result);
    e->ended++;
    op->done(op);
}

// Trying.

static int64_t recv_selected(struct weft__epoll *e, struct weft__slot *slot, struct weft__op *op)
{
    struct weft__receive *receive = &e->receive;
    if (weft__unlikely(receive->free_count == 0)) {
        if ((op->scratch & WEFT__OP_STARVED) == 0) {
            op->scratch |= WEFT__OP_STARVED;
            weft__count(&e->counts.no_buffers);
        }
        return WEFT__NO_BUFFER;
    }
    uint16_t number = receive->free[receive->free_count - 1];
    int64_t n = weft__perform_recv(op, &slot->kind, weft__epoll_buffer(e, number), receive->size,
                                   op->flags);
    if (n > 0) {
        receive->free_count--;
        op->result_flags |= WEFT__OP_BUFFER | (uint32_t)number << 16;
    }
    return n;
}

/// An accepted socket is what its listener is. Saves two system calls for each connection.
static void inherit_kind(struct weft__epoll *e, struct weft__slot *listener, int listener_fd,
                         int fd)
{
    if (listener->kind == WEFT__FD_UNKNOWN) {
        int kind = weft__socket_kind(listener_fd);
        listener->kind = kind < 0 ? WEFT__FD_UNKNOWN : (uint8_t)kind;
    }
    struct weft__slot *slot = weft__slot_get(e, fd);
    if (slot != NULL) {
        slot->kind = listener->kind;
    }
}

/// Performs the op if it does not block, and keeps the slot's hints.
int64_t weft__epoll_attempt(struct weft__epoll *e, struct weft__slot *slot, struct weft__op *op)
{
    int64_t n;
    if ((op->mode & WEFT__OP_SELECT) != 0) {
        n = recv_selected(e, slot, op);
    } else {
        n = weft__perform(op, &slot->kind);
    }
    if ((op->result_flags & WEFT__OP_EMPTY) != 0) {
        if ((slot->hints & WEFT__SLOT_WARY) == 0) {
            slot->hints |= WEFT__SLOT_EMPTY;
        }
        if ((slot->hints & WEFT__SLOT_WARY) != 0 || !weft__op_is_managed(op)) {
            op->result_flags &= ~WEFT__OP_EMPTY;
        }
    } else if (n == WEFT__WOULD_BLOCK && sides[op->code] == READS && !weft__op_is_aside(op)) {
        slot->hints |= WEFT__SLOT_EMPTY;
    } else if (op->code == WEFT__OP_ACCEPT && n >= 0 && weft__op_is_managed(op)) {
        inherit_kind(e, slot, op->fd, (int)n);
    }
    return n;
}

// Waiting.

static struct weft__op_queue *queue_of(struct weft__slot *slot, uint8_t stage)
{
    switch (stage) {
    case WEFT__EPOLL_READING: return &slot->readers;
    case WEFT__EPOLL_WRITING: return &slot->writers;
    default: return &slot->others;
    }
}

void weft__epoll_leave(struct weft__epoll *e, struct weft__op *op)
{
    weft__op_queue_remove(queue_of(weft__slot_of(e, weft__op_waits_at(op)), op->stage), op);
    e->waiting--;
    op->stage = WEFT__EPOLL_IDLE;
}

/// Whether the caller wants an answer now, whatever it is.
static bool is_impatient(const struct weft__op *op)
{
    switch (op->code) {
    case WEFT__OP_RECV:
    case WEFT__OP_RECVMSG:
    case WEFT__OP_SEND:
    case WEFT__OP_SEND_ZC:
    case WEFT__OP_SENDMSG: return (op->flags & MSG_DONTWAIT) != 0;
    case WEFT__OP_SPLICE: return (op->flags & SPLICE_F_NONBLOCK) != 0;
    default: return false;
    }
}

/// Where an op that would block has to wait.
static uint8_t stage_for(const struct weft__op *op)
{
    if (op->code == WEFT__OP_POLL) {
        return WEFT__EPOLL_POLLING;
    }
    if (op->code != WEFT__OP_SPLICE) {
        return sides[op->code] == WRITES ? WEFT__EPOLL_WRITING : WEFT__EPOLL_READING;
    }
    if (weft__poll_now(op->from_fd, POLLIN) == WEFT__WOULD_BLOCK) {
        return WEFT__EPOLL_READING;
    }
    bool full = weft__poll_now(op->fd, POLLOUT) == WEFT__WOULD_BLOCK;
    return full ? WEFT__EPOLL_WRITING : WEFT__EPOLL_RETRYING;
}

static bool offload(struct weft__epoll *e, struct weft__op *op);

/// Puts the op, which would block, where an event finds it. True: it has ended instead.
static bool wait_ready(struct weft__epoll *e, struct weft__op *op)
{
    op->stage = stage_for(op);
    if (op->stage == WEFT__EPOLL_RETRYING) {
        weft__epoll_retry_later(e, op);
        return false;
    }
    int fd = weft__op_waits_at(op);
    struct weft__slot *slot = weft__slot_get(e, fd);
    if (weft__unlikely(slot == NULL)) {
        op->result = -ENOMEM;
        return true;
    }
    weft__op_queue_add(queue_of(slot, op->stage), op);
    e->waiting++;
    int rc = weft__slot_arm(e, slot, fd, weft__op_is_managed(op));
    if (weft__likely(rc == 0)) {
        return false;
    }
    weft__epoll_leave(e, op);
    if (rc == -EPERM) { // always ready, says the kernel, and then it blocks
        return offload(e, op);
    }
    op->result = op->result > 0 ? op->result : rc;
    return true;
}

/// True: the op has ended.
static bool offload(struct weft__epoll *e, struct weft__op *op)
{
    if (!weft__epoll_offload(e, op)) {
        return false;
    }
    bool full = op->code == WEFT__OP_SPLICE && op->result == WEFT__WOULD_BLOCK && !is_impatient(op);
    if (full) {
        op->result = 0;
        return wait_ready(e, op);
    }
    return true;
}

/// What follows from an attempt outside of any queue. True: the op has ended.
bool weft__epoll_go_on(struct weft__epoll *e, struct weft__slot *slot, struct weft__op *op,
                       int64_t n)
{
    if (n == WEFT__WOULD_BLOCK && !is_impatient(op)) {
        return wait_ready(e, op);
    }
    if (weft__likely(n > WEFT__NO_BUFFER)) {
        op->result = n;
        return true;
    }
    if (n == WEFT__WOULD_STALL) {
        return offload(e, op);
    }
    if (n == WEFT__WOULD_BLOCK_UNSEEN) {
        weft__epoll_retry_later(e, op);
        return false;
    }
    op->stage = WEFT__EPOLL_READING;
    weft__op_queue_add(&slot->readers, op);
    e->waiting++;
    weft__slot_list_add(&e->hungry, slot);
    return false;
}

/// Waiting would change nothing: a call for sockets on something else, or for no bytes at all.
static bool is_settled(const struct weft__slot *slot, const struct weft__op *op)
{
    switch (op->code) {
    case WEFT__OP_RECV:
    case WEFT__OP_RECVMSG: return slot->kind == WEFT__FD_OTHER || slot->kind == WEFT__FD_FILE;
    case WEFT__OP_READ: return op->size == 0;
    case WEFT__OP_READV: return weft__op_bytes(op) == 0;
    default: return false;
    }
}

/// Whether to try at all: not behind others, and not where nothing is to be had.
static bool worth_trying(const struct weft__slot *slot, const struct weft__op *op)
{
    switch (sides[op->code]) {
    case READS:
        return (slot->readers.head == NULL && (slot->hints & WEFT__SLOT_EMPTY) == 0) ||
               weft__op_is_aside(op) || is_impatient(op) || is_settled(slot, op);
    case WRITES: return slot->writers.head == NULL || is_impatient(op);
    default: return true;
    }
}

/// What has to be right before the first attempt. 0 or a negative errno.
static int prepare(struct weft__epoll *e, struct weft__op *op, struct weft__slot **slot)
{
    if (weft__unlikely(op->fd < 0)) {
        return -EBADF;
    }
    *slot = weft__slot_get(e, op->fd);
    if (weft__unlikely(*slot == NULL)) {
        return -ENOMEM;
    }
    if (weft__unlikely(op->code == WEFT__OP_SPLICE)) {
        if (!weft__splices_add(e, op)) {
            return -ENOMEM;
        }
    }
    if (weft__unlikely(op->code == WEFT__OP_CONNECT)) { // what was before is another connection's
        (*slot)->hints = (uint8_t)((*slot)->hints & ~(WEFT__SLOT_WARY | WEFT__SLOT_EMPTY));
    }
    return 0;
}

bool weft__epoll_submit(void *state, struct weft__op *op)
{
    struct weft__epoll *e = state;
    struct weft__slot *slot;
    weft__count(&e->counts.submitted);
    op->result = 0;
    op->result_flags = 0;
    op->scratch = 0;
    int rc = prepare(e, op, &slot);
    if (weft__unlikely(rc < 0)) {
        settle(e, op, rc);
        return true;
    }
    int64_t n = worth_trying(slot, op) ? weft__epoll_attempt(e, slot, op) : WEFT__WOULD_BLOCK;
    if (weft__epoll_go_on(e, slot, op, n)) {
        settle(e, op, op->result);
        return true;
    }
    return false;
}

void weft__epoll_try_again(struct weft__epoll *e, struct weft__op *op)
{
    struct weft__slot *slot = weft__slot_of(e, op->fd);
    op->stage = WEFT__EPOLL_IDLE;
    int64_t n = weft__epoll_attempt(e, slot, op);
    if (n == WEFT__WOULD_BLOCK) {
        n = WEFT__WOULD_BLOCK_UNSEEN;
    }
    if (weft__epoll_go_on(e, slot, op, n)) {
        weft__epoll_end(e, op, op->result);
    }
}

void weft__epoll_came_back(struct weft__epoll *e, struct weft__op *op, int64_t result)
{
    bool more = op->code == WEFT__OP_SPLICE && result == WEFT__WOULD_BLOCK && !is_impatient(op);
    if (more && (op->scratch & WEFT__OP_CANCELLED) != 0) {
        result = -ECANCELED;
    } else if (more) {
        if (!wait_ready(e, op)) {
            return;
        }
        result = op->result;
    }
    weft__epoll_end(e, op, result);
}
