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
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "io/epoll.h"
#include "sched/carrier.h"

enum {
    OPS_PER_EVENT = WEFT__SIZED(32, 2), ///< then other descriptors have their turn
};

/// Beside the results of weft__perform(): all receive buffers are out.
#define NO_BUFFER (INT64_MIN + 1)

/// weft__op.scratch; bit 0 is perform.c's.
#define STARVED 0x2u
#define CANCELLED 0x4u

static bool is_managed(const struct weft__op *op)
{
    return (op->mode & WEFT__OP_MANAGED) != 0;
}

/// Reads something else than the bytes in line: it neither waits for them nor holds them up.
static bool is_aside(const struct weft__op *op)
{
    return (op->code == WEFT__OP_RECV || op->code == WEFT__OP_RECVMSG) &&
           (op->flags & (MSG_OOB | MSG_ERRQUEUE)) != 0;
}

/// Which side of its descriptor an op uses.
enum side { NEITHER, READS, WRITES };

static const uint8_t sides[WEFT__OP_CODES] = {
    [WEFT__OP_READ] = READS,     [WEFT__OP_READV] = READS,    [WEFT__OP_RECV] = READS,
    [WEFT__OP_RECVMSG] = READS,  [WEFT__OP_ACCEPT] = READS,   [WEFT__OP_WRITE] = WRITES,
    [WEFT__OP_WRITEV] = WRITES,  [WEFT__OP_SEND] = WRITES,    [WEFT__OP_SEND_ZC] = WRITES,
    [WEFT__OP_SENDMSG] = WRITES, [WEFT__OP_CONNECT] = WRITES,
};

// A SPLICE concerns two descriptors and waits at one of them: this list is for forgetting the other.

static bool reserve_splice(struct weft__epoll *e)
{
    struct weft__splices *splices = &e->splices;
    if (splices->count < splices->room) {
        return true;
    }
    size_t room = splices->room != 0 ? 2 * splices->room : WEFT__SIZED(16, 1);
    struct weft__op **ops = weft__alloc(e->allocator, room * sizeof *ops,
                                        _Alignof(struct weft__op *));
    if (ops == NULL) {
        return false;
    }
    for (size_t i = 0; i < splices->count; i++) {
        ops[i] = splices->ops[i];
    }
    weft__free(e->allocator, splices->ops, splices->room * sizeof *ops);
    splices->ops = ops;
    splices->room = room;
    return true;
}

static void forget_splice(struct weft__epoll *e, const struct weft__op *op)
{
    struct weft__splices *splices = &e->splices;
    for (size_t i = 0; i < splices->count; i++) {
        if (splices->ops[i] == op) {
            splices->ops[i] = splices->ops[--splices->count];
            return;
        }
    }
}

static void count_short(struct weft__epoll *e, const struct weft__op *op, int64_t result)
{
    bool simple = op->code == WEFT__OP_SEND || op->code == WEFT__OP_WRITE ||
                  op->code == WEFT__OP_SEND_ZC;
    if (simple && weft__unlikely(result >= 0 && (size_t)result < op->size)) {
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
        forget_splice(e, op);
    }
}

void weft__epoll_end(struct weft__epoll *e, struct weft__op *op, int64_t result)
{
    settle(e, op, result);
    e->ended++;
    op->done(op);
}

static void list_slot(struct weft__slot_list *list, struct weft__slot *slot)
{
    if ((slot->hints & WEFT__SLOT_LISTED) == 0) {
        slot->hints |= WEFT__SLOT_LISTED;
        slot->next = NULL;
        if (list->head == NULL) {
            list->head = slot;
        } else {
            list->tail->next = slot;
        }
        list->tail = slot;
    }
}

static struct weft__slot *unlist_slot(struct weft__slot_list *list)
{
    struct weft__slot *slot = list->head;
    if (slot != NULL) {
        list->head = slot->next;
        slot->hints = (uint8_t)(slot->hints & ~WEFT__SLOT_LISTED);
    }
    return slot;
}

// Trying.

