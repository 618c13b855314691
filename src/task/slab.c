// slab.c - large mappings cut into equal slots.
//
// Colours. If slots were a power of two apart, all control blocks and all saved frames would share a few
// cache sets, and their pages a few TLB sets. So there is a page between two slots, which nobody touches,
// and some lines above each block, by the number of the slot:
//
//     |<------------- the only page that a sleeping thread needs ----------->|
//     | ... deeper calls | saved frame, outer calls | block | 0..15 lines gap | a page | next slot
//
// With 16 lines a block of 1 KiB still leaves more than 2 KiB of that page to the stack.
//
// Measured on Zen 4, round robin: the lines are worth 10% at 1,000 contexts, the page 20% there and at
// 2,000, and 5 to 8% at 4,000 and 10,000, which no TLB holds; 1,000 that are spawned and joined cost 15%
// less with it. The line changes with each slot, so that neighbours are a constant stride apart, which
// the prefetcher likes.
//
// Rejected: pages of the slot's own as a gap (they are lost to the stack, and as many as help are half of it).
#include "task/slab.h"

#include <errno.h>
#include <sys/mman.h>

#include <weft/runtime.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/sys.h"
#include "task/guard.h"
#include "task/stack.h"

enum state { DEAD, IDLE, OWNED };

#define LINE_COLOURS 16

static _Atomic(struct weft__slab *) newest;

size_t weft__slab_stride(size_t slot_bytes)
{
    return slot_bytes + weft__sys_page_bytes();
}

static size_t slab_bytes(const struct weft__slab *slab)
{
    return slab->slots * slab->stride;
}

static char *slab_base(const struct weft__slab *slab)
{
    return atomic_load_explicit(&slab->base, memory_order_acquire);
}

// The offset of the block in its slot. tools/gdb/weft-gdb.py computes it too.
static size_t block_offset(const struct weft__slab *slab, uint32_t slot)
{
    size_t gap = slot % LINE_COLOURS * WEFT__LINE;
    return ((size_t)1 << slab->shift) - gap - slab->block_bytes;
}

void *weft__slab_block(const struct weft__slab *slab, uint32_t slot)
{
    return slab_base(slab) + slot * slab->stride + block_offset(slab, slot);
}

void weft__slab_guard(struct weft__slab *slab, uint32_t slot)
{
    char *base = slab_base(slab) + slot * slab->stride;
    if (weft__guard_install(base, WEFT__STACK_GUARD_BYTES) == WEFT__GUARD_MAPPED) {
        atomic_fetch_add_explicit(&slab->guard_vmas, 1, memory_order_relaxed);
    }
}

bool weft__slab_find_guard(const void *address, struct weft__guard_owner *owner)
{
    struct weft__slab *slab = atomic_load_explicit(&newest, memory_order_acquire);
    for (; slab != NULL; slab = slab->older) {
        char *base = slab_base(slab);
        size_t offset = (size_t)((const char *)address - base);
        if (base == NULL || (const char *)address < base || offset >= slab_bytes(slab)) {
            continue;
        }
        uint32_t slot = (uint32_t)(offset / slab->stride);
        size_t in_slot = offset % slab->stride;
        if (slot >= atomic_load_explicit(&slab->used, memory_order_relaxed) ||
            in_slot >= WEFT__STACK_GUARD_BYTES) {
            return false;
        }
        owner->block = weft__slab_block(slab, slot);
        owner->stack_bytes = block_offset(slab, slot) - WEFT__STACK_GUARD_BYTES;
        return true;
    }
    return false;
}

// Claims a slab of the process's list. `slots` 0 means any number.
static struct weft__slab *claim(enum state state, unsigned shift, uint32_t slots,
                                size_t block_bytes)
{
    struct weft__slab *slab = atomic_load_explicit(&newest, memory_order_acquire);
    for (; slab != NULL; slab = slab->older) {
        uint8_t expected = (uint8_t)state;
        if (slab->shift == shift && slab->block_bytes == block_bytes &&
            (slots == 0 || slab->slots == slots) &&
            atomic_compare_exchange_strong_explicit(&slab->state, &expected, OWNED,
                                                    memory_order_acquire, memory_order_relaxed)) {
            return slab;
        }
    }
    return NULL;
}

