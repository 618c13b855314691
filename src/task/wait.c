// wait.c - blocking and completing, with one word on which both sides agree.
//
// The danger: a wait lives on the waiter's stack. A completer that touches it after the waiter has
// seen DONE writes into somebody else's frame; a waiter that leaves before the completer is through
// does the same the other way round.
//
//     waiter                                    completer
//     enqueue the wait                          find the wait, copy task
//     DONE? return                              write result
//     late or cancelled? OPEN -> DONE, unlink   OPEN -> DONE   (last touch)
//     park, and look again                      wake the task
//
//   B1  Exactly one side moves OPEN to DONE. The loser of that race has not changed anything. A wait
//       that is only asked to end has but one side: there the move is a store.
//   B2  That move is the completer's last touch; afterwards it uses only the copied task pointer,
//       which stays good because blocks are type-stable (task.h, T3).
//   B3  A waiter that withdrew still unlinks, under the lock its completers hold while they commit;
//       so a completer never meets a wait whose frame is gone.
//   B4  A park may return for nothing: the waiter loops on its own state.
//   B5  A wait that cannot be withdrawn (the kernel owns a buffer, children still run) is only asked
//       to end, once, and then waited for whatever the clock says.
//
// Locks: none. Checked by: tests/model (block/complete), tests/unit/wait_test.c.
#include "task/wait.h"

#include <errno.h>

#include "base/sys.h"
#include "task/host.h"
#include "task/scope.h"
#include "task/task.h"

static uint32_t load_state(struct weft__wait *wait)
{
    return atomic_load_explicit(&wait->state, memory_order_acquire);
}

static bool withdraw(struct weft__wait *wait)
{
    uint32_t open = WEFT__WAIT_OPEN;
    return atomic_compare_exchange_strong_explicit(&wait->state, &open, WEFT__WAIT_DONE,
                                                   memory_order_relaxed, memory_order_relaxed);
}

static bool asks(const struct weft__wait *wait)
{
    return wait->mode == WEFT__WAIT_ASK || wait->mode == WEFT__WAIT_ASK_LATE;
}

WEFT__NOINLINE static int block_foreign(struct weft__wait *wait, weft_time deadline)
{
    for (;;) {
        uint32_t state = load_state(wait);
        if (state == WEFT__WAIT_DONE) {
            return 0;
        }
        if (weft__futex_wait(&wait->state, state, deadline) != -ETIMEDOUT) {
            continue;
        }
        if (asks(wait)) {
            wait->why = -ETIMEDOUT;
            wait->ask(wait);
        } else if (withdraw(wait)) {
            return -ETIMEDOUT;
        }
        deadline = WEFT_FOREVER; // asked, or CLAIMED: the completer is about to wake us
    }
}

/// Why the wait should end before it is DONE: cancelled, late, or 0. The first look does not read
/// the clock: a deadline in the past fires in the carrier's next step.
static int interruption(struct weft__task *task, const struct weft__wait *wait, weft_time deadline,
                        bool first)
{
    bool deaf = wait->mode == WEFT__WAIT_DEAF || wait->mode == WEFT__WAIT_ASK_LATE;
    if (!deaf && weft__scope_cancelled(task) && wait->mode != WEFT__WAIT_PASS) {
        return -ECANCELED;
    }
    if (!first && deadline != WEFT_FOREVER && weft__host_now(task) >= deadline) {
        return -ETIMEDOUT;
    }
    return 0;
}

static int block_task(struct weft__wait *wait, weft_time deadline)
{
    struct weft__task *task = wait->task;
    bool asked = false;
    for (bool first = true;; first = false) {
        if (load_state(wait) == WEFT__WAIT_DONE) {
            return 0;
        }
        int why = asked ? 0 : interruption(task, wait, deadline, first);
        if (why != 0 && asks(wait)) {
            asked = true;
            deadline = WEFT_FOREVER;
            wait->why = why;
            wait->ask(wait);
            continue;
        }
        if (why != 0 && withdraw(wait)) {
            return why;
        }
        // Here with `why` set, the wait is CLAIMED: its completer is about to wake us.
        weft__host_park(task, why != 0 ? WEFT_FOREVER : deadline);
    }
}

int weft__block(struct weft__wait *wait, weft_time deadline)
{
    struct weft__task *task = wait->task;
    if (task == NULL) {
        return block_foreign(wait, deadline);
    }
    weft__charge(task);
    atomic_store_explicit(&task->waits_for, wait->what, memory_order_relaxed);
    int rc = block_task(wait, deadline);
    atomic_store_explicit(&task->waits_for, NULL, memory_order_relaxed);
    return rc;
}

bool weft__commit(struct weft__wait *wait, int64_t result, struct weft__wakee *wakee)
{
    *wakee = (struct weft__wakee){ wait->task, &wait->state };
    wait->result = result;
    uint32_t open = WEFT__WAIT_OPEN;
    return atomic_compare_exchange_strong_explicit(&wait->state, &open, WEFT__WAIT_DONE,
                                                   memory_order_release, memory_order_relaxed);
}

void weft__wakee_wake(const struct weft__wakee *wakee)
{
    if (wakee->task != NULL) {
        weft__wake(wakee->task);
    } else {
        weft__futex_wake(wakee->futex, 1);
    }
}

void weft__complete(struct weft__wait *wait, int64_t result)
{
    struct weft__wakee wakee = { wait->task, &wait->state };
    wait->result = result;
    atomic_store_explicit(&wait->state, WEFT__WAIT_DONE, memory_order_release);
    weft__wakee_wake(&wakee);
}