static int64_t recv_selected(struct weft__epoll *e, struct weft__slot *slot, struct weft__op *op)
{
    struct weft__pool *pool = &e->pool;
    if (weft__unlikely(pool->free_count == 0)) {
        if ((op->scratch & STARVED) == 0) {
            op->scratch |= STARVED;
            weft__count(&e->counts.no_buffers);
        }
        return NO_BUFFER;
    }
    uint16_t number = pool->free[pool->free_count - 1];
    int64_t n = weft__perform_recv(op, &slot->kind, weft__epoll_buffer(e, number), pool->size);
    if (n > 0) {
        pool->free_count--;
        op->result_flags |= WEFT__OP_BUFFER | (uint32_t)number << 16;
    }
    return n;
}

/// Performs the op if it does not block, and keeps the slot's hints.
static int64_t attempt(struct weft__epoll *e, struct weft__slot *slot, struct weft__op *op)
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
        if ((slot->hints & WEFT__SLOT_WARY) != 0 || !is_managed(op)) {
            op->result_flags &= ~WEFT__OP_EMPTY;
        }
    } else if (n == WEFT__WOULD_BLOCK && sides[op->code] == READS && !is_aside(op)) {
        slot->hints |= WEFT__SLOT_EMPTY;
    }
    return n;
}

// Waiting.

/// Where an op waits: the descriptor and the queue.
static int waits_at(const struct weft__op *op)
{
    return op->code == WEFT__OP_SPLICE && op->stage == WEFT__EPOLL_READING ? op->from_fd : op->fd;
}

static struct weft__queue *queue_of(struct weft__slot *slot, uint8_t stage)
{
    switch (stage) {
    case WEFT__EPOLL_READING: return &slot->readers;
    case WEFT__EPOLL_WRITING: return &slot->writers;
    default: return &slot->others;
    }
}

static void leave(struct weft__epoll *e, struct weft__op *op)
{
    weft__queue_remove(queue_of(weft__slot_of(e, waits_at(op)), op->stage), op);
    e->waiting--;
    op->stage = WEFT__EPOLL_IDLE;
}

static uint8_t stage_for(const struct weft__op *op)
{
    if (op->code == WEFT__OP_POLL) {
        return WEFT__EPOLL_POLLING;
    }
    if (op->code == WEFT__OP_SPLICE) {
        return weft__splice_waits_for_input(op) ? WEFT__EPOLL_READING : WEFT__EPOLL_WRITING;
    }
    return sides[op->code] == WRITES ? WEFT__EPOLL_WRITING : WEFT__EPOLL_READING;
}

/// Puts the op, which would block, where an event finds it. True: it has ended instead.
static bool wait_ready(struct weft__epoll *e, struct weft__op *op)
{
    op->stage = stage_for(op);
    int fd = waits_at(op);
    struct weft__slot *slot = weft__slot_get(e, fd);
    if (weft__unlikely(slot == NULL)) {
        op->result = -ENOMEM;
        return true;
    }
    weft__queue_add(queue_of(slot, op->stage), op);
    e->waiting++;
    int rc = weft__slot_arm(e, slot, fd, is_managed(op));
    if (weft__likely(rc == 0)) {
        return false;
    }
    leave(e, op);
    if (rc == -EPERM) { // it is always ready, says the kernel, and then blocks
        return weft__epoll_offload(e, op);
    }
    op->result = rc;
    return true;
}

/// What follows from an attempt outside of any queue. True: the op has ended.
static bool go_on(struct weft__epoll *e, struct weft__slot *slot, struct weft__op *op, int64_t n)
{
    if (n == WEFT__WOULD_BLOCK) {
        return wait_ready(e, op);
    }
    if (n == WEFT__WOULD_STALL) {
        return weft__epoll_offload(e, op);
    }
    if (n == NO_BUFFER) {
        op->stage = WEFT__EPOLL_READING;
        weft__queue_add(&slot->readers, op);
        e->waiting++;
        list_slot(&e->hungry, slot);
        return false;
    }
    op->result = n;
    return true;
}

