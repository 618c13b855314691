// epoll_ops.c - operations of the epoll driver: try, wait for readiness, try again.
//
//        submit -- ends at once --> (true)
//          | would block                            would stall (a disk)
//          v                                               |
//       slot.readers, .writers, .others <----------+       v
//          | event: try again                      |   blocking pool
//          +-- would block ------------------------+       |
//          v                                               v
//        done() <------- driver.ending <-- cancel       done()
//
//   W1  Of a MANAGED descriptor epoll reports edges. A hint EMPTY is set only after a system call that
//       found it so, and cleared by every event. Whatever comes after that call makes a new edge, so
//       an op that relies on the hint instead of trying is woken.
//   W2  A read shorter than asked for counts as such a call. Not so when an end, an error or urgent
//       bytes had been reported (WARY): those stop a read short, and their edge has passed.
//   W3  Of a plain descriptor the hint is only a guess. Arming it, or proving that it is armed, reports
//       what is there already (epoll_slots.c, epoll_trust.c).
//   W4  done() may do anything: submit, cancel, forget, free its op. So no pointer to an op is kept
//       across it, slots stay where they are, and a changed generation ends the work on a slot.
//   W5  Nothing is ended inside cancel(), forget() or give(): their callers may be about to park.
//
// Checked by: tests/unit/op_*test.c, tests/unit/epoll_*_test.c.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "io/epoll_read.h"
#include "sched/carrier.h"

/// Which side of its descriptor an op uses.
enum side { NEITHER, READS, WRITES };

static const uint8_t sides[WEFT__OP_CODES] = {
    [WEFT__OP_READ] = READS,     [WEFT__OP_READV] = READS,    [WEFT__OP_RECV] = READS,
    [WEFT__OP_RECVMSG] = READS,  [WEFT__OP_ACCEPT] = READS,   [WEFT__OP_WRITE] = WRITES,
    [WEFT__OP_WRITEV] = WRITES,  [WEFT__OP_SEND] = WRITES,    [WEFT__OP_SEND_ZC] = WRITES,
    [WEFT__OP_SENDMSG] = WRITES, [WEFT__OP_CONNECT] = WRITES,
};

