// epoll.h - the inside of the epoll driver.
#ifndef WEFT_IO_EPOLL_H
#define WEFT_IO_EPOLL_H

#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/base.h"
#include "base/sys.h"
#include "io/perform.h"
#include "io/token.h"
#include "sched/counts.h"
#include "sched/driver.h"
#include "sched/inbox.h"

enum {
    WEFT__EPOLL_EVENTS = WEFT__SIZED(64, 1), ///< taken at once
};

/// weft__op.stage: where an op in flight is.
enum weft__epoll_stage {
    WEFT__EPOLL_IDLE,
    WEFT__EPOLL_READING,  ///< in slot.readers, of its descriptor; a SPLICE of from_fd
    WEFT__EPOLL_WRITING,  ///< in slot.writers
    WEFT__EPOLL_POLLING,  ///< in slot.others
    WEFT__EPOLL_BLOCKING, ///< in slot.others; `extra` is its job, in the blocking pool
    WEFT__EPOLL_RETRYING, ///< in driver.retrying
    WEFT__EPOLL_ENDING,   ///< in driver.ending, with its result: done() comes next
};

/// Ops in the order they came. Zeroed means empty; then tail is undefined.
struct weft__op_queue {
    struct weft__op *head;
    struct weft__op **tail;
};

/// slot.hints.
#define WEFT__SLOT_EMPTY 0x1u  ///< reading would block: nothing until the next event
#define WEFT__SLOT_WARY 0x2u   ///< an end, an error or urgent bytes came: short does not mean empty
#define WEFT__SLOT_LISTED 0x4u ///< in driver.again or driver.hungry
#define WEFT__SLOT_KNOWN 0x8u  ///< epoll has heard of it
#define WEFT__SLOT_KEPT 0x10u  ///< edge-triggered, for as long as weft has it (MANAGED)
#define WEFT__SLOT_EDGE 0x20u  ///< edge-triggered for this wait
#define WEFT__SLOT_WAITED 0x40u   ///< somebody has waited to read before
#define WEFT__SLOT_STEADY 0x80u   ///< edge-triggered until proven otherwise (epoll_trust.c)
#define WEFT__SLOT_DOUBTED 0x100u ///< an op relies on the registration or on GUESSED without proof
#define WEFT__SLOT_GUESSED 0x200u ///< EMPTY is only likely

/// What the driver knows of a descriptor.
struct weft__slot {
    struct weft__op_queue readers;
    struct weft__op_queue writers;
    struct weft__op *others;
    struct weft__slot *next;
    uint32_t generation; // of what is behind the number; events carry it
    uint16_t hints;
    uint16_t armed;      // what epoll will report, EPOLL*; 0: nothing, or the one shot was fired
    uint8_t kind;        // enum weft__fd_kind
    uint8_t strikes;     // events in a row that nobody had waited for
    uint32_t doubted_at; // the turn, cut
};
_Static_assert(sizeof(struct weft__slot) == WEFT__LINE, "one line each");

/// Slots by descriptor, in pieces that stay where they are.
struct weft__slots {
    struct weft__slot **pieces;
    size_t count;
};

/// Slots to come back to. Zeroed means empty; then tail is undefined.
struct weft__slot_list {
    struct weft__slot *head;
    struct weft__slot *tail;
};

enum {
    WEFT__DOUBTS = WEFT__SIZED(256, 2), ///< a power of two
};

/// A slot that is relied on since a turn of the driver.
struct weft__doubt {
    int fd;
    uint32_t turn; // outdated if that is not slot.doubted_at
};

/// A ring, oldest first.
struct weft__doubts {
    struct weft__doubt ring[WEFT__DOUBTS];
    unsigned first;
    unsigned count;
};

/// SPLICE ops in flight.
struct weft__splices {
    struct weft__op **ops;
    size_t count;
    size_t room;
};

/// The receive buffers.
struct weft__receive {
    char *memory;
    uint16_t *free; // a stack: what was used last is still in the cache
    uint32_t free_count;
    uint32_t count;
    uint32_t size;
    size_t stride;
};

struct weft__epoll {
    // Set by open(), read by kickers.
    int event_fd;

    // Kickers and the owner.
    _Alignas(WEFT__LINE_PAIR) struct weft__token token;

    // The blocking pool's threads and the owner.
    _Alignas(WEFT__LINE_PAIR) struct weft__inbox finished; // jobs
    _Atomic uint32_t jobs_out; // sent and not done with this struct; CLOSING: close() sleeps on it

    // The owner's alone.
    _Alignas(WEFT__LINE_PAIR) int epoll_fd;
    int timer_fd;       ///< -1 where epoll_pwait2 does the timing
    weft_time timer_at; ///< what the timerfd is armed for, or WEFT_FOREVER
    size_t waiting;     ///< ops in slots
    int ended;          ///< ops that ended in this poll or wait
    bool kicked;        ///< a kick was taken and has not ended a wait yet
    struct weft__op_queue ending;
    struct weft__op_queue retrying; ///< would block, and no event will tell when they do not
    size_t retrying_count;
    weft_time retry_at;            ///< when to try those again
    weft_time retry_ns;            ///< how long the pause was
    struct weft__slot_list again;  ///< to be looked at in the next poll or wait
    struct weft__slot_list hungry; ///< whose first reader wants a receive buffer
    struct weft__slots slots;
    struct weft__splices splices;
    struct weft__doubts doubts;
    uint32_t turn; ///< counts looks at epoll
    bool calm;     ///< the last looks found little: the next will probably sleep
    struct weft__receive receive;
    const struct weft_allocator *allocator;
    struct weft__offload offload;
    struct epoll_event events[WEFT__EPOLL_EVENTS];