/// Whether to try at all: not behind others, and not where nothing is to be had.
static bool worth_trying(const struct weft__slot *slot, const struct weft__op *op)
{
    switch (sides[op->code]) {
    case READS:
        return (slot->readers.head == NULL && (slot->hints & WEFT__SLOT_EMPTY) == 0) ||
               is_aside(op);
    case WRITES: return slot->writers.head == NULL;
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
        if (!reserve_splice(e)) {
            return -ENOMEM;
        }
        e->splices.ops[e->splices.count++] = op;
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
    int64_t n = worth_trying(slot, op) ? attempt(e, slot, op) : WEFT__WOULD_BLOCK;
    if (go_on(e, slot, op, n)) {
        settle(e, op, op->result);
        return true;
    }
    return false;
}

// Ending from outside.

static void end_later(struct weft__epoll *e, struct weft__op *op, int64_t result)
{
    op->stage = WEFT__EPOLL_ENDING;
    op->result = op->result > 0 ? op->result : result; // bytes that were transferred win
    weft__queue_add(&e->ending, op);
}

static void ask_to_end(struct weft__epoll *e, struct weft__op *op, int64_t result)
{
    switch (op->stage) {
    case WEFT__EPOLL_READING:
    case WEFT__EPOLL_WRITING:
    case WEFT__EPOLL_POLLING:
        leave(e, op);
        end_later(e, op, result);
        break;
    case WEFT__EPOLL_BLOCKING:
        op->scratch |= CANCELLED;
        if (weft__epoll_recall(e, op)) {
            end_later(e, op, result);
        }
        break;
    default: break;
    }
}

void weft__epoll_cancel(void *state, struct weft__op *op)
{
    struct weft__epoll *e = state;
    weft__count(&e->counts.cancels);
    ask_to_end(e, op, -ECANCELED);
}

static void ask_queue(struct weft__epoll *e, struct weft__queue *queue, int64_t result)
{
    struct weft__op *op = queue->head;
    while (op != NULL) {
        struct weft__op *next = op->next;
        ask_to_end(e, op, result);
        op = next;
    }
}

static void ask_slot(struct weft__epoll *e, struct weft__slot *slot, int64_t result)
{
    ask_queue(e, &slot->readers, result);
    ask_queue(e, &slot->writers, result);
    ask_queue(e, &slot->others, result);
}

void weft__epoll_forget(void *state, int fd)
{
    struct weft__epoll *e = state;
    size_t piece = (unsigned)fd / WEFT__SLOTS_PER_PIECE;
    if (fd < 0 || piece >= e->slots.count || e->slots.pieces[piece] == NULL) {
        return;
    }
    struct weft__slot *slot = weft__slot_of(e, fd);
    ask_slot(e, slot, -ECANCELED);
    for (size_t i = 0; i < e->splices.count; i++) {
        if (e->splices.ops[i]->from_fd == fd || e->splices.ops[i]->fd == fd) {
            ask_to_end(e, e->splices.ops[i], -ECANCELED);
        }
    }
    weft__slot_forget(e, slot, fd);
}

void weft__epoll_give(void *state, uint16_t number)
{
    struct weft__pool *pool = &((struct weft__epoll *)state)->pool;
    weft_assert(number < pool->count && pool->free_count < pool->count);
    pool->free[pool->free_count++] = number;
}

// Events.

/// The next op of a queue that is worth a try.
static struct weft__op *next_try(const struct weft__slot *slot, struct weft__op *op)
{
    while (op != NULL && op->stage == WEFT__EPOLL_READING && !is_aside(op) &&
           (slot->hints & WEFT__SLOT_EMPTY) != 0) {
        op = op->next;
    }
    return op;
}

/// Tries the readers or the writers in turn until one would block.
static void run_queue(struct weft__epoll *e, struct weft__slot *slot, struct weft__queue *queue)
{
    uint32_t generation = slot->generation;
    int left = OPS_PER_EVENT;
    struct weft__op *op = next_try(slot, queue->head);
    while (op != NULL) {
        int64_t n = attempt(e, slot, op);
        if (n == NO_BUFFER) {
            list_slot(&e->hungry, slot);
            return;
        }
        bool splice = op->code == WEFT__OP_SPLICE; // it may have to wait at its other end now
        if (n == WEFT__WOULD_BLOCK && !splice) {
            if (op->stage == WEFT__EPOLL_WRITING) {
                return;
            }
            op = next_try(slot, op->next);
            continue;
        }
        leave(e, op);
        if (go_on(e, slot, op, n)) {
            weft__epoll_end(e, op, op->result);
        }
        if (slot->generation != generation || (splice && n == WEFT__WOULD_BLOCK)) {
            return;
        }
        op = next_try(slot, queue->head);
        if (op != NULL && --left == 0) {
            list_slot(&e->again, slot);
            return;
        }
    }
}

static struct weft__op *next_poller(struct weft__op *op)
{
    while (op != NULL && op->stage != WEFT__EPOLL_POLLING) {
        op = op->next;
    }
    return op;
}

static void run_pollers(struct weft__epoll *e, struct weft__slot *slot)
{
    uint32_t generation = slot->generation;
    struct weft__op *op = next_poller(slot->others.head);
    while (op != NULL && slot->generation == generation) {
        int64_t n = attempt(e, slot, op);
        if (n == WEFT__WOULD_BLOCK) {
            op = next_poller(op->next);
            continue;
        }
        leave(e, op);
        weft__epoll_end(e, op, n);
        op = next_poller(slot->others.head);
    }
}

void weft__epoll_happened(struct weft__epoll *e, const struct epoll_event *event)
{
    const uint32_t ends = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
    int fd = (int)(uint32_t)event->data.u64;
    uint32_t generation = (uint32_t)(event->data.u64 >> 32);
    uint32_t events = event->events;
    struct weft__slot *slot = weft__slot_of(e, fd);
    if (weft__unlikely(slot->generation != generation)) {
        return;
    }
    if ((slot->hints & (WEFT__SLOT_KEPT | WEFT__SLOT_EDGE)) == 0) {
        slot->armed = 0; // the one shot
    }
    if (weft__unlikely((events & (ends | EPOLLPRI)) != 0)) {
        slot->hints |= WEFT__SLOT_WARY;
    }
    if ((events & (EPOLLIN | EPOLLPRI | ends)) != 0) {
        slot->hints = (uint8_t)(slot->hints & ~WEFT__SLOT_EMPTY);
        run_queue(e, slot, &slot->readers);
    }
    if (slot->writers.head != NULL && (events & (EPOLLOUT | ends)) != 0 &&
        slot->generation == generation) {
        run_queue(e, slot, &slot->writers);
    }
    if (weft__unlikely(slot->others.head != NULL) && slot->generation == generation) {
        run_pollers(e, slot);
    }
    if (slot->generation == generation) {
        int rc = weft__slot_rearm(e, slot, fd);
        if (weft__unlikely(rc < 0)) {
            ask_slot(e, slot, rc);
        }
    }
}

// Work without events.

void weft__epoll_came_back(struct weft__epoll *e, struct weft__op *op, int64_t result)
{
    bool more = op->code == WEFT__OP_SPLICE && result == WEFT__WOULD_BLOCK;
    if (more && (op->scratch & CANCELLED) != 0) {
        result = -ECANCELED;
    } else if (more) {
        if (!wait_ready(e, op)) {
            return;
        }
        result = op->result;
    }
    weft__epoll_end(e, op, result);
}

static void look_again(struct weft__epoll *e, struct weft__slot *slot)
{
    uint32_t generation = slot->generation;
    run_queue(e, slot, &slot->readers);
    if (slot->generation == generation) {
        run_queue(e, slot, &slot->writers);
    }
    // Those that found no buffer were not armed.
    struct weft__op *op = slot->readers.head;
    if (op != NULL && (slot->hints & WEFT__SLOT_LISTED) == 0) {
        int rc = weft__slot_arm(e, slot, waits_at(op), is_managed(op));
        if (rc < 0) {
            ask_slot(e, slot, rc);
        }
    }
}

void weft__epoll_work(struct weft__epoll *e)
{
    struct weft__queue ending = e->ending;
    e->ending.head = NULL;
    while (ending.head != NULL) {
        struct weft__op *op = ending.head;
        ending.head = op->next;
        weft__epoll_end(e, op, op->result);
    }
    weft__epoll_take_finished(e);
    for (uint32_t i = 0; i < e->pool.free_count && e->hungry.head != NULL; i++) {
        list_slot(&e->again, unlist_slot(&e->hungry));
    }
    struct weft__slot_list again = e->again;
    e->again.head = NULL;
    struct weft__slot *slot;
    while ((slot = unlist_slot(&again)) != NULL) {
        look_again(e, slot);
    }
}
