// join.c - a task ends while others begin to wait for that.
//
//     joiner                                   the end
//     lock                                     word: ACTIVE -> DONE, remember JOINED
//     set JOINED unless DONE                   if JOINED: lock, take one joiner, commit, unlock,
//     push the wait, unlock                       wake it; until none is left
//     block
//     (withdrawn: lock, unlink, unlock)
//
//   J1  Either the joiner's RMW on the word sees DONE, or the end's RMW sees JOINED: no joiner is
//       left behind, and a task that nobody joins ends without taking the lock.
//   J2  Waits are committed under join_lock, so a joiner that withdraws can unlink safely.
//   J3  `result` is written before DONE is published and read after it was seen.
//
// The order at the end matters: first the scope learns of a failure (it is still open, because this
// child is still counted), then the task is DONE, then joiners wake, then the child is no longer
// counted and the scope may vanish, then the block may be reused.
// Locks: task.join_lock, alone. Checked by: tests/model (join/exit), tests/unit/join_test.c.
#include "task/join.h"

#include "task/host.h"
#include "task/scope.h"
#include "task/wait.h"

/// True if there are more.
static bool wake_one_joiner(struct weft__task *task)
{
    struct weft__wakee wakee;
    bool wake = false;
    weft__lock_acquire(&task->join_lock);
    struct weft__wait *wait = task->joiners; // NULL: it has withdrawn
    if (wait != NULL) {
        task->joiners = wait->next;
        wake = weft__commit(wait, 0, &wakee);
    }
    bool more = task->joiners != NULL;
    weft__lock_release(&task->join_lock);
    if (wake) {
        weft__wakee_wake(&wakee);
    }
    return more;
}

void weft__task_end(struct weft__task *task, struct weft__carrier *carrier)
{
    weft__scope_settle(task->birth, task->result);
    uint64_t before = weft__word_finish(task);
    if (before & WEFT__WORD_JOINED) {
        while (wake_one_joiner(task)) {
        }
    }
    weft__scope_leave(task->birth, task);
    weft__host_ended(task, carrier);
    weft__task_release(task, carrier);
}

static void unlink_joiner(struct weft__task *task, struct weft__wait *wait)
{
    weft__lock_acquire(&task->join_lock);
    struct weft__wait **link = &task->joiners;
    while (*link != NULL && *link != wait) {
        link = &(*link)->next;
    }
    if (*link == wait) {
        *link = wait->next;
    }
    weft__lock_release(&task->join_lock);
}

int weft__task_join(struct weft__task *task, struct weft__task *self, int *result,
                    weft_time deadline)
{
    struct weft__wait wait;
    weft__wait_init(&wait, self, WEFT__WAIT_DEAF, "join");
    weft__lock_acquire(&task->join_lock);
    bool waiting = weft__word_join(task);
    if (waiting) {
        wait.next = task->joiners;
        task->joiners = &wait;
    }
    weft__lock_release(&task->join_lock);
    if (waiting) {
        int rc = weft__block(&wait, deadline);
        if (rc < 0) {
            unlink_joiner(task, &wait);
            return rc;
        }
    }
    *result = task->result;
    return 0;
}
