// epoll.h - the inside of the epoll driver.
#ifndef WEFT_IO_EPOLL_H
#define WEFT_IO_EPOLL_H

#include <stdatomic.h>
#include <sys/epoll.h>

#include "base/base.h"
#include "io/perform.h"
#include "io/token.h"
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
    WEFT__EPOLL_ENDING,   ///< in driver.ending, with its result: done() comes next
};

/// Ops in the order they came. Zeroed means empty; then tail is undefined.
struct weft__queue {
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

/// What the driver knows of a descriptor.
struct weft__slot {
    struct weft__queue readers;
    struct weft__queue writers;
    struct weft__queue others;
    struct weft__slot *next;
    uint32_t generation; // of what is behind the number; events carry it
    uint8_t kind;        // enum weft__fd_kind
    uint8_t hints;
    uint16_t armed; // what epoll will report, EPOLL*; 0: nothing, or the one shot was fired
};

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

/// SPLICE ops in flight.
struct weft__splices {
    struct weft__op **ops;
    size_t count;
    size_t room;
};

/// The receive buffers.
struct weft__pool {
    char *memory;
    uint16_t *free; // a stack: what was used last is still in the cache
    uint32_t free_count;
    uint32_t count;
    uint32_t size;
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
    struct weft__queue ending;
    struct weft__slot_list again;  ///< to be looked at in the next poll or wait
    struct weft__slot_list hungry; ///< whose first reader wants a receive buffer
    struct weft__slots slots;
    struct weft__splices splices;
    struct weft__pool pool;
    const struct weft_allocator *allocator;
    struct weft__offload offload;
    struct epoll_event events[WEFT__EPOLL_EVENTS];

    // Written by the owner, read by anyone.
    _Alignas(WEFT__LINE_PAIR) struct weft__op_counts counts;
};

static inline void weft__queue_add(struct weft__queue *queue, struct weft__op *op)
{
    op->link = queue->head == NULL ? &queue->head : queue->tail;
    op->next = NULL;
    *op->link = op;
    queue->tail = &op->next;
}

static inline void weft__queue_remove(struct weft__queue *queue, struct weft__op *op)
{
    *op->link = op->next;
    if (op->next != NULL) {
        op->next->link = op->link;
    } else {
        queue->tail = op->link;
    }
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

static inline struct weft__slot *weft__slot_get(struct weft__epoll *e, int fd)
{
    size_t piece = (unsigned)fd / WEFT__SLOTS_PER_PIECE;
    if (weft__unlikely(piece >= e->slots.count || e->slots.pieces[piece] == NULL)) {
        return weft__slot_make(e, fd);
    }
    return weft__slot_of(e, fd);
}

/// Makes epoll report what the slot's ops wait for. 0, -EPERM (it cannot be waited for) or another
/// negative errno.
int weft__slot_arm(struct weft__epoll *e, struct weft__slot *slot, int fd, bool managed);

/// The same after an event, for the ops that still wait, if any do.
int weft__slot_rearm(struct weft__epoll *e, struct weft__slot *slot, int fd);

/// Drops what is known of the descriptor. Events that are under way will be ignored.
void weft__slot_forget(struct weft__epoll *e, struct weft__slot *slot, int fd);

// epoll_pool.c

int weft__pool_init(struct weft__epoll *e, uint32_t count, uint32_t size);
void weft__pool_fini(struct weft__epoll *e);

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

// epoll_ops.c

bool weft__epoll_submit(void *state, struct weft__op *op);
void weft__epoll_cancel(void *state, struct weft__op *op);
void weft__epoll_forget(void *state, int fd);
void *weft__epoll_buffer(void *state, uint16_t number);
void weft__epoll_give(void *state, uint16_t number);

/// The event of a descriptor.
void weft__epoll_happened(struct weft__epoll *e, const struct epoll_event *event);

/// Whether there is something to do without an event.
static inline bool weft__epoll_has_work(struct weft__epoll *e)
{
    return e->ending.head != NULL || e->again.head != NULL || !weft__inbox_empty(&e->finished) ||
           (e->hungry.head != NULL && e->pool.free_count > 0);
}

/// Does it.
void weft__epoll_work(struct weft__epoll *e);

/// Ends an op that is in no queue.
void weft__epoll_end(struct weft__epoll *e, struct weft__op *op, int64_t result);

/// What the blocking pool says of an op.
void weft__epoll_came_back(struct weft__epoll *e, struct weft__op *op, int64_t result);

#endif