/// The op's account when it ends, however it does.
static void settle(struct weft__epoll *e, struct weft__op *op, int64_t result)
{
    weft__op_settle(e, op, result);
    if (sides[op->code] == READS) {
        return;
    }
    bool writes = sides[op->code] == WRITES && op->code != WEFT__OP_CONNECT;
    if (writes && result >= 0 && weft__unlikely((size_t)result < weft__op_bytes(op))) {
        weft__count(&e->counts.short_writes);
    }
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

/// All receive buffers are out.
static int64_t starve(struct weft__epoll *e, struct weft__op *op)
{
    if ((op->scratch & WEFT__OP_STARVED) == 0) {
        op->scratch |= WEFT__OP_STARVED;
        weft__count(&e->counts.no_buffers);
    }
    return WEFT__NO_BUFFER;
}

static int64_t recv_selected(struct weft__epoll *e, struct weft__slot *slot, struct weft__op *op)
{
    struct weft__receive *receive = &e->receive;
    if (weft__unlikely(receive->free_count == 0)) {
        return starve(e, op);
    }
    uint16_t number = receive->free[receive->free_count - 1];
    int64_t n = weft__perform_recv(op, &slot->kind, receive->memory + number * receive->stride,
                                   receive->size, op->flags);
    if (n > 0) {
        receive->free_count--;
        op->result_flags |= WEFT__OP_BUFFER | (uint32_t)number << 16;
    }
    return n;
}

/// An accepted socket is what its listener is, which saves two system calls for each connection; and
/// what is known of its number is of another.
static void introduce(struct weft__epoll *e, struct weft__slot *listener, int listener_fd, int fd)
{
    if (listener->kind == WEFT__FD_UNKNOWN) {
        int kind = weft__socket_kind(listener_fd);
        listener->kind = kind < 0 ? WEFT__FD_UNKNOWN : (uint8_t)kind;
    }
    struct weft__slot *slot = weft__slot_get(e, fd);
    if (slot != NULL) {
        slot->kind = listener->kind;
        weft__slot_drop(slot, WEFT__SLOT_EMPTY | WEFT__SLOT_GUESSED | WEFT__SLOT_WARY);
    }
}

static int64_t try_once(struct weft__epoll *e, struct weft__slot *slot, struct weft__op *op)
{
    bool simple = (op->scratch & WEFT__OP_SIMPLE) != 0 && weft__is_stream(slot->kind);
    int64_t n = simple ? weft__epoll_read_stream(e, slot, op) : -ENOTSOCK;
    if (weft__unlikely(n == WEFT__NO_BUFFER)) {
        return starve(e, op);
    }
    if (n != -ENOTSOCK) {
        return n;
    }
    n = (op->mode & WEFT__OP_SELECT) != 0 ? recv_selected(e, slot, op)
                                          : weft__perform(op, &slot->kind);
    if ((op->result_flags & WEFT__OP_EMPTY) != 0) {
        op->result_flags &= ~WEFT__OP_EMPTY;
        weft__slot_emptied(slot, op);
    }
    return n;
}

/// Performs the op if it does not block, and keeps the slot's hints.
int64_t weft__epoll_attempt(struct weft__epoll *e, struct weft__slot *slot, struct weft__op *op)
{
    int64_t n = try_once(e, slot, op);
    if (n == WEFT__WOULD_BLOCK && sides[op->code] == READS && !weft__op_is_aside(op)) {
        slot->hints |= WEFT__SLOT_EMPTY;
        weft__slot_drop(slot, WEFT__SLOT_GUESSED);
    } else if (op->code == WEFT__OP_ACCEPT && n >= 0) {
        introduce(e, slot, op->fd, (int)n);
    }
    return n;
}

// Waiting.

static void join(struct weft__epoll *e, struct weft__slot *slot, struct weft__op *op)
{
    e->waiting++;
    switch (op->stage) {
    case WEFT__EPOLL_READING: weft__op_queue_add(&slot->readers, op); break;
    case WEFT__EPOLL_WRITING: weft__op_queue_add(&slot->writers, op); break;
    default: weft__others_add(slot, op); break;
    }
}

void weft__epoll_leave(struct weft__epoll *e, struct weft__op *op)
{
    struct weft__slot *slot = weft__slot_of(e, weft__op_waits_at(op));
    e->waiting--;
    switch (op->stage) {
    case WEFT__EPOLL_READING: weft__op_queue_remove(&slot->readers, op); break;
    case WEFT__EPOLL_WRITING: weft__op_queue_remove(&slot->writers, op); break;
    default: weft__others_remove(op); break;
    }
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

/// Whether epoll will tell when there is something for this reader, as things are.
static bool reports_bytes(const struct weft__slot *slot, const struct weft__op *op)
{
    return (slot->hints & WEFT__SLOT_KEPT) != 0 && op->stage == WEFT__EPOLL_READING;
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
    join(e, slot, op);
    if (reports_bytes(slot, op)) {
        if ((slot->hints & WEFT__SLOT_GUESSED) != 0) {
            weft__slot_doubt(e, slot, fd);
        }
        return false;
    }
    int rc = weft__slot_arm(e, slot, fd, weft__op_is_managed(op));
    if (weft__likely(rc == 0)) {
        return false;
    }
    weft__epoll_leave(e, op);
    if (!weft__slot_is_idle(slot)) {
        weft__slot_list_add(&e->again, slot); // whoever else waits there relied on it, too
    }
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
    join(e, slot, op);
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
    if (weft__unlikely(op->code == WEFT__OP_SPLICE) && !weft__splices_add(e, op)) {
        return -ENOMEM;
    }
    if (weft__unlikely(op->code == WEFT__OP_CONNECT)) { // what was before is another connection's
        weft__slot_drop(*slot, WEFT__SLOT_WARY | WEFT__SLOT_EMPTY);
    }
    return 0;
}

/// A read that takes what there is, and in which nothing is unusual.
static inline bool is_simple(const struct weft__op *op)
{
    return (op->code == WEFT__OP_RECV && op->flags == 0) ||
           (op->code == WEFT__OP_READ && op->offset < 0 && op->size > 0);
}

/// The first half of a request, without detours: a read of a stream where nothing is to be had, and
/// which is registered already. False: it has to go the long way.
static inline bool wait_simply(struct weft__epoll *e, struct weft__op *op)
{
    struct weft__slot *slot = weft__slot_find(e, op->fd);
    if (weft__unlikely(slot == NULL || !weft__is_stream(slot->kind))) {
        return false;
    }
    unsigned hints = slot->hints;
    unsigned steady = weft__op_is_managed(op) ? WEFT__SLOT_KEPT
                                              : WEFT__SLOT_KEPT | WEFT__SLOT_STEADY;
    if ((hints & WEFT__SLOT_EMPTY) == 0 || (hints & steady) == 0) {
        return false;
    }
    op->stage = WEFT__EPOLL_READING;
    weft__op_queue_add(&slot->readers, op);
    e->waiting++;
    if ((hints & (WEFT__SLOT_STEADY | WEFT__SLOT_GUESSED)) != 0) {
        weft__slot_doubt(e, slot, op->fd);
    }
    return true;
}

/// Tries, and waits or goes elsewhere if that was not all. True: it has ended. Out of line, so that the
/// short way saves no registers for it.
WEFT__NOINLINE static bool start(struct weft__epoll *e, struct weft__op *op)
{
    struct weft__slot *slot;
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

bool weft__epoll_submit(void *state, struct weft__op *op)
{
    struct weft__epoll *e = state;
    weft__op_count(&e->counts.submitted, op);
    op->result = 0;
    op->result_flags = 0;
    op->scratch = is_simple(op) ? WEFT__OP_SIMPLE : 0;
    if (op->scratch != 0 && wait_simply(e, op)) {
        return false;
    }
    return start(e, op);
}

int64_t weft__epoll_write_now(void *state, int fd, const void *data, size_t size)
{
    struct weft__epoll *e = state;
    struct weft__slot *slot = weft__slot_find(e, fd);
    if (weft__unlikely(slot == NULL || !weft__is_socket(slot->kind) ||
                       slot->writers.head != NULL)) {
        return -EAGAIN;
    }
    int64_t n = weft__send(fd, data, size, 0);
    if (weft__unlikely(n == -ENOTSOCK || n == WEFT__WOULD_BLOCK || n == -EINTR)) {
        return -EAGAIN; // the kind was a guess
    }
    weft__count(&e->counts.submitted);
    weft__count(&e->counts.completed);
    if (weft__unlikely(n >= 0 && (size_t)n < size)) {
        weft__count(&e->counts.short_writes);
    }
    return n;
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
