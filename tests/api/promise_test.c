// promise_test.c - the promises that weft makes about every program, each under its number.
#include "support/test.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <weft.h>

static int stay_on_one_thread(void *arg)
{
    (void)arg;
    int carrier = weft_carrier_id();
    long thread = syscall(SYS_gettid);
    uint64_t random = test_seed() ^ weft_task_id(weft_self());
    for (int i = 0; i < 40; i++) {
        if (test_random(&random) % 2 != 0) {
            CHECK_OK(weft_yield());
        } else {
            CHECK_OK(weft_sleep(test_random(&random) % 100000));
        }
        CHECK_EQ(weft_carrier_id(), carrier);
        CHECK_EQ(syscall(SYS_gettid), thread);
    }
    return 0;
}

static void run_many(weft_fn fn)
{
    enum { TASKS = 60 };
    struct weft_attr attr = WEFT_ATTR_INIT;
    weft_task *tasks[TASKS];
    attr.place = WEFT_PLACE_SPREAD;
    for (int i = 0; i < TASKS; i++) {
        CHECK_OK(weft_spawn(&tasks[i], fn, &tasks[i], &attr));
    }
    for (int i = 0; i < TASKS; i++) {
        CHECK_EQ(weft_join(NULL, tasks[i], WEFT_FOREVER), 0);
    }
}

TEST_EVERYWHERE(promise_4_a_pinned_thread_never_changes_os_threads)
{
    run_many(stay_on_one_thread);
}

// Each task marks itself as running between two calls that may switch; somebody else wakes it all
// the time meanwhile.
static atomic_int running[4096];

static int run_alone(void *arg)
{
    (void)arg;
    atomic_int *mine = &running[weft_task_id(weft_self()) % 4096];
    for (int i = 0; i < 200; i++) {
        CHECK_EQ(atomic_fetch_add(mine, 1), 0);
        CHECK_EQ(atomic_fetch_sub(mine, 1), 1);
        CHECK_OK(i % 4 == 0 ? weft_sleep(WEFT_US) : weft_yield());
    }
    return 0;
}

static int wake_others(void *arg)
{
    weft_waker *wakers = arg;
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 4; i++) {
            weft_waker_wake_by_ref(&wakers[i]);
        }
        CHECK_OK(weft_yield());
    }
    return 0;
}

static weft_waker woken[4];
static atomic_int ready;

static int be_woken(void *arg)
{
    CHECK_OK(weft_waker_self(arg));
    atomic_fetch_add(&ready, 1);
    int rc = run_alone(NULL);
    return rc;
}

TEST_EVERYWHERE(promise_3_a_task_runs_on_one_carrier_at_a_time)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    weft_task *sleepers[4];
    weft_task *wakers[2];
    for (int i = 0; i < 4; i++) {
        CHECK_OK(weft_spawn(&sleepers[i], be_woken, &woken[i], &attr));
    }
    while (atomic_load(&ready) < 4) {
        CHECK_OK(weft_yield());
    }
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weft_spawn(&wakers[i], wake_others, woken, &attr));
    }
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(weft_join(NULL, sleepers[i], WEFT_FOREVER), 0);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_join(NULL, wakers[i], WEFT_FOREVER), 0);
    }
    for (int i = 0; i < 4; i++) {
        weft_waker_drop(&woken[i]);
    }
}

// Pairs of tasks hand a token to and fro, each parking until it has it: one lost wake-up and the
// test never ends. Every pair has a third party that wakes both for nothing.
struct pair {
    weft_waker wakers[2];
    atomic_int ready;
    atomic_int turn; // counts up; even: the first one's
    int rounds;
};

struct player {
    struct pair *pair;
    int side;
};

