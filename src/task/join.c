// join.c - a task ends while others begin to wait for that.
//
// `joiners` is a stack of waits, or CLOSED once the task has ended:
//
//     joiner                              the end
//     push the wait, unless CLOSED        result is written
//     block                               take the stack and leave CLOSED
//     late: unlink the wait, unless       complete each wait, then give the reference back
//           CLOSED, and leave
//
//   J1  Whoever takes a wait off the stack owns it: the end completes it, or the late joiner leaves
//       with it. Nobody else touches it, so completing is a plain store, and the last touch.
//   J2  Unlinking sets LOCKED on the head for a few instructions, during which nobody pushes or
//       takes. Only a joiner that is late does that.
//   J3  `result` is written before CLOSED is published and read after it was seen, or after the
//       wait was completed.
//
// The order at the end matters: first the scope learns of a failure (it is still open, because this
// child is still counted), then joiners wake, then the child is no longer counted and the scope may
// vanish, then the word says DONE and the block may be reused.
//
// Rejected: a lock per task around a list (three more RMWs per join).
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
                                                         memory_order_acq_rel,
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

static uintptr_t locked(uintptr_t head, void *arg)
{
    (void)arg;
    return head | LOCKED;
}

static void wake_joiners(struct weft__task *task)
{
    uint64_t word = atomic_load_explicit(&task->word, memory_order_acquire);
    if ((word & WEFT__WORD_REFS) == WEFT__WORD_REF) {
        // Nobody else has a handle, and only the task itself could have made one.
        atomic_store_explicit(&task->joiners, CLOSED, memory_order_release);
        return;
    }
    struct weft__wait *wait = to_wait(replace_head(task, closed, NULL));
    while (wait != NULL) {
        struct weft__wait *next = wait->next;
        weft__complete(wait, 0);
        wait = next;
    }
}

void weft__task_end(struct weft__task *task, struct weft__carrier *carrier)
{
    weft__scope_settle(task->birth, task->result);
    wake_joiners(task);
    weft__scope_leave(task->birth, task);
    weft__host_ended(task, carrier);
    if (weft__word_end(task)) {
        task->kind->free(task, carrier);
    }
}

struct joining {
    struct weft__wait wait;
    struct weft__task *task;
};

/// The deadline has passed. If the wait can still be unlinked it is ours again, and ends as late;
/// otherwise the end has it in hand.
static void give_up(struct weft__wait *wait)
{
    struct weft__task *task = weft__container_of(wait, struct joining, wait)->task;
    uintptr_t head = replace_head(task, locked, NULL);
    if (head == CLOSED) {
        return;
    }
    struct weft__wait *first = to_wait(head);
    struct weft__wait **link = &first;
    while (*link != wait) {
        link = &(*link)->next;
    }
    *link = wait->next;
    atomic_store_explicit(&task->joiners, (uintptr_t)first, memory_order_release);
    wait->result = -ETIMEDOUT;
    atomic_store_explicit(&wait->state, WEFT__WAIT_DONE, memory_order_relaxed);
}

int weft__task_join(struct weft__task *task, struct weft__task *self, int *result,
                    weft_time deadline)
{
    struct joining joining = { .task = task };
    weft__wait_init(&joining.wait, self, WEFT__WAIT_ASK_LATE, "join");
    joining.wait.ask = give_up;
    if (replace_head(task, pushed, &joining.wait) != CLOSED) {
        weft__block(&joining.wait, deadline);
        if (joining.wait.result < 0) {
            return (int)joining.wait.result;
        }
    }
    *result = task->result;
    return 0;
}

bool weft__task_ended(const struct weft__task *task)
{
    return atomic_load_explicit(&task->joiners, memory_order_acquire) == CLOSED;
}
