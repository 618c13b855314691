// Runtimes: made, run, nested, several at once, their hooks for memory, and what is left behind.
#include "support/test.h"

#include "support/gather.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <weft.h>

static struct gathered logged;

static struct weft_options quiet(int carriers)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = carriers;
    options.log = gather_log;
    options.log_ctx = &logged;
    return options;
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int give_back(void *arg)
{
    return *(int *)arg;
}

TEST_DRIVERS(an_empty_runtime_comes_and_goes)
{
    struct weft_options options = quiet(3);
    weft_runtime *runtime;
    CHECK_OK(weft_runtime_create(&runtime, &options)); // opens what is opened once per process
    CHECK_OK(weft_runtime_destroy(runtime));
    int descriptors = count_descriptors();
    int threads = count_threads();
    for (int i = 0; i < 20; i++) {
        CHECK_OK(weft_runtime_create(&runtime, &options));
        CHECK_EQ(weft_runtime_carriers(runtime), 3);
        CHECK_GE(count_threads(), 1 + 3);
        CHECK_OK(weft_runtime_destroy(runtime));
    }
    CHECK_EQ(count_descriptors(), descriptors);
    CHECK(threads_fall_to(threads));
    CHECK_EQ(logged.count, 0);
    CHECK_EQ(weft_runtime_destroy(NULL), 0);
}

TEST_DRIVERS(the_result_of_the_first_thread_is_the_result_of_the_run)
{
    static int results[] = { 0, 1, 42, -1, -EIO, -EBUSY, INT32_MAX, INT32_MIN };
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        CHECK_EQ(weft_run(give_back, &results[i], NULL), results[i]);
    }
}

static int run_inside(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_run(nothing, NULL, NULL), -EDEADLK);
    struct weft_sim_result result;
    CHECK_EQ(weft_sim_run(&result, nothing, NULL, NULL), -EDEADLK);
    CHECK_EQ(weft_runtime_shutdown(weft_runtime_current(), 0), -EDEADLK);
    CHECK_EQ(weft_runtime_destroy(weft_runtime_current()), -EDEADLK);
    return 7;
}

TEST_DRIVERS(a_run_inside_a_task_is_a_deadlock)
{
    CHECK_EQ(weft_run(run_inside, NULL, NULL), 7);
}

static int look_around(void *arg)
{
    (void)arg;
    const char *driver = test_driver() == TEST_DRIVER_URING ? "uring" : "epoll";
    CHECK_EQ(weft_runtime_carriers(weft_runtime_current()), 2);
    CHECK_EQ(weft_carrier_count(), 2);
    CHECK_GE(weft_carrier_id(), 0);
    CHECK_LT(weft_carrier_id(), 2);
    CHECK_STR(weft_runtime_driver(weft_runtime_current()), driver);
    CHECK_STR(weft_task_name(weft_self()), "main");
    CHECK_NE(weft_task_id(weft_self()), 0);
    return 0;
}

TEST_DRIVERS(a_task_knows_where_it_is)
{
    struct weft_options options = quiet(2);
    CHECK_EQ(weft_run(look_around, NULL, &options), 0);
    CHECK(weft_runtime_current() == NULL);
    CHECK_EQ(weft_carrier_id(), -1);
    CHECK_EQ(weft_carrier_count(), 0);
    CHECK(weft_self() == NULL);
}

// Several runtimes, each of whose tasks joins one of the runtime before.

struct link {
    weft_runtime *there;
    int depth;
};

static int join_across(void *arg)
{
    struct link *link = arg;
    if (link->depth == 0) {
        return weft_sleep(WEFT_MS) + 1;
    }
    weft_task *task;
    int result;
    CHECK_OK(weft_runtime_spawn(&task, link[-1].there, join_across, link - 1, NULL));
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    return result + 1;
}

