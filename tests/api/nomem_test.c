// nomem_test.c - spawning when there is no memory: an error, nothing half-started, nothing lost.
#include "support/test.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <weft.h>

static atomic_bool exhausted;
static atomic_int ran;

static void *alloc(void *ctx, size_t size_bytes, size_t align)
{
    (void)ctx;
    void *memory = NULL;
    if (align < sizeof(void *)) {
        align = sizeof(void *);
    }
    if (atomic_load(&exhausted) || posix_memalign(&memory, align, size_bytes) != 0) {
        return NULL;
    }
    return memory;
}

static void release(void *ctx, void *memory, size_t size_bytes)
{
    (void)ctx;
    (void)size_bytes;
    free(memory);
}

static int map(void *ctx, void **base, size_t size_bytes, size_t align)
{
    (void)ctx;
    if (atomic_load(&exhausted)) {
        return -ENOMEM;
    }
    char *raw = mmap(NULL, size_bytes + align, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED) {
        return -ENOMEM;
    }
    *base = (void *)(((uintptr_t)raw + align - 1) & ~(uintptr_t)(align - 1));
    return 0; // the rest is given back with the process
}

static void unmap(void *ctx, void *base, size_t size_bytes)
{
    (void)ctx;
    munmap(base, size_bytes);
}

static const struct weft_allocator allocator = { alloc, release, NULL };
static const struct weft_stack_provider provider = { map, unmap, NULL };

static int count(void *arg)
{
    (void)arg;
    atomic_fetch_add(&ran, 1);
    return 0;
}

static int sleep_for_ever(void *arg)
{
    (void)arg;
    return weft_sleep_until(WEFT_FOREVER);
}

/// A size of stack that nobody has used yet, so that the pool has to ask for memory.
static const struct weft_attr fresh = { .size = sizeof(struct weft_attr),
                                        .stack_size_bytes = 8 << 20 };

static int spawn_without_memory(void *arg)
{
    (void)arg;
    struct weft_scope scope;
    weft_task *task = weft_self();
    atomic_store(&exhausted, true);
    CHECK_EQ(weft_spawn(&task, count, NULL, &fresh), -ENOMEM);
    CHECK_EQ(task, (weft_task *)NULL);
    atomic_store(&exhausted, false);

    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    CHECK_OK(weft_scope_spawn(&scope, sleep_for_ever, NULL));
    atomic_store(&exhausted, true);
    CHECK_EQ(weft_scope_spawn_task(&task, &scope, count, NULL, &fresh), -ENOMEM);
    atomic_store(&exhausted, false);
    CHECK_EQ(task, (weft_task *)NULL);
    CHECK_EQ(weft_scope_cause(&scope), -ENOMEM);
    CHECK_EQ(weft_scope_spawn(&scope, count, NULL), -ECANCELED);
    CHECK_EQ(weft_scope_join(&scope), -ENOMEM);
    CHECK_EQ(atomic_load(&ran), 0);

    CHECK_OK(weft_spawn(&task, count, NULL, &fresh)); // and when there is memory again
    CHECK_EQ(weft_join(NULL, task, WEFT_FOREVER), 0);
    CHECK_EQ(atomic_load(&ran), 1);
    return 0;
}

static const struct weft_local key = { "key", NULL, NULL };

static void *same(void *value)
{
    return value;
}

static const struct weft_local heritable = { "heritable", NULL, same };

static int set_locals_without_memory(void *arg)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    weft_task *task = weft_self();
    CHECK_OK(weft_local_set(&heritable, arg));
    attr.inherit = true;
    atomic_store(&exhausted, true);
    CHECK_EQ(weft_local_set(&key, arg), -ENOMEM);
    CHECK(weft_local_get(&key) == NULL);
    CHECK_OK(weft_local_set(&heritable, &attr)); // replacing needs none
    CHECK_EQ(weft_spawn(&task, count, NULL, &attr), -ENOMEM);
    CHECK_EQ(task, (weft_task *)NULL);
    CHECK_OK(weft_local_set(&heritable, NULL)); // nor does removing
    atomic_store(&exhausted, false);
    CHECK_OK(weft_local_set(&key, arg));
    CHECK_EQ(weft_local_get(&key), arg);
    CHECK_EQ(atomic_load(&ran), 0);
    return 0;
}

static void run(weft_fn fn)
{
    int arg;
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = 1;
    options.allocator = &allocator;
    options.stack_provider = &provider;
    CHECK_EQ(weft_run(fn, &arg, &options), 0);
}

TEST_DRIVERS(a_spawn_without_memory_fails_cleanly)
{
    run(spawn_without_memory);
}

TEST_DRIVERS(a_local_value_without_memory_fails_cleanly)
{
    run(set_locals_without_memory);
}
