// join.c - a task ends while others begin to wait for that.
//
// `joiners` is a stack of waits, or CLOSED once somebody has taken it for good:
//
//     joiner                              the end
//     DONE? take the result               result is written
//     push the wait                       word: ACTIVE -> DONE
//     look at the word once more          anything on the stack? take all, leave CLOSED,
//     not DONE? block                        complete each wait
//     late: unlink the wait, unless
//           CLOSED, and leave
//
//   J1  Either the joiner's second look sees DONE, or the end sees his wait: each changes its own
//       side first and looks at the other's second, all four seq_cst. A joiner that sees DONE after
//       it has pushed closes the stack itself and completes whoever else is on it.
//   J2  Whoever takes a wait off the stack owns it: the end completes it, or the late joiner leaves
//       with it. Nobody else touches it, so completing is a plain store, and the last touch.
//   J3  Unlinking sets LOCKED on the head for a few instructions, during which nobody pushes or
//       takes. Only a joiner that is late does that.
//   J4  Somebody who does not block (a future, a select) watches: a wait of mode CALL, whose function
//       the end calls instead of completing it. From then on the wait is that function's.
//   J5  `result` is written before DONE is published and read after DONE was seen, or after the wait
//       was completed.
//
// The order at the end matters: first the scope learns of a failure (it is still open, because this
// child is still counted), then the task is DONE, then joiners wake, then the child is no longer
// counted and the scope may vanish. The task's own reference goes last, once its stack is left.
//
// Rejected: a lock per task around a list (three more RMWs per join); a plain store for the only
// handle there is (the task itself may retain one and pass it on in between); closing the stack at every end
// (one more RMW, also where nobody joins); a flag in the word that says that somebody joins (one more RMW,
// for the joiner).
// Locks: none. Checked by: tests/model (join/exit), tests/unit/join_test.c.
#include "task/join.h"

#include <errno.h>

#include "base/assert.h"
#include "base/relax.h"
#include "task/host.h"
#include "task/scope.h"
#include "task/wait.h"
#include "task/word.h"

#define CLOSED ((uintptr_t)1)
#define LOCKED ((uintptr_t)2)

static struct weft__wait *to_wait(uintptr_t head)
{
    return (struct weft__wait *)head; // NOLINT(performance-no-int-to-ptr): tagged pointer
}

/// Replaces the head, whatever it is, unless CLOSED; returns what it was. Waits while LOCKED.
static uintptr_t replace_head(struct weft__task *task, uintptr_t (*next)(uintptr_t head, void *arg),
                              void *arg)
{
    uintptr_t head = atomic_load_explicit(&task->joiners, memory_order_acquire);
    while (head != CLOSED) {
        if (head & LOCKED) {
            weft__cpu_relax();
            head = atomic_load_explicit(&task->joiners, memory_order_acquire);
        } else if (atomic_compare_exchange_weak_explicit(&task->joiners, &head, next(head, arg),
                                                         memory_order_seq_cst, // J1
                                                         memory_order_acquire)) {
            break;
        }
    }
    return head;
}

static uintptr_t closed(uintptr_t head, void *arg)
{
    (void)head;
    (void)arg;
    return CLOSED;
}

static uintptr_t pushed(uintptr_t head, void *arg)
{
    struct weft__wait *wait = arg;
    wait->next = to_wait(head);
    return (uintptr_t)wait;
}

static void complete(struct weft__wait *wait)
{
    if (weft__unlikely(wait->mode == WEFT__WAIT_CALL)) {
        wait->ask(wait); // J4
    } else {
        weft__complete_from_anywhere(wait, 0);
    }
}

static uintptr_t locked(uintptr_t head, void *arg)
{
    (void)arg;
    return head | LOCKED;
}

/// Closes the stack and completes everybody on it but `self`. False if it was closed before.
static bool close_joiners(struct weft__task *task, struct weft__wait *self)
{
    uintptr_t head = replace_head(task, closed, NULL);
    struct weft__wait *wait = head != CLOSED ? to_wait(head) : NULL;
    while (wait != NULL) {
        struct weft__wait *next = wait->next;
        if (wait != self) {
            complete(wait);
        }
        wait = next;
    }
    return head != CLOSED;
}

void weft__task_end(struct weft__task *task, struct weft__carrier *carrier)
{
    weft__scope_settle(task->birth, task->result);
    weft__host_disarm(task);
    if (weft__word_end(task) &&
        atomic_load_explicit(&task->joiners, memory_order_seq_cst) != 0) { // J1
        (void)close_joiners(task, NULL);
    }
    weft__scope_leave(task->birth, task);
    weft__host_ended(task->crew, carrier);
}

struct joining {
    struct weft__wait wait;
    struct weft__task *task;
};

bool weft__task_unwatch(struct weft__task *task, struct weft__wait *wait)
{
    uintptr_t head = replace_head(task, locked, NULL);
    if (head == CLOSED) {
        return false;
    }
    struct weft__wait *first = to_wait(head);
    struct weft__wait **link = &first;
    while (*link != wait) {
        link = &(*link)->next;
    }
    *link = wait->next;
    atomic_store_explicit(&task->joiners, (uintptr_t)first, memory_order_release);
    return true;
}

/// The deadline has passed. If the wait can still be unlinked it is ours again, and ends as late;
/// otherwise the end has it in hand.
static void give_up(struct weft__wait *wait)
{
    struct weft__task *task = weft__container_of(wait, struct joining, wait)->task;
    if (weft__task_unwatch(task, wait)) {
        wait->result = -ETIMEDOUT;
        atomic_store_explicit(&wait->state, WEFT__WAIT_DONE, memory_order_relaxed);
    }
}

/// Pushes the wait and makes the end look for it. False: the task has ended, and the wait is ours.
static bool enlist(struct weft__task *task, struct weft__wait *wait)
{
    if (replace_head(task, pushed, wait) == CLOSED) {
        return false;
    }
    uint64_t word = atomic_load_explicit(&task->word, memory_order_seq_cst); // J1
    return (word & WEFT__WORD_LIFE) != WEFT__WORD_DONE || !close_joiners(task, wait);
}

bool weft__task_ended(const struct weft__task *task)
{
    uint64_t word = atomic_load_explicit(&task->word, memory_order_acquire);
    return (word & WEFT__WORD_LIFE) == WEFT__WORD_DONE;
}

bool weft__task_watch(struct weft__task *task, struct weft__wait *wait)
{
    return !weft__task_ended(task) && enlist(task, wait);
}

int weft__task_join(struct weft__task *task, struct weft__task *self, int *result,
                    weft_time deadline)
{
    struct joining joining = { .task = task };
    weft__wait_init(&joining.wait, self, WEFT__WAIT_ASK_LATE, "join");
    joining.wait.ask = give_up;
    if (!weft__task_ended(task) && enlist(task, &joining.wait)) {
        weft__block(&joining.wait, deadline);
        if (joining.wait.result < 0) {
            return (int)joining.wait.result;
        }
    }
    *result = task->result;
    return 0;
}
