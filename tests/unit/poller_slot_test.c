// poller_slot_test.c - who has a carrier's poller slot: nobody after a registration that fails, a resident
// while there is no other (sched/poller.c, Q4 and Q7).
#include "support/test.h"

#include <errno.h>
#include <pthread.h>
#include <weft.h>

#include "base/sys.h"
#include "sched/crew.h"
#include "sched/poller.h"

static struct weft__crew *crew;
static atomic_bool no_stacks;
static atomic_int refused;

/// Called in the middle of a registration.
static int map_stacks(void *ctx, void **base, size_t size_bytes, size_t align)
{
    (void)ctx;
    if (!atomic_load(&no_stacks)) {
        return weft__sys_map(base, size_bytes, align);
    }
    *base = NULL;
    atomic_fetch_add(&refused, 1);
    // Its loop must not find what may not come. NULL unless the pollers are tasks.
    CHECK(atomic_load(&crew->carriers[0].poller) == crew->carriers[0].resident);
    return -ENOMEM;
}

static void unmap_stacks(void *ctx, void *base, size_t size_bytes)
{
    (void)ctx;
    weft__sys_unmap(base, size_bytes);
}

static int returns(void *arg)
{
    return *(int *)arg;
}

static atomic_bool stop;

/// Keeps the carrier's loop going.
static int yields(void *arg)
{
    (void)arg;
    while (!atomic_load(&stop)) {
        CHECK_OK(weft_yield());
    }
    return 0;
}

TEST_DRIVERS(a_registration_without_memory_leaves_nothing)
{
    static const struct weft_stack_provider provider = { map_stacks, unmap_stacks, NULL };
    struct weft_options options = WEFT_OPTIONS_INIT;
    weft_runtime *runtime;
    weft_task *task;
    weft_poller *poller;
    int number = 6;
    int result = 0;
    options.carriers = 1;
    options.stack_provider = &provider;
    options.stack_size_bytes = (size_t)1 << 30; // each is a mapping of its own
    CHECK_OK(weft_runtime_create(&runtime, &options));
    crew = weft__crew_of(runtime);
    CHECK_OK(weft_runtime_spawn(&task, runtime, yields, NULL, NULL));
    atomic_store(&no_stacks, true);
    for (int i = 0; i < 2000 && atomic_load(&refused) < 1000; i++) {
        poller = (weft_poller *)&poller;
        int rc = weft_poller_register(&poller, runtime, 0, returns, NULL, &number);
        if (rc == 0) { // there was a stack left
            CHECK_OK(weft_poller_join(NULL, poller, WEFT_FOREVER));
        } else {
            CHECK_EQ(rc, -ENOMEM);
            CHECK(poller == NULL);
        }
    }
    CHECK_GT(atomic_load(&refused), 0);
    atomic_store(&no_stacks, false);
    CHECK_OK(weft_poller_register(&poller, runtime, 0, returns, NULL, &number));
    CHECK_OK(weft_poller_join(&result, poller, WEFT_FOREVER));
    CHECK_EQ(result, 6);
    atomic_store(&stop, true);
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
    CHECK_OK(weft_runtime_destroy(runtime));
}

static int has_the_slot(void *arg)
{
    const struct weft__carrier *carrier = arg;
    const struct weft__poller *poller = atomic_load(&carrier->poller);
    return poller != NULL && poller != carrier->resident;
}

TEST_EPOLL(a_resident_steps_aside_and_comes_back)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    weft_runtime *runtime;
    options.carriers = 1;
    options.poller = WEFT_POLLER_TASKS;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    struct weft__carrier *carrier = &weft__crew_of(runtime)->carriers[0];
    CHECK(carrier->resident != NULL);
    CHECK(atomic_load(&carrier->poller) == carrier->resident);
    for (int i = 0; i < 3; i++) {
        weft_poller *poller;
        int result = 0;
        CHECK_OK(weft_poller_register(&poller, runtime, 0, has_the_slot, NULL, carrier));
        CHECK_OK(weft_poller_join(&result, poller, WEFT_FOREVER));
        CHECK_EQ(result, 1);
        CHECK(atomic_load(&carrier->poller) == carrier->resident);
    }
    CHECK_OK(weft_runtime_destroy(runtime));
}