static int play(void *arg)
{
    struct player *player = arg;
    struct pair *pair = player->pair;
    CHECK_OK(weft_waker_self(&pair->wakers[player->side]));
    atomic_fetch_add(&pair->ready, 1);
    while (atomic_load(&pair->ready) < 2) {
        CHECK_OK(weft_yield());
    }
    for (;;) {
        int turn = atomic_load(&pair->turn);
        if (turn >= pair->rounds) {
            break;
        }
        if (turn % 2 != player->side) {
            CHECK_OK(weft_park(WEFT_FOREVER));
            continue;
        }
        atomic_store(&pair->turn, turn + 1);
        weft_waker_wake_by_ref(&pair->wakers[!player->side]);
    }
    weft_waker_wake_by_ref(&pair->wakers[!player->side]);
    return 0;
}

static int disturb(void *arg)
{
    struct pair *pair = arg;
    while (atomic_load(&pair->turn) < pair->rounds) {
        if (atomic_load(&pair->ready) == 2) {
            weft_waker_wake_by_ref(&pair->wakers[0]);
            weft_waker_wake_by_ref(&pair->wakers[1]);
        }
        CHECK_OK(weft_sleep(50 * WEFT_US));
    }
    return 0;
}

TEST_EVERYWHERE(promise_1_no_wakeup_is_lost)
{
    enum { PAIRS = 6 };
    static struct pair pairs[PAIRS];
    static struct player players[PAIRS][2];
    weft_task *tasks[PAIRS][3];
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_CARRIER;
    for (int i = 0; i < PAIRS; i++) {
        pairs[i].rounds = (int)test_scaled(2000);
        for (int side = 0; side < 2; side++) {
            players[i][side] = (struct player){ &pairs[i], side };
            attr.carrier = (i + side * (i % 2 + 1)) % weft_carrier_count();
            CHECK_OK(weft_spawn(&tasks[i][side], play, &players[i][side], &attr));
        }
        attr.carrier = (i + 2) % weft_carrier_count();
        CHECK_OK(weft_spawn(&tasks[i][2], disturb, &pairs[i], &attr));
    }
    for (int i = 0; i < PAIRS; i++) {
        for (int j = 0; j < 3; j++) {
            CHECK_EQ(weft_join(NULL, tasks[i][j], WEFT_FOREVER), 0);
        }
        CHECK_GE(atomic_load(&pairs[i].turn), pairs[i].rounds);
        weft_waker_drop(&pairs[i].wakers[0]);
        weft_waker_drop(&pairs[i].wakers[1]);
    }
}

// A tree of scopes whose tasks fail, finish, sleep and are cancelled at random. Whatever happens,
// after a join no child of that scope is alive.
struct node {
    uint64_t seed;
    int depth;
    atomic_int alive; // children that have begun and not ended
    struct node *parent;
};

static int live_and_die(void *arg);

static int open_scope(struct node *node, uint64_t *random)
{
    struct node children[4];
    struct weft_scope scope;
    int flags = (int)(test_random(random) % 3) |
                (test_random(random) % 4 == 0 ? WEFT_SCOPE_SHIELD : 0);
    weft_time deadline = test_random(random) % 2 ? weft_after(test_random(random) % 1000000)
                                                 : WEFT_FOREVER;
    CHECK_OK(weft_scope_init(&scope, flags, deadline));
    for (size_t i = 0; i < 4; i++) {
        struct weft_attr attr = WEFT_ATTR_INIT;
        attr.place = test_random(random) % 2 ? WEFT_PLACE_SPREAD : WEFT_PLACE_CURRENT;
        children[i].seed = test_random(random);
        children[i].depth = node->depth + 1;
        children[i].parent = node;
        atomic_store(&children[i].alive, 0);
        (void)weft_scope_spawn_task(NULL, &scope, live_and_die, &children[i], &attr);
    }
    if (test_random(random) % 4 == 0) {
        weft_scope_cancel(&scope);
    }
    int rc = weft_scope_join(&scope);
    CHECK_EQ(atomic_load(&node->alive), 0);
    return rc < 0 ? rc : 0;
}