// A descriptor without memory. Descriptors outlive every runtime, so they come from malloc.
static struct weft__slab *descriptor(unsigned shift, uint32_t slots, size_t block_bytes)
{
    struct weft__slab *slab = claim(DEAD, shift, slots, block_bytes);
    if (slab != NULL) {
        return slab;
    }
    size_t bytes = sizeof *slab + (slots + 63) / 64 * sizeof slab->cold[0];
    slab = weft__alloc(NULL, bytes, _Alignof(struct weft__slab));
    if (slab == NULL) {
        return NULL;
    }
    slab->shift = (uint8_t)shift;
    slab->stride = weft__slab_stride((size_t)1 << shift);
    slab->slots = slots;
    slab->block_bytes = (uint32_t)block_bytes;
    atomic_init(&slab->state, OWNED);
    slab->older = atomic_load_explicit(&newest, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&newest, &slab->older, slab, memory_order_release,
                                                  memory_order_relaxed)) {
    }
    return slab;
}

static int map(void **base, const struct weft_stack_provider *provider, size_t bytes, size_t align)
{
    return provider == NULL ? weft__sys_map(base, bytes, align)
                            : provider->map(provider->ctx, base, bytes, align);
}

static void unmap(const struct weft_stack_provider *provider, void *base, size_t bytes)
{
    if (provider == NULL) {
        weft__sys_unmap(base, bytes);
    } else {
        provider->unmap(provider->ctx, base, bytes);
    }
}

int weft__slab_open(struct weft__slab **slab, const struct weft_stack_provider *provider,
                    unsigned shift, uint32_t slots, size_t block_bytes)
{
    block_bytes = (block_bytes + WEFT__LINE - 1) & ~(size_t)(WEFT__LINE - 1);
    *slab = provider == NULL ? claim(IDLE, shift, 0, block_bytes) : NULL;
    if (*slab != NULL) {
        return 0;
    }
    void *base;
    size_t stride = weft__slab_stride((size_t)1 << shift);
    int rc = map(&base, provider, slots * stride, weft__sys_page_bytes());
    while (rc < 0 && slots > 1) {
        slots /= 2;
        rc = map(&base, provider, slots * stride, weft__sys_page_bytes());
    }
    if (rc < 0) {
        return rc;
    }
    *slab = descriptor(shift, slots, block_bytes);
    if (*slab == NULL) {
        unmap(provider, base, slots * stride);
        return -ENOMEM;
    }
    weft_assert(((uintptr_t)base & (weft__sys_page_bytes() - 1)) == 0);
    atomic_store_explicit(&(*slab)->base, base, memory_order_release);
    return 0;
}

void weft__slab_close(struct weft__slab *slab, const struct weft_stack_provider *provider)
{
    char *base = slab_base(slab);
    uint32_t used = atomic_load_explicit(&slab->used, memory_order_relaxed);
    size_t used_bytes = used * slab->stride;
    atomic_store_explicit(&slab->used, 0, memory_order_relaxed);
    atomic_store_explicit(&slab->next, NULL, memory_order_relaxed);
    for (uint32_t i = 0; i < (slab->slots + 63) / 64; i++) {
        atomic_store_explicit(&slab->cold[i], 0, memory_order_relaxed);
    }
    slab->cold_count = 0;
    if (provider == NULL) {
        if (used > 0) {
            weft__sys_advise(base, used_bytes, MADV_DONTNEED);
        }
        atomic_store_explicit(&slab->state, IDLE, memory_order_release);
        return;
    }
    if (used > 0) {
        weft__guard_remove(base, used_bytes,
                           atomic_load_explicit(&slab->guard_vmas, memory_order_relaxed));
    }
    atomic_store_explicit(&slab->guard_vmas, 0, memory_order_relaxed);
    slab->touched = 0;
    atomic_store_explicit(&slab->base, NULL, memory_order_release);
    unmap(provider, base, slab_bytes(slab));
    atomic_store_explicit(&slab->state, DEAD, memory_order_release);
}