    // Written by the owner, read by anyone.
    _Alignas(WEFT__LINE_PAIR) struct weft__op_counts counts;
};

static inline void weft__op_queue_add(struct weft__op_queue *queue, struct weft__op *op)
{
    op->link = queue->head == NULL ? &queue->head : queue->tail;
    op->next = NULL;
    *op->link = op;
    queue->tail = &op->next;
}

static inline void weft__op_queue_remove(struct weft__op_queue *queue, struct weft__op *op)
{
    *op->link = op->next;
    if (op->next != NULL) {
        op->next->link = op->link;
    } else {
        queue->tail = op->link;
    }
}

static inline void weft__slot_drop(struct weft__slot *slot, unsigned hints)
{
    slot->hints = (uint16_t)(slot->hints & ~hints);
}

static inline bool weft__slot_is_idle(const struct weft__slot *slot)
{
    return slot->readers.head == NULL && slot->writers.head == NULL && slot->others == NULL;
}

static inline void weft__slot_list_add(struct weft__slot_list *list, struct weft__slot *slot)
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

/// The first one, or NULL.
static inline struct weft__slot *weft__slot_list_take(struct weft__slot_list *list)
{
    struct weft__slot *slot = list->head;
    if (slot != NULL) {
        list->head = slot->next;
        weft__slot_drop(slot, WEFT__SLOT_LISTED);
    }
    return slot;
}

// epoll_slots.c

#define WEFT__SLOTS_PER_PIECE WEFT__SIZED(1024, 8)

/// The slot of a descriptor; NULL: no memory.
struct weft__slot *weft__slot_make(struct weft__epoll *e, int fd);
void weft__slots_fini(struct weft__epoll *e);

/// The slot of a descriptor that has one.
static inline struct weft__slot *weft__slot_of(const struct weft__epoll *e, int fd)
{
    return &e->slots
                .pieces[(unsigned)fd / WEFT__SLOTS_PER_PIECE][(unsigned)fd % WEFT__SLOTS_PER_PIECE];
}

/// The same; NULL: it has none.
static inline struct weft__slot *weft__slot_find(const struct weft__epoll *e, int fd)
{
    size_t piece = (unsigned)fd / WEFT__SLOTS_PER_PIECE;
    bool has = piece < e->slots.count && e->slots.pieces[piece] != NULL;
    return weft__likely(has) ? weft__slot_of(e, fd) : NULL;
}

static inline struct weft__slot *weft__slot_get(struct weft__epoll *e, int fd)
{
    struct weft__slot *slot = weft__slot_find(e, fd);
    return weft__likely(slot != NULL) ? slot : weft__slot_make(e, fd);
}

/// Makes epoll report what the slot's ops wait for. 0, -EPERM (it cannot be waited for) or another
/// negative errno.
int weft__slot_arm(struct weft__epoll *e, struct weft__slot *slot, int fd, bool managed);

/// The same after an event, for the ops that still wait, if any do.
int weft__slot_rearm(struct weft__epoll *e, struct weft__slot *slot, int fd);

/// Tells epoll once more what it should know of the slot. It reports at once what is ready.
int weft__slot_prove(struct weft__epoll *e, struct weft__slot *slot, int fd);

/// Back to one shot at a time.
void weft__slot_demote(struct weft__epoll *e, struct weft__slot *slot, int fd);

/// Drops what is known of the descriptor. Events that are under way will be ignored.
void weft__slot_forget(struct weft__epoll *e, struct weft__slot *slot, int fd);

/// Puts an op into slot.others, and takes it out.
static inline void weft__others_add(struct weft__slot *slot, struct weft__op *op)
{
    op->next = slot->others;
    op->link = &slot->others;
    if (op->next != NULL) {
        op->next->link = &op->next;
    }
    slot->others = op;
}

static inline void weft__others_remove(struct weft__op *op)
{
    *op->link = op->next;
    if (op->next != NULL) {
        op->next->link = op->link;
    }
}

// epoll_trust.c

/// An op relies on what is known of the slot from now on.
void weft__slot_doubt(struct weft__epoll *e, struct weft__slot *slot, int fd);

/// Proves those that were relied on for long without an event. After each look at epoll.
void weft__doubts_age(struct weft__epoll *e);

/// Proves all. Before a sleep.
void weft__doubts_settle(struct weft__epoll *e);

/// An event of a STEADY slot in which nobody waits.
void weft__slot_strike(struct weft__epoll *e, struct weft__slot *slot, int fd);

// epoll_buffers.c