TEST_DRIVERS(tasks_join_across_runtimes)
{
    enum { RUNTIMES = 6, CHAINS = 50 };
    struct link links[RUNTIMES];
    weft_task *tasks[CHAINS];
    struct weft_options options = quiet(2);
    for (int i = 0; i < RUNTIMES; i++) {
        links[i].depth = i;
        CHECK_OK(weft_runtime_create(&links[i].there, &options));
    }
    for (int i = 0; i < CHAINS; i++) {
        CHECK_OK(weft_runtime_spawn(&tasks[i], links[RUNTIMES - 1].there, join_across,
                                    &links[RUNTIMES - 1], NULL));
    }
    for (int i = 0; i < CHAINS; i++) {
        int result;
        CHECK_OK(weft_join(&result, tasks[i], WEFT_FOREVER));
        CHECK_EQ(result, RUNTIMES);
    }
    for (int i = 0; i < RUNTIMES; i++) {
        CHECK_OK(weft_runtime_destroy(links[i].there));
    }
    CHECK_EQ(logged.count, 0);
}

static int make_one_inside(void *arg)
{
    (void)arg;
    struct weft_options options = quiet(1);
    weft_runtime *runtime;
    weft_task *task;
    int result;
    int given = -ENOTTY;
    CHECK_OK(weft_runtime_create(&runtime, &options));
    CHECK(weft_runtime_current() != runtime);
    CHECK_OK(weft_runtime_spawn(&task, runtime, give_back, &given, NULL));
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    CHECK_EQ(result, -ENOTTY);
    CHECK_OK(weft_runtime_destroy(runtime));
    return 0;
}

TEST_DRIVERS(a_task_may_make_another_runtime)
{
    struct weft_options options = quiet(2);
    CHECK_EQ(weft_run(make_one_inside, NULL, &options), 0);
}

static weft_runtime *seen_default[8];

static void *get_default(void *arg)
{
    seen_default[(intptr_t)arg] = weft_runtime_default();
    return NULL;
}

TEST_DRIVERS(there_is_one_default_runtime)
{
    pthread_t threads[8];
    for (intptr_t i = 0; i < 8; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, get_default, (void *)i), 0);
    }
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        CHECK(seen_default[i] == weft_runtime_default());
    }
    weft_task *task;
    int given = 99;
    int result;
    CHECK(weft_runtime_default() != NULL);
    CHECK_OK(weft_runtime_spawn(&task, weft_runtime_default(), give_back, &given, NULL));
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    CHECK_EQ(result, 99);
}

TEST(a_bad_environment_leaves_no_default_runtime_until_it_is_mended)
{
    setenv("WEFT_IO", "carrier pigeon", 1);
    char text[4096];
    struct captured captured = capture_stderr();
    weft_runtime *runtime = weft_runtime_default();
    captured_end(&captured, text, sizeof text);
    CHECK(runtime == NULL);
    CHECK(strstr(text, "WEFT_IO=\"carrier pigeon\"") != NULL);
    setenv("WEFT_IO", "epoll", 1);
    CHECK(weft_runtime_default() != NULL);
}

// Handles that outlive their runtime.

static weft_task *kept[3];

static int keep_handles(void *arg)
{
    (void)arg;
    static int result = -EXDEV;
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weft_spawn(&kept[i], give_back, &result, NULL));
    }
    return 0;
}

TEST_DRIVERS(handles_may_outlive_their_runtime)
{
    struct weft_options options = quiet(2);
    CHECK_EQ(weft_run(keep_handles, NULL, &options), 0);
    CHECK_LOGGED(&logged, "3 task handles were never joined or released");
    for (int i = 0; i < 3; i++) {
        CHECK(weft_task_done(kept[i]));
        weft_task_cancel(kept[i]);
    }
    int result;
    CHECK_OK(weft_join(&result, kept[0], WEFT_FOREVER));
    CHECK_EQ(result, -EXDEV);
    weft_task_release(weft_task_retain(kept[1]));
    weft_task_release(kept[1]);
    CHECK_EQ(weft_run(nothing, NULL, &options), 0); // others are not disturbed
    weft_task_release(kept[2]);
}