static int live_and_die(void *arg)
{
    struct node *node = arg;
    uint64_t random = node->seed;
    int rc = 0;
    if (node->parent != NULL) {
        atomic_fetch_add(&node->parent->alive, 1);
    }
    if (test_random(&random) % 2) {
        rc = weft_sleep(test_random(&random) % 500000);
    }
    if (node->depth < 4 && test_random(&random) % 4 != 0) {
        rc = open_scope(node, &random);
    }
    if (test_random(&random) % 8 == 0) {
        rc = -EIO;
    }
    if (node->parent != NULL) {
        atomic_fetch_sub(&node->parent->alive, 1);
    }
    return rc;
}

TEST_EVERYWHERE(promise_5_a_scope_never_leaks_a_child)
{
    uint64_t random = test_seed();
    for (uint64_t i = test_scaled(40); i > 0; i--) {
        struct node root = { .seed = test_random(&random) };
        weft_task *task;
        CHECK_OK(weft_spawn(&task, live_and_die, &root, NULL));
        if (i % 3 == 0) {
            CHECK_OK(weft_sleep(test_random(&random) % 500000));
            weft_task_cancel(task);
        }
        CHECK_EQ(weft_join(NULL, task, WEFT_FOREVER), 0);
        CHECK_EQ(atomic_load(&root.alive), 0);
    }
}

// On the simulated clock a sleeper is late by at most one tick of the wheel plus one quantum. On
// real machines only earliness is a bug; lateness is weft-bench's business.
static int sleep_exactly(void *arg)
{
    (void)arg;
    uint64_t random = test_seed() ^ weft_task_id(weft_self());
    bool simulated = test_driver() == TEST_DRIVER_SIM;
    for (int i = 0; i < (simulated ? 50 : 10); i++) {
        weft_time limit = WEFT_US << (test_random(&random) % (simulated ? 30 : 14));
        weft_time when = weft_after(test_random(&random) % limit);
        CHECK_OK(weft_sleep_until(when));
        weft_time now = weft_now();
        CHECK_GE(now, when);
        if (simulated) {
            CHECK_LE(now, when + (1 << 16) + 50 * WEFT_US);
        }
    }
    return 0;
}

TEST_EVERYWHERE(promise_6_a_timer_is_never_early)
{
    run_many(sleep_exactly);
}

// Everything that a runtime allocates, in bytes, and every piece of stack memory.
static atomic_llong allocated_bytes;
static atomic_llong mapped_bytes;

static void *count_alloc(void *ctx, size_t size_bytes, size_t align)
{
    (void)ctx;
    void *memory = NULL;
    if (posix_memalign(&memory, align < sizeof(void *) ? sizeof(void *) : align, size_bytes) != 0) {
        return NULL;
    }
    atomic_fetch_add(&allocated_bytes, (long long)size_bytes);
    return memory;
}

static void count_free(void *ctx, void *memory, size_t size_bytes)
{
    (void)ctx;
    atomic_fetch_sub(&allocated_bytes, (long long)size_bytes);
    free(memory);
}

static int count_map(void *ctx, void **base, size_t size_bytes, size_t align)
{
    (void)ctx;
    char *raw = mmap(NULL, size_bytes + align, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED) {
        return -ENOMEM;
    }
    char *aligned = (char *)(((uintptr_t)raw + align - 1) & ~(uintptr_t)(align - 1));
    if (aligned > raw) {
        munmap(raw, (size_t)(aligned - raw));
    }
    munmap(aligned + size_bytes, (size_t)(raw + align - aligned));
    atomic_fetch_add(&mapped_bytes, (long long)size_bytes);
    *base = aligned;
    return 0;
}

static void count_unmap(void *ctx, void *base, size_t size_bytes)
{
    (void)ctx;
    atomic_fetch_sub(&mapped_bytes, (long long)size_bytes);
    munmap(base, size_bytes);
}