int weft__epoll_buffers_init(struct weft__epoll *e, uint32_t count, uint32_t size);
void weft__epoll_buffers_fini(struct weft__epoll *e);
void *weft__epoll_buffer(void *state, uint16_t number);

// epoll_jobs.c

/// What an op needs besides itself when it goes to the blocking pool.
struct weft__epoll_job {
    struct weft__job job;
    struct weft__node node; // in driver.finished
    struct weft__epoll *driver;
    struct weft__op *op;
    int64_t result; // the pool's until it is in driver.finished
};

/// Sends an op, which is in no queue, to the blocking pool, or performs it at once where there is
/// none. True: it has ended, op->result is set.
bool weft__epoll_offload(struct weft__epoll *e, struct weft__op *op);

/// Takes back an op that no thread has begun with.
bool weft__epoll_recall(struct weft__epoll *e, struct weft__op *op);

/// Takes in what the pool has done.
void weft__epoll_take_finished(struct weft__epoll *e);

/// Waits until no thread of the pool will touch the driver any more.
void weft__epoll_await_jobs(struct weft__epoll *e);

// epoll_retry.c

/// Has the op, which is in no queue, tried again after a while.
void weft__epoll_retry_later(struct weft__epoll *e, struct weft__op *op);

/// Takes it out.
void weft__epoll_retry_not(struct weft__epoll *e, struct weft__op *op);

/// Tries what has waited long enough.
void weft__epoll_retry(struct weft__epoll *e);

// epoll_ops.c

/// Beside the results of weft__perform(): all receive buffers are out.
#define WEFT__NO_BUFFER (INT64_MIN + 2)

/// weft__op.scratch, beside WEFT__OP_BEGUN.
#define WEFT__OP_STARVED 0x2u   ///< has been counted for lack of a buffer
#define WEFT__OP_CANCELLED 0x4u ///< was asked to end while it could not
#define WEFT__OP_SIMPLE 0x8u    ///< a read as usual: of what there is, without flags or position

static inline bool weft__op_is_managed(const struct weft__op *op)
{
    return (op->mode & WEFT__OP_MANAGED) != 0;
}

/// Reads something else than the bytes in line: it neither waits for them nor holds them up.
static inline bool weft__op_is_aside(const struct weft__op *op)
{
    return (op->code == WEFT__OP_RECV || op->code == WEFT__OP_RECVMSG) &&
           (op->flags & (MSG_OOB | MSG_ERRQUEUE)) != 0;
}

/// The descriptor in whose slot the op waits.
static inline int weft__op_waits_at(const struct weft__op *op)
{
    return op->code == WEFT__OP_SPLICE && op->stage == WEFT__EPOLL_READING ? op->from_fd : op->fd;
}

bool weft__epoll_submit(void *state, struct weft__op *op);
int64_t weft__epoll_write_now(void *state, int fd, const void *data, size_t size);

/// Performs the op if it does not block, and keeps the slot's hints.
int64_t weft__epoll_attempt(struct weft__epoll *e, struct weft__slot *slot, struct weft__op *op);

/// What follows from an attempt of an op that is in no queue. True: it has ended, op->result is set.
bool weft__epoll_go_on(struct weft__epoll *e, struct weft__slot *slot, struct weft__op *op,
                       int64_t n);

/// Takes the op out of the slot in which it waits.
void weft__epoll_leave(struct weft__epoll *e, struct weft__op *op);

/// What is the same for all ops that end.
static inline void weft__op_settle(struct weft__epoll *e, struct weft__op *op, int64_t result)
{
    op->stage = WEFT__EPOLL_IDLE;
    op->result = result;
    weft__op_count(&e->counts.completed, op);
}

/// Ends an op that is in no queue.
void weft__epoll_end(struct weft__epoll *e, struct weft__op *op, int64_t result);

/// One more attempt of an op that no event tells about.
void weft__epoll_try_again(struct weft__epoll *e, struct weft__op *op);

/// What the blocking pool says of an op.
void weft__epoll_came_back(struct weft__epoll *e, struct weft__op *op, int64_t result);

// epoll_end.c

void weft__epoll_cancel(void *state, struct weft__op *op);
void weft__epoll_forget(void *state, int fd);
void weft__epoll_give(void *state, uint16_t number);

/// Asks all ops of a slot to end, with `result` unless they have transferred something.
void weft__epoll_ask_slot(struct weft__epoll *e, struct weft__slot *slot, int64_t result);

/// False: no memory.
bool weft__splices_add(struct weft__epoll *e, struct weft__op *op);
void weft__splices_remove(struct weft__epoll *e, const struct weft__op *op);

// epoll_events.c

/// The event of a descriptor.
void weft__epoll_happened(struct weft__epoll *e, const struct epoll_event *event);

/// Whether there is something to do without an event.
static inline bool weft__epoll_has_work(struct weft__epoll *e)
{
    return e->ending.head != NULL || e->again.head != NULL || !weft__inbox_empty(&e->finished) ||
           (e->hungry.head != NULL && e->receive.free_count > 0) ||
           (e->retrying.head != NULL && weft__clock_ns() >= e->retry_at);
}

/// Does it.
void weft__epoll_work(struct weft__epoll *e);

#endif