// Hooks.

struct account {
    _Atomic int64_t bytes;
    _Atomic int64_t pieces;
    _Atomic int64_t calls;
    int64_t fail_from; // refuses from this call on; 0: never
};

static void *counted_alloc(void *ctx, size_t size_bytes, size_t align)
{
    struct account *account = ctx;
    int64_t call = atomic_fetch_add(&account->calls, 1) + 1;
    if (account->fail_from != 0 && call >= account->fail_from) {
        return NULL;
    }
    CHECK(align != 0 && (align & (align - 1)) == 0);
    void *memory = NULL;
    size_t least = align < sizeof(void *) ? sizeof(void *) : align;
    CHECK_EQ(posix_memalign(&memory, least, size_bytes), 0);
    memset(memory, 0xa5, size_bytes);
    atomic_fetch_add(&account->bytes, (int64_t)size_bytes);
    atomic_fetch_add(&account->pieces, 1);
    return memory;
}

static void counted_free(void *ctx, void *memory, size_t size_bytes)
{
    struct account *account = ctx;
    memset(memory, 0x5a, size_bytes);
    free(memory);
    atomic_fetch_sub(&account->bytes, (int64_t)size_bytes);
    atomic_fetch_sub(&account->pieces, 1);
}

static const struct weft_local colour = { .name = "colour" };

static enum weft_poll ready_at_once(struct weft_future *future, weft_waker *waker)
{
    (void)waker;
    future->result = 5;
    return WEFT_READY;
}

static int child(void *arg)
{
    CHECK_OK(weft_local_set(&colour, arg));
    return weft_yield();
}

static int use_memory(void *arg)
{
    (void)arg;
    struct weft_future futures[100];
    weft_task *tasks[100];
    struct weft_scope scope;
    int result;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, weft_after(WEFT_S * 100)));
    for (int i = 0; i < 100; i++) {
        weft_future_init(&futures[i], ready_at_once, NULL);
        CHECK_OK(weft_spawn_future(&tasks[i], &futures[i], NULL));
        CHECK_OK(weft_scope_spawn(&scope, child, &tasks[i]));
    }
    CHECK_OK(weft_scope_join(&scope));
    for (int i = 0; i < 100; i++) {
        CHECK_OK(weft_join(&result, tasks[i], WEFT_FOREVER));
        CHECK_EQ(result, 5);
    }
    return 0;
}

TEST_DRIVERS(all_small_memory_comes_from_the_allocator_and_returns)
{
    static struct account account;
    const struct weft_allocator allocator = { counted_alloc, counted_free, &account };
    struct weft_options options = quiet(3);
    options.allocator = &allocator;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_run(use_memory, NULL, &options), 0);
        CHECK_EQ(atomic_load(&account.bytes), 0);
        CHECK_EQ(atomic_load(&account.pieces), 0);
    }
    CHECK_GT(atomic_load(&account.calls), 3 * (100 + 1));
}

static int counted_map(void *ctx, void **base, size_t size_bytes, size_t align)
{
    struct account *account = ctx;
    int64_t call = atomic_fetch_add(&account->calls, 1) + 1;
    if (account->fail_from != 0 && call >= account->fail_from) {
        *base = NULL;
        return -ENOMEM;
    }
    char *memory = mmap(NULL, size_bytes + align, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED);
    size_t head = -(uintptr_t)memory & (align - 1);
    munmap(memory, head);
    munmap(memory + head + size_bytes, align - head);
    *base = memory + head;
    atomic_fetch_add(&account->bytes, (int64_t)size_bytes);
    atomic_fetch_add(&account->pieces, 1);
    return 0;
}

