// inbox.c - many producers, one consumer that takes the lot with one exchange.
//
//   I1  A node's content is visible to the taker: push releases, take acquires. A later push on top
//       continues the release sequence of earlier ones, so one acquire covers the whole chain.
//   I2  The taker turns the stack round, so nodes of one producer come out in the order it pushed.
//   I3  There is no ABA: nobody pops single nodes.
//
// Rejected: Vyukov's queue (a preempted producer hides everything behind it, and the emptiness test
// that sleeping depends on becomes "maybe").
// Locks: none. Checked by: tests/model (put/sleep), tests/unit/inbox_test.c.
#include "sched/inbox.h"

void weft__inbox_push(struct weft__inbox *inbox, struct weft__node *node)
{
    struct weft__node *top = atomic_load_explicit(&inbox->top, memory_order_relaxed);
    do {
        node->next = top;
    } while (!atomic_compare_exchange_weak_explicit(&inbox->top, &top, node, memory_order_release,
                                                    memory_order_relaxed));
}

struct weft__node *weft__inbox_take(struct weft__inbox *inbox)
{
    if (weft__inbox_empty(inbox)) {
        return NULL;
    }
    struct weft__node *node = atomic_exchange_explicit(&inbox->top, NULL, memory_order_acquire);
    struct weft__node *oldest = NULL;
    while (node != NULL) {
        struct weft__node *next = node->next;
        node->next = oldest;
        oldest = node;
        node = next;
    }
    return oldest;
}
