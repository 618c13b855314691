// slab.h - large mappings cut into equal slots, each with a guard below and a control block on top.
//
// Every slab of the process is on one list that is only ever added to, so that a signal handler can
// tell whose guard was hit. A slab's geometry never changes; its memory may come and go.
//
//     DEAD  descriptor without memory        --open--> OWNED
//     IDLE  mapped, used by no pool, zeroed  --open--> OWNED
//     OWNED by one pool                      --close--> IDLE (mmap) or DEAD (stack provider)
//
// Who claims a slab does so by a compare-and-swap of its state, without a lock that a fork could
// leave behind taken. Checked by: tests/model/slab_model.c.
#ifndef WEFT_TASK_SLAB_H
#define WEFT_TASK_SLAB_H

#include <stdatomic.h>

#include "base/base.h"

struct weft_stack_provider;

struct weft__slab {
    // Fixed at birth.
    struct weft__slab *older; // the process's list
    uint32_t slots;
    uint32_t block_bytes; // whole lines
    uint8_t shift;        // log2 of a slot's size
    size_t stride;        // from slot to slot

    _Atomic uint8_t state;
    _Atomic(char *) base; // NULL while DEAD

    // The owning pool's: written under its lock, read by visitors without.
    _Atomic(struct weft__slab *) next; // of the same size
    _Atomic uint32_t used;             // slots below this were taken at least once
    uint32_t cold_count;
    // The owner's, or nobody's while IDLE.
    uint32_t touched;            // slots below this were taken by some pool and have their guard
    _Atomic uint32_t guard_vmas; // guards that cost a mapping each
    // One bit per slot: free, and its pages were given back. Written under the pool's lock.
    _Atomic uint64_t cold[];
};

/// How far slots of this size are apart.
size_t weft__slab_stride(size_t slot_bytes);

/// Finds or maps a slab with slots of 2^`shift` bytes for control blocks of `block_bytes`: about
/// `slots` of them, or fewer if address space is short. The caller owns it until close.
int weft__slab_open(struct weft__slab **slab, const struct weft_stack_provider *provider,
                    unsigned shift, uint32_t slots, size_t block_bytes);

/// Gives a slab back, with all its slots.
void weft__slab_close(struct weft__slab *slab, const struct weft_stack_provider *provider);

/// Installs the guard of a slot that has none yet; does nothing for others.
void weft__slab_guard(struct weft__slab *slab, uint32_t slot);

/// The control block of a slot. See slab.c for the colours.
void *weft__slab_block(const struct weft__slab *slab, uint32_t slot);

/// What a guard belongs to.
struct weft__guard_owner {
    void *block;
    size_t stack_bytes; // between guard and block
};

/// If `address` lies in the guard of a slot that was ever taken, says whose. Async-signal-safe.
bool weft__slab_find_guard(const void *address, struct weft__guard_owner *owner);

#endif