static const struct weft_allocator allocator = { count_alloc, count_free, NULL };
static const struct weft_stack_provider provider = { count_map, count_unmap, NULL };

static void drop_local(void *value)
{
    atomic_fetch_add((atomic_int *)value, 1);
}

static const struct weft_local local = { "cleanup", drop_local, NULL };

static atomic_int started;

/// Waits in one of four ways until it is cancelled, cleans up under a shield, and says so.
static int work_until_cancelled(void *arg)
{
    struct weft_scope scope;
    weft_waker waker;
    CHECK_OK(weft_local_set(&local, arg));
    CHECK_OK(weft_waker_self(&waker));
    atomic_fetch_add(&started, 1);
    switch (weft_task_id(weft_self()) % 3) {
    case 0: CHECK_EQ(weft_sleep_until(WEFT_FOREVER), -ECANCELED); break;
    case 1:
        while (weft_park(WEFT_FOREVER) != -ECANCELED) {
        }
        break;
    case 2:
        while (weft_sleep(10 * WEFT_US) == 0) {
        }
        break;
    }
    weft_waker_drop(&waker);
    CHECK_EQ(weft_scope_init(&scope, WEFT_SCOPE_SHIELD, weft_after(60 * WEFT_S)), 0);
    CHECK_OK(weft_sleep(WEFT_MS));
    CHECK_EQ(weft_scope_join(&scope), 0);
    CHECK_EQ(weft_sleep(1), -ECANCELED);
    return -ECANCELED;
}

static int wait_for_children(void *arg)
{
    struct weft_scope scope;
    CHECK_OK(weft_local_set(&local, arg));
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_COLLECT, WEFT_FOREVER));
    CHECK_OK(weft_scope_spawn(&scope, work_until_cancelled, arg));
    CHECK_OK(weft_scope_spawn(&scope, work_until_cancelled, arg));
    atomic_fetch_add(&started, 1);
    CHECK_EQ(weft_scope_join(&scope), -ECANCELED);
    return -ECANCELED;
}

enum { GROUPS = 20, TASKS_PER_GROUP = 4 };

static int start_groups(void *arg)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    atomic_store(&started, 0);
    for (int i = 0; i < GROUPS; i++) {
        weft_task *task;
        CHECK_OK(weft_spawn(&task, wait_for_children, arg, &attr));
        weft_task_release(task);
        CHECK_OK(weft_go(work_until_cancelled, arg));
    }
    while (atomic_load(&started) < GROUPS * TASKS_PER_GROUP) {
        CHECK_OK(weft_sleep(20 * WEFT_US));
    }
    return 7;
}

TEST_DRIVERS(promise_7_shutdown_ends_everything_and_leaks_nothing)
{
    atomic_int dropped = 0;
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = TEST_CARRIERS;
    options.allocator = &allocator;
    options.stack_provider = &provider;
    CHECK_EQ(weft_run(start_groups, &dropped, &options), 7);
    CHECK_EQ(atomic_load(&dropped), GROUPS * TASKS_PER_GROUP);
    CHECK_EQ(atomic_load(&allocated_bytes), 0);
    CHECK_EQ(atomic_load(&mapped_bytes), 0);
}

TEST(promise_7_shutdown_ends_within_its_grace_period)
{
    for (uint64_t i = 0; i < test_scaled(50); i++) {
        atomic_int dropped = 0;
        struct weft_sim_options options = {
            .seed = test_seed() + i,
            .carriers = 4,
            .grace_ns = 2 * WEFT_MS,
        };
        struct weft_sim_result result;
        CHECK_EQ(weft_sim_run(&result, start_groups, &dropped, &options), 7);
        CHECK_EQ(result.result, 7);
        CHECK_EQ(atomic_load(&dropped), GROUPS * TASKS_PER_GROUP);
        CHECK_LT(result.virtual_ns, 5 * WEFT_MS);
    }
}
