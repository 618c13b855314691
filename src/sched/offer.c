// offer.c - tasks that a carrier would run itself, and that an idle one may carry off.
//
// The danger: owner and thief take the same task, or the owner writes a new one into a slot that a
// thief is still reading. So `head` has two halves that one compare-and-swap moves together:
//
//        taken         next                    tail
//          |             |                       |
//     .....|#############|***********************|..... (round)
//           a thief reads   owner and thieves     owner pushes here
//           these           take from here
//
//     owner: push     slot, then tail + 1          if tail - taken leaves room
//     owner: pop      next + 1                     and taken with it, if no thief is at it
//     thief: claim    next + half                  only if taken == next: one thief at a time
//     thief: finish   taken = next                 when it has read its slots
//
//   O1  Whoever moves `next` over a slot owns the node in it. There is one `next`, so there is one
//       owner.
//   O2  A slot's content is visible to a thief: the push releases `tail`, the thief acquires it.
//   O3  A slot is written again only when `taken` is past it: the finish releases, the push acquires.
//       Pops in between are read-modify-writes and continue that release sequence.
//   O4  Nobody waits. A thief that meets another, or loses a race, gives up; an owner whose push
//       finds no room keeps the task in `local`.
//   O5  Indices count up for ever. One that comes round while a thief holds an old `head` would need
//       2^32 pushes in between.
//
// Rejected: a lock and a list (an owner that is alone would pay two read-modify-writes per task and
// lane instead of one, and lose its lane to a thief that is preempted while it holds the lock);
// taking single tasks (measured on two CPUs: every task would be a separate cache miss and search).
// Locks: none. Checked by: tests/model/offer_model.c, tests/unit/offer_test.c.
#include "sched/offer.h"

#define MASK (WEFT__OFFER_SLOTS - 1)
#define AHEAD 8u

_Static_assert((WEFT__OFFER_SLOTS & MASK) == 0, "slots are found with a mask");

static inline uint32_t next_of(uint64_t head)
{
    return (uint32_t)head;
}

static inline uint32_t taken_of(uint64_t head)
{
    return (uint32_t)(head >> 32);
}

static inline uint64_t pack(uint32_t taken, uint32_t next)
{
    return (uint64_t)taken << 32 | next;
}

uint32_t weft__offer_push(struct weft__offer *offer, struct weft__node *node)
{
    uint64_t head = atomic_load_explicit(&offer->head, memory_order_acquire); // O3
    uint32_t tail = atomic_load_explicit(&offer->tail, memory_order_relaxed);
    if (tail - taken_of(head) >= WEFT__OFFER_SLOTS) {
        return 0;
    }
    offer->slots[tail & MASK] = node;
    atomic_store_explicit(&offer->tail, tail + 1, memory_order_release); // O2
    return tail + 1 - next_of(head);
}

struct weft__node *weft__offer_pop(struct weft__offer *offer)
{
    uint32_t tail = atomic_load_explicit(&offer->tail, memory_order_relaxed);
    uint64_t head = atomic_load_explicit(&offer->head, memory_order_relaxed);
    for (;;) {
        uint32_t next = next_of(head);
        if (next == tail) {
            return NULL;
        }
        uint32_t taken = taken_of(head) == next ? next + 1 : taken_of(head);
        if (atomic_compare_exchange_weak_explicit(&offer->head, &head, pack(taken, next + 1),
                                                  memory_order_relaxed, memory_order_relaxed)) {
            return offer->slots[next & MASK];
        }
    }
}

/// The claimed slots have been read.
static void finish(struct weft__offer *offer, uint64_t head)
{
    while (!atomic_compare_exchange_weak_explicit(&offer->head, &head,
                                                  pack(next_of(head), next_of(head)),
                                                  memory_order_release, memory_order_relaxed)) {
    }
}

int weft__offer_steal(struct weft__offer *offer, struct weft__fifo *into)
{
    uint64_t head = atomic_load_explicit(&offer->head, memory_order_relaxed);
    uint32_t tail = atomic_load_explicit(&offer->tail, memory_order_acquire); // O2
    uint32_t first = next_of(head);
    if (first == tail) {
        return 0;
    }
    if (taken_of(head) != first) {
        return -EBUSY;
    }
    uint32_t count = tail - first;
    if (count > WEFT__OFFER_SLOTS) {
        return -EAGAIN; // the owner has moved on between our two reads
    }
    count -= count / 2;
    uint64_t claimed = pack(first, first + count);
    if (!atomic_compare_exchange_strong_explicit(&offer->head, &head, claimed, memory_order_relaxed,
                                                 memory_order_relaxed)) {
        return -EAGAIN;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct weft__node *node = offer->slots[(first + i) & MASK];
        if (i + AHEAD < count) {
            const struct weft__node *later = offer->slots[(first + i + AHEAD) & MASK];
            __builtin_prefetch(later, 1);
            weft__node_hint(node, later);
        }
        weft__fifo_push(into, node);
    }
    finish(offer, claimed);
    return (int)count;
}
