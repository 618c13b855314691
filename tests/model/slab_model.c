// slab_model.c - runtimes that come and go share the mappings of their stacks (task/slab.h).
//
// Threads open slabs and close them again, as runtimes do that start and end at the same time. Who owns one
// has it to himself: all that is in it is plain, or read before it is written, and nobody else's leavings
// are seen. A handler that looks for the owner of a guard meanwhile finds what is whole, or nothing.
//
// The process has one list of slabs, so this file is the source and empties it before each execution.
//
// Headers: task/slab.c
// With: stage.c stage_alloc.c
// Flags: -DWEFT_TINY=1
#include "task/slab.c"

#include <string.h>

#include "mc.h"
#include "stage.h"

enum { SHIFT = 17, SLOTS = 4, BLOCK = 256, PAGE = 4096 };

static _Atomic uintptr_t mapped; // places that were given out
static int guards[8];            // plain, of the slabs by place: written by their owners

static const struct weft_stack_provider *provider; // NULL: mappings stay when slabs are closed

size_t weft__sys_page_bytes(void)
{
    return PAGE;
}

int weft__sys_map(void **base, size_t size_bytes, size_t align)
{
    mc_assert(size_bytes == SLOTS * (((size_t)1 << SHIFT) + PAGE) && align == PAGE);
    uintptr_t place = atomic_fetch_add_explicit(&mapped, 1, memory_order_relaxed) + 1;
    *base = (void *)(place << (SHIFT + 3)); // nobody touches it
    return 0;
}

void weft__sys_unmap(void *base, size_t size_bytes)
{
    (void)base;
    (void)size_bytes;
}

static int provide(void *ctx, void **base, size_t size_bytes, size_t align)
{
    (void)ctx;
    return weft__sys_map(base, size_bytes, align);
}

static void take_back(void *ctx, void *base, size_t size_bytes)
{
    (void)ctx;
    weft__sys_unmap(base, size_bytes);
}

int weft__sys_advise(void *start, size_t size_bytes, int advice)
{
    (void)start;
    (void)size_bytes;
    (void)advice;
    return 0;
}

static int place_of(const void *address)
{
    return (int)((uintptr_t)address >> (SHIFT + 3));
}

enum weft__guard weft__guard_install(void *base, size_t size_bytes)
{
    (void)size_bytes;
    guards[place_of(base)]++;
    return WEFT__GUARD_MAPPED;
}

void weft__guard_remove(void *base, size_t size_bytes, uint32_t mapped_guards)
{
    (void)size_bytes;
    mc_assert(guards[place_of(base)] == (int)mapped_guards);
    guards[place_of(base)] = 0;
}

/// What stack.c does with the first slot of a slab.
static void use(struct weft__slab *slab)
{
    mc_assert(atomic_load_explicit(&slab->used, memory_order_relaxed) == 0);
    mc_assert(atomic_load_explicit(&slab->cold[0], memory_order_relaxed) == 0);
    mc_assert(slab->cold_count == 0);
    bool guarded = slab->touched > 0;
    if (!guarded) {
        slab->touched = 1;
    }
    atomic_store_explicit(&slab->used, 1, memory_order_release);
    if (!guarded) {
        weft__slab_guard(slab, 0);
    }
    slab->cold_count = 1; // given back
    atomic_store_explicit(&slab->cold[0], 1, memory_order_relaxed);
}

static void open_and_close(void *unused)
{
    (void)unused;
    struct weft__slab *slab = NULL;
    int rc = weft__slab_open(&slab, provider, SHIFT, SLOTS, BLOCK);
    mc_assert(rc == 0 && slab != NULL);
    use(slab);
    weft__slab_close(slab, provider);
}

static void find(void *unused)
{
    (void)unused;
    struct weft__guard_owner owner = { NULL, 0 };
    const char *address = (const char *)((uintptr_t)1 << (SHIFT + 3)) + 64;
    if (weft__slab_find_guard(address, &owner)) {
        mc_assert((char *)owner.block > address);
        mc_assert(owner.stack_bytes < (size_t)1 << SHIFT);
    }
}

static void reset(const struct weft_stack_provider *from)
{
    atomic_init(&newest, NULL);
    atomic_init(&mapped, 0);
    memset(guards, 0, sizeof guards);
    provider = from;
    mc_name(&newest, sizeof newest, "newest");
    mc_thread(open_and_close, NULL);
    mc_thread(open_and_close, NULL);
}

static void kept(void)
{
    reset(NULL);
    mc_thread(open_and_close, NULL);
}

static void provided(void)
{
    static const struct weft_stack_provider own = { .map = provide, .unmap = take_back };
    reset(&own);
    mc_thread(open_and_close, NULL);
}

static void found(void)
{
    reset(NULL);
    mc_thread(find, NULL);
}

const struct mc_model mc_models[] = {
    { .name = "slab_kept", .setup = kept, .max_bound = 1 },
    { .name = "slab_provided", .setup = provided, .max_bound = 1 },
    { .name = "slab_found", .setup = found, .max_bound = 2 },
    { .name = NULL },
};