static void counted_unmap(void *ctx, void *base, size_t size_bytes)
{
    struct account *account = ctx;
    memset((char *)base + size_bytes - 4096, 0, 4096); // no guard is left in the way
    memset(base, 0, 4096);
    CHECK_EQ(munmap(base, size_bytes), 0);
    atomic_fetch_sub(&account->bytes, (int64_t)size_bytes);
    atomic_fetch_sub(&account->pieces, 1);
}

TEST_DRIVERS(all_stacks_come_from_the_provider_and_return)
{
    static struct account account;
    const struct weft_stack_provider provider = { counted_map, counted_unmap, &account };
    struct weft_options options = quiet(3);
    options.stack_provider = &provider;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_run(use_memory, NULL, &options), 0);
        CHECK_EQ(atomic_load(&account.bytes), 0);
        CHECK_EQ(atomic_load(&account.pieces), 0);
    }
    CHECK_GE(atomic_load(&account.calls), 3);
}

TEST_DRIVERS(a_provider_without_memory_makes_the_run_fail)
{
    static struct account account = { .fail_from = 1 };
    const struct weft_stack_provider provider = { counted_map, counted_unmap, &account };
    struct weft_options options = quiet(2);
    options.stack_provider = &provider;
    CHECK_EQ(weft_run(nothing, NULL, &options), -ENOMEM);
    CHECK_GE(atomic_load(&account.calls), 1);
    CHECK_EQ(atomic_load(&account.bytes), 0);
}

static int spawn_until_it_fails(void *arg)
{
    (void)arg;
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_COLLECT, WEFT_FOREVER));
    int rc = 0;
    int spawned = 0;
    while (rc == 0 && spawned < 1000000) {
        weft_task *task = (weft_task *)&scope;
        rc = weft_spawn(&task, nothing, NULL, NULL);
        CHECK_EQ(task == NULL, rc != 0);
        weft_task_release(task);
        spawned += rc == 0;
    }
    CHECK_EQ(rc, -ENOMEM);
    CHECK_GE(spawned, 1);
    CHECK_EQ(weft_go(nothing, NULL), -ENOMEM);
    CHECK_EQ(weft_scope_spawn(&scope, nothing, NULL), -ENOMEM);
    CHECK_EQ(weft_scope_join(&scope), -ENOMEM); // it is enough to check the join
    do { // until children have ended and given their stacks back
        CHECK_EQ(weft_yield(), 0);
        rc = weft_go(nothing, NULL);
    } while (rc == -ENOMEM);
    return rc;
}

TEST_DRIVERS(a_spawn_without_a_stack_fails_and_later_ones_recover)
{
    static struct account account = { .fail_from = 2 };
    const struct weft_stack_provider provider = { counted_map, counted_unmap, &account };
    struct weft_options options = quiet(1);
    options.stack_provider = &provider;
    CHECK_EQ(weft_run(spawn_until_it_fails, NULL, &options), 0);
    CHECK_EQ(atomic_load(&account.bytes), 0);
    CHECK_EQ(atomic_load(&account.pieces), 0);
}

static int count_up(void *arg)
{
    atomic_fetch_add((_Atomic int *)arg, 1);
    return 0;
}

static int spread(void *arg)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    struct weft_scope scope;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_set_attr(&scope, &attr);
    for (int i = 0; i < 1000; i++) {
        CHECK_OK(weft_scope_spawn(&scope, count_up, arg));
    }
    return weft_scope_join(&scope);
}

TEST_DRIVERS(any_number_of_carriers_with_and_without_spinning)
{
    static const int counts[] = { 1, 2, 3, 4, 16, 64 };
    for (size_t i = 0; i < 2 * sizeof counts / sizeof counts[0]; i++) {
        struct weft_options options = quiet(counts[i / 2]);
        options.idle_spin_ns = i % 2 == 0 ? 0 : 20 * WEFT_US;
        _Atomic int ran = 0;
        CHECK_EQ(weft_run(spread, &ran, &options), 0);
        CHECK_EQ(atomic_load(&ran), 1000);
    }
}
