// offer.h - the lane of tasks that other carriers may take; see offer.c.
#ifndef WEFT_SCHED_OFFER_H
#define WEFT_SCHED_OFFER_H

#include <errno.h>
#include <stdatomic.h>

#include "base/node.h"

#define WEFT__OFFER_SLOTS WEFT__SIZED(256u, 4u)

/// A ring, first in first out for its owner and for thieves alike. Zeroed means empty.
struct weft__offer {
    // taken:32 | next:32. [next, tail) may be had; [taken, next) is being carried off by a thief.
    _Atomic uint64_t head;
    _Alignas(WEFT__LINE) _Atomic uint32_t tail;  // written by the owner
    struct weft__node *slots[WEFT__OFFER_SLOTS]; // whose they are: O1 to O3
};

/// Offers a node. Returns how many are on offer now; 0: no room, the node is still the caller's. The
/// owner only.
uint32_t weft__offer_push(struct weft__offer *offer, struct weft__node *node);

/// Takes the oldest back, or NULL. The owner only.
struct weft__node *weft__offer_pop(struct weft__offer *offer);

/// Takes the older half, rounded up, and appends it to `into`; any thread. Returns how many; 0: there
/// is nothing; -EBUSY: another thief is at it; -EAGAIN: somebody was faster, there may be more.
int weft__offer_steal(struct weft__offer *offer, struct weft__fifo *into);

/// The one that is `places` behind the next one that the owner will pop, or NULL; a hint. The owner only.
static inline struct weft__node *weft__offer_peek(struct weft__offer *offer, uint32_t places)
{
    uint32_t at = (uint32_t)atomic_load_explicit(&offer->head, memory_order_relaxed) + places;
    uint32_t left = atomic_load_explicit(&offer->tail, memory_order_relaxed) - at;
    return left - 1 < WEFT__OFFER_SLOTS ? offer->slots[at % WEFT__OFFER_SLOTS] : NULL;
}

/// How many are on offer, as far as this thread knows.
static inline uint32_t weft__offer_count(struct weft__offer *offer)
{
    uint32_t next = (uint32_t)atomic_load_explicit(&offer->head, memory_order_relaxed);
    uint32_t count = atomic_load_explicit(&offer->tail, memory_order_relaxed) - next;
    return count <= WEFT__OFFER_SLOTS ? count : 0; // the two were read at different moments
}

#endif
