// combine_test.c - futures made of futures: what they answer, whom they poll, and that a cancel at any
// point ends them all.
#include "support/hand.h"
#include "support/waiting.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 8 };

static struct script leaves[MOST];
static struct weft_branch branches[MOST];
static struct weft_combine combine;

/// Leaf i is PENDING left[i] times and ends with values[i].
static void make_leaves(int count, const int *left, const int64_t *values)
{
    for (int i = 0; i < count; i++) {
        script_init(&leaves[i], left[i], values[i]);
        branches[i] = (struct weft_branch){ .future = &leaves[i].future };
    }
}

static void check_all_ready(int count)
{
    for (int i = 0; i < count; i++) {
        CHECK(leaves[i].ready);
        CHECK_LE(leaves[i].cancels, 1);
        weft_future_fini(&leaves[i].future);
    }
}

static int64_t drive(void)
{
    struct hand hand = { 0 };
    int64_t result = hand_drive(&hand, &combine.future);
    weft_future_fini(&combine.future);
    return result;
}

TEST(join_waits_for_all_and_counts_failures)
{
    make_leaves(4, (int[]){ 3, 0, 5, 1 }, (int64_t[]){ 1, -EIO, 0, -EPIPE });
    weft_combine_join(&combine, branches, 4);
    CHECK_EQ(drive(), 2);
    check_all_ready(4);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(leaves[i].cancels, 0);
    }
    CHECK_EQ(leaves[2].polls, 6); // by a wake each
    CHECK_EQ(leaves[1].polls, 1);
}

TEST(children_that_are_ready_at_once_need_one_poll)
{
    void (*const inits[])(struct weft_combine *, struct weft_branch *,
                          size_t) = { weft_combine_join, weft_combine_try_join, weft_combine_race,
                                      weft_combine_select };
    for (int i = 0; i < 4; i++) {
        struct hand hand = { 0 };
        make_leaves(3, (int[]){ 0, 0, 0 }, (int64_t[]){ 7, 8, 9 });
        inits[i](&combine, branches, 3);
        while (hand_poll(&hand, &combine.future) == WEFT_PENDING) {
            CHECK_GT(hand.woken, 0); // the tiny build polls a few at a time
        }
        check_all_ready(3);
        CHECK_EQ(combine.future.result, i == 2 ? 7 : 0);
        CHECK_EQ(hand.clones, 0);
    }
}

TEST(combinators_of_nothing_are_ready)
{
    weft_combine_join(&combine, NULL, 0);
    CHECK_EQ(drive(), 0);
    weft_combine_try_join(&combine, NULL, 0);
    CHECK_EQ(drive(), 0);
    weft_combine_race(&combine, NULL, 0);
    CHECK_EQ(drive(), -EINVAL);
    weft_combine_select(&combine, NULL, 0);
    CHECK_EQ(drive(), -EINVAL);
}

TEST(try_join_cancels_the_rest_at_the_first_error)
{
    make_leaves(4, (int[]){ 100, 2, 0, 100 }, (int64_t[]){ 1, -EIO, 5, 1 });
    leaves[0].after_cancel = 3;
    leaves[3].quiet = true;
    weft_combine_try_join(&combine, branches, 4);
    CHECK_EQ(drive(), -EIO);
    check_all_ready(4);
    CHECK_EQ(leaves[0].future.result, -ECANCELED);
    CHECK_EQ(leaves[0].cancels, 1);
    CHECK_EQ(leaves[0].after_cancel, 0); // polled to its end
    CHECK_EQ(leaves[1].cancels, 0);
    CHECK_EQ(leaves[3].future.result, -ECANCELED); // although it never woke
    make_leaves(3, (int[]){ 2, 0, 1 }, (int64_t[]){ 1, 2, 3 });
    weft_combine_try_join(&combine, branches, 3);
    CHECK_EQ(drive(), 0);
    check_all_ready(3);
}

TEST(race_gives_the_first_result_and_ends_the_losers)
{
    make_leaves(4, (int[]){ 100, 3, 1, 100 }, (int64_t[]){ 1, 2, 42, 3 });
    leaves[0].after_cancel = 2;
    leaves[3].stubborn = true; // takes its time
    weft_combine_race(&combine, branches, 4);
    CHECK_EQ(drive(), 42);
    check_all_ready(4);
    CHECK_EQ(leaves[3].future.result, 3);
    CHECK_EQ(leaves[1].future.result, -ECANCELED);
    make_leaves(2, (int[]){ 9, 1 }, (int64_t[]){ 1, -EIO });
    weft_combine_race(&combine, branches, 2);
    CHECK_EQ(drive(), -EIO); // an end is an end
}

TEST(select_tells_which_was_first)
{
    for (int first = 0; first < 4; first++) {
        int left[4] = { 5, 5, 5, 5 };
        left[first] = 2;
        make_leaves(4, left, (int64_t[]){ 10, 11, 12, 13 });
        weft_combine_select(&combine, branches, 4);
        CHECK_EQ(drive(), first);
        check_all_ready(4);
        CHECK_EQ(branches[first].future->result, 10 + first);
    }
}

TEST(a_cancelled_race_prefers_a_result_to_the_cancel)
{
    struct hand hand = { 0 };
    make_leaves(3, (int[]){ 9, 9, 9 }, (int64_t[]){ 1, 2, 3 });
    leaves[2].stubborn = true;
    weft_combine_race(&combine, branches, 3);
    CHECK_EQ(hand_poll(&hand, &combine.future), WEFT_PENDING);
    weft_future_cancel(&combine.future);
    CHECK_EQ(hand_drive(&hand, &combine.future), 3);
    check_all_ready(3);
}

TEST(a_cancel_before_the_first_poll_reaches_all)
{
    void (*const inits[])(struct weft_combine *, struct weft_branch *,
                          size_t) = { weft_combine_join, weft_combine_try_join, weft_combine_race,
                                      weft_combine_select };
    for (int i = 0; i < 4; i++) {
        make_leaves(3, (int[]){ 9, 9, 9 }, (int64_t[]){ 1, 2, 3 });
        leaves[1].after_cancel = 2;
        inits[i](&combine, branches, 3);
        weft_future_cancel(&combine.future);
        weft_future_cancel(&combine.future); // asked once
        CHECK_EQ(drive(), -ECANCELED);
        check_all_ready(3);
    }
}

/// Polls grow with wakes, not with the number of children times wakes.
TEST(only_those_that_were_woken_are_polled)
{
    enum { COUNT = 1000 };
    static struct script many[COUNT];
    static struct weft_branch sticks[COUNT];
    struct hand hand = { 0 };
    for (int i = 0; i < COUNT; i++) {
        script_init(&many[i], 1, i);
        many[i].quiet = true;
        sticks[i] = (struct weft_branch){ .future = &many[i].future };
    }
    weft_combine_join(&combine, sticks, COUNT);
    do {
        CHECK_EQ(hand_poll(&hand, &combine.future), WEFT_PENDING);
    } while (hand.woken > 0); // a poll does not poll all of them
    for (int i = COUNT - 1; i >= 0; i--) {
        CHECK_EQ(many[i].polls, 1);
        script_wake(&many[i]);
        CHECK_EQ(hand.woken, 1);
        CHECK_EQ(hand_poll(&hand, &combine.future), i > 0 ? WEFT_PENDING : WEFT_READY);
        CHECK_EQ(many[i].polls, 2);
    }
    CHECK_EQ(hand.clones, 0);
}

TEST(a_clone_that_is_left_keeps_the_combinator_pending)
{
    struct hand hand = { 0 };
    weft_waker left;
    make_leaves(2, (int[]){ 1, 1 }, (int64_t[]){ 1, 2 });
    leaves[0].quiet = leaves[1].quiet = true;
    weft_combine_race(&combine, branches, 2);
    CHECK_EQ(hand_poll(&hand, &combine.future), WEFT_PENDING);
    weft_waker_clone(&left, &leaves[0].kept);
    script_wake(&leaves[1]);
    CHECK_EQ(hand_poll(&hand, &combine.future), WEFT_PENDING); // all are READY, but for that clone
    check_all_ready(2);
    CHECK_EQ(hand.woken, 0);
    weft_waker_drop(&left);
    CHECK_EQ(hand.woken, 1);
    CHECK_EQ(hand_poll(&hand, &combine.future), WEFT_READY);
    CHECK_EQ(combine.future.result, 2);
    CHECK_EQ(hand.clones, 0);
}

TEST(another_waker_replaces_the_first)
{
    struct hand first = { 0 };
    struct hand second = { 0 };
    make_leaves(2, (int[]){ 1, 1 }, (int64_t[]){ 1, 2 });
    leaves[0].quiet = leaves[1].quiet = true;
    weft_combine_join(&combine, branches, 2);
    CHECK_EQ(hand_poll(&first, &combine.future), WEFT_PENDING);
    CHECK_EQ(hand_poll(&second, &combine.future), WEFT_PENDING);
    CHECK_EQ(first.clones, 0);
    script_wake(&leaves[0]);
    script_wake(&leaves[1]);
    CHECK_EQ(first.woken, 0);
    CHECK_EQ(second.woken, 1); // once for both
    CHECK_EQ(hand_poll(&second, &combine.future), WEFT_READY);
}

// A random tree of combinators, cancelled at every point.

enum { TREE_LEAVES = 27, TREE_NODES = 40 };

struct tree {
    struct script leaves[TREE_LEAVES];
    int leaf_count;
    struct weft_combine nodes[TREE_NODES];
    struct weft_branch branches[TREE_NODES * 3];
    struct weft_map maps[TREE_NODES];
    struct weft_and_then thens[TREE_NODES];
    struct weft_then_cancel cleanups[TREE_NODES];
    int node_count;
    uint64_t random;
};

static int64_t add_one(int64_t result, void *arg)
{
    (void)arg;
    return result >= 0 ? result + 1 : result;
}

static struct weft_future *grow(struct tree *tree, int depth);

static struct weft_future *give_second(int64_t result, void *arg)
{
    CHECK_GE(result, 0);
    return arg;
}

static struct weft_future *new_leaf(struct tree *tree)
{
    struct script *leaf = &tree->leaves[tree->leaf_count++];
    uint64_t draw = test_random(&tree->random);
    script_init(leaf, (int)(draw % 4), draw % 7 == 0 ? -EIO : (int64_t)(draw % 5));
    leaf->after_cancel = (int)((draw >> 8) % 3);
    leaf->keeps = draw >> 16 & 1;
    leaf->stubborn = (draw >> 17 & 7) == 0;
    return &leaf->future;
}

static struct weft_future *new_combine(struct tree *tree, int depth, uint64_t kind)
{
    void (*const inits[])(struct weft_combine *, struct weft_branch *,
                          size_t) = { weft_combine_join, weft_combine_try_join, weft_combine_race,
                                      weft_combine_select };
    int number = tree->node_count++;
    struct weft_branch *sticks = &tree->branches[(ptrdiff_t)number * 3];
    size_t count = 1 + test_random(&tree->random) % 3;
    for (size_t i = 0; i < count; i++) {
        sticks[i] = (struct weft_branch){ .future = grow(tree, depth - 1) };
    }
    inits[kind](&tree->nodes[number], sticks, count);
    return &tree->nodes[number].future;
}

static struct weft_future *grow(struct tree *tree, int depth)
{
    uint64_t kind = test_random(&tree->random) % 8;
    if (depth == 0 || kind == 7) {
        return new_leaf(tree);
    }
    if (kind < 4) {
        return new_combine(tree, depth, kind);
    }
    int number = tree->node_count++;
    struct weft_future *child = grow(tree, depth - 1);
    switch (kind) {
    case 4: weft_map_init(&tree->maps[number], child, add_one, NULL); break;
    case 5: {
        struct weft_future *second = new_leaf(tree);
        weft_and_then_init(&tree->thens[number], child, give_second, second);
        return &tree->thens[number].future;
    }
    default: {
        struct weft_future *cleanup = new_leaf(tree);
        weft_then_cancel_init(&tree->cleanups[number], child, cleanup);
        return &tree->cleanups[number].future;
    }
    }
    return &tree->maps[number].future;
}

/// Whether it was READY before it could be cancelled.
static bool cancel_tree_after(uint64_t seed, int polls)
{
    static struct tree tree;
    struct hand hand = { 0 };
    memset(&tree, 0, sizeof tree);
    tree.random = seed;
    struct weft_future *root = grow(&tree, 2);
    bool ready = false;
    for (int i = 0; i < polls && !ready; i++) {
        ready = hand_poll(&hand, root) == WEFT_READY;
        CHECK(ready || hand.woken > 0);
    }
    if (!ready) {
        weft_future_cancel(root);
        (void)hand_drive(&hand, root);
    }
    CHECK_EQ(hand.clones, 0);
    for (int i = 0; i < tree.leaf_count; i++) {
        struct script *leaf = &tree.leaves[i];
        weft_future_fini(&leaf->future); // begun means READY
        CHECK(leaf->polls == 0 || leaf->ready);
        CHECK_LE(leaf->polls, leaf->wakes + leaf->cancels + 1);
    }
    return ready;
}

TEST(nested_combinators_end_wherever_they_are_cancelled)
{
    uint64_t random = test_seed();
    for (uint64_t i = 0; i < test_scaled(2000); i++) {
        uint64_t seed = test_random(&random);
        for (int polls = 0; !cancel_tree_after(seed, polls); polls++) {
            CHECK_LT(polls, 500);
        }
    }
}

// The others.

static int64_t twice(int64_t result, void *arg)
{
    ++*(int *)arg;
    return 2 * result;
}

TEST(map_makes_another_result)
{
    struct weft_map map;
    struct hand hand = { 0 };
    int calls = 0;
    script_init(&leaves[0], 2, 21);
    weft_map_init(&map, &leaves[0].future, twice, &calls);
    CHECK_EQ(hand_drive(&hand, &map.future), 42);
    script_init(&leaves[0], 2, 21);
    weft_map_init(&map, &leaves[0].future, twice, &calls);
    CHECK_EQ(hand_poll(&hand, &map.future), WEFT_PENDING);
    weft_future_cancel(&map.future);
    CHECK_EQ(hand_drive(&hand, &map.future), 2 * -ECANCELED); // it sees every result
    CHECK_EQ(calls, 2);
}

static int64_t brought;

static struct weft_future *second_leaf(int64_t result, void *arg)
{
    brought = result;
    return arg;
}

TEST(and_then_goes_on_after_a_success)
{
    struct weft_and_then then;
    struct hand hand = { 0 };
    script_init(&leaves[0], 2, 5);
    script_init(&leaves[1], 1, 6);
    weft_and_then_init(&then, &leaves[0].future, second_leaf, &leaves[1].future);
    CHECK_EQ(hand_drive(&hand, &then.future), 6);
    CHECK_EQ(brought, 5);
    script_init(&leaves[0], 2, -EIO);
    script_init(&leaves[1], 1, 6);
    weft_and_then_init(&then, &leaves[0].future, second_leaf, &leaves[1].future);
    CHECK_EQ(hand_drive(&hand, &then.future), -EIO);
    CHECK_EQ(leaves[1].polls, 0);
    script_init(&leaves[0], 0, 9);
    weft_and_then_init(&then, &leaves[0].future, second_leaf, NULL);
    CHECK_EQ(hand_drive(&hand, &then.future), 9); // nothing comes after it
}

TEST(and_then_that_was_cancelled_takes_what_came_and_cancels_the_second)
{
    struct weft_and_then then;
    struct hand hand = { 0 };
    script_init(&leaves[0], 1, 77);
    leaves[0].stubborn = true;
    script_init(&leaves[1], 9, 6);
    weft_and_then_init(&then, &leaves[0].future, second_leaf, &leaves[1].future);
    CHECK_EQ(hand_poll(&hand, &then.future), WEFT_PENDING);
    weft_future_cancel(&then.future);
    CHECK_EQ(hand_drive(&hand, &then.future), -ECANCELED);
    CHECK_EQ(brought, 77);
    CHECK_EQ(leaves[1].cancels, 1);
    CHECK_EQ(leaves[1].polls, 1);
}

TEST(then_cancel_cleans_up_after_a_cancel_only)
{
    struct weft_then_cancel then;
    struct hand hand = { 0 };
    script_init(&leaves[0], 1, 5);
    script_init(&leaves[1], 1, 6);
    weft_then_cancel_init(&then, &leaves[0].future, &leaves[1].future);
    CHECK_EQ(hand_drive(&hand, &then.future), 5);
    CHECK_EQ(leaves[1].polls, 0);
    script_init(&leaves[0], 9, 5);
    script_init(&leaves[1], 3, 6);
    weft_then_cancel_init(&then, &leaves[0].future, &leaves[1].future);
    CHECK_EQ(hand_poll(&hand, &then.future), WEFT_PENDING);
    weft_future_cancel(&then.future);
    CHECK_EQ(hand_drive(&hand, &then.future), -ECANCELED);
    CHECK(leaves[1].ready);
    CHECK_EQ(leaves[1].cancels, 0);
    CHECK_EQ(leaves[1].future.result, 6);
}

// With real tasks and real time.

TEST_EVERYWHERE(timeout_ends_what_is_late)
{
    struct weft_timeout timeout;
    struct weft_sleep sleep;
    weft_time start = weft_now();
    weft_sleep_init(&sleep, weft_after(3600 * WEFT_S));
    weft_timeout_init(&timeout, &sleep.future, weft_after(2 * WEFT_MS));
    CHECK_EQ(weft_await(&timeout.future, WEFT_FOREVER), -ETIMEDOUT);
    CHECK_GE(weft_now(), start + 2 * WEFT_MS);
    CHECK_EQ(sleep.future.result, -ECANCELED);

    weft_sleep_init(&sleep, weft_after(WEFT_MS));
    weft_timeout_init(&timeout, &sleep.future, weft_after(3600 * WEFT_S));
    CHECK_EQ(weft_await(&timeout.future, WEFT_FOREVER), 0);

    weft_sleep_init(&sleep, weft_after(WEFT_MS));
    weft_timeout_init(&timeout, &sleep.future, WEFT_FOREVER);
    CHECK_EQ(weft_await(&timeout.future, WEFT_FOREVER), 0);

    weft_sleep_init(&sleep, 0); // ready at once: not even a past deadline matters
    weft_timeout_init(&timeout, &sleep.future, 1);
    CHECK_EQ(weft_await(&timeout.future, WEFT_FOREVER), 0);

    weft_sleep_init(&sleep, weft_after(3600 * WEFT_S));
    weft_timeout_init(&timeout, &sleep.future, weft_after(3600 * WEFT_S));
    CHECK_EQ(weft_await(&timeout.future, weft_after(WEFT_MS)), -ETIMEDOUT); // the await's own
    CHECK_EQ(timeout.future.result, -ECANCELED);
}

TEST_EVERYWHERE(a_result_that_came_in_spite_of_the_timeout_wins)
{
    struct weft_timeout timeout;
    struct script script;
    script_init(&script, 500, 42);
    script.stubborn = true;
    weft_timeout_init(&timeout, &script.future, 1);
    CHECK_EQ(weft_await(&timeout.future, WEFT_FOREVER), 42);
    CHECK_EQ(script.cancels, 1);
}

TEST_EVERYWHERE(sleeps_race_on_every_carrier)
{
    enum { RACES = 20, RUNNERS = 5 };
    static struct weft_sleep sleeps[RACES][RUNNERS];
    static struct weft_branch sticks[RACES][RUNNERS];
    static struct weft_combine races[RACES];
    weft_task *tasks[RACES];
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    for (int i = 0; i < RACES; i++) {
        for (int k = 0; k < RUNNERS; k++) {
            bool first = k == i % RUNNERS;
            weft_sleep_init(&sleeps[i][k], weft_after(first ? WEFT_MS : 3600 * WEFT_S));
            sticks[i][k] = (struct weft_branch){ .future = &sleeps[i][k].future };
        }
        weft_combine_select(&races[i], sticks[i], RUNNERS);
        CHECK_OK(weft_spawn_future(&tasks[i], &races[i].future, &attr));
    }
    for (int i = 0; i < RACES; i++) {
        int result;
        CHECK_OK(weft_join(&result, tasks[i], WEFT_FOREVER));
        CHECK_EQ(result, i % RUNNERS);
        for (int k = 0; k < RUNNERS; k++) {
            CHECK_EQ(sleeps[i][k].future.result, k == i % RUNNERS ? 0 : -ECANCELED);
        }
    }
}

/// Cancelled from another carrier, at a random moment.
TEST_EVERYWHERE(a_spawned_combinator_ends_when_it_is_cancelled)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    uint64_t random = test_seed();
    attr.place = WEFT_PLACE_SPREAD;
    for (int round = 0; round < 50; round++) {
        struct weft_sleep sleeps[4];
        struct weft_branch sticks[4];
        struct weft_combine all;
        weft_task *task;
        int result;
        for (int i = 0; i < 4; i++) {
            weft_sleep_init(&sleeps[i], weft_after(test_random(&random) % (300 * WEFT_US)));
            sticks[i] = (struct weft_branch){ .future = &sleeps[i].future };
        }
        weft_combine_join(&all, sticks, 4);
        CHECK_OK(weft_spawn_future(&task, &all.future, &attr));
        CHECK_OK(weft_sleep(test_random(&random) % (300 * WEFT_US)));
        weft_task_cancel(task);
        CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
        CHECK(result == 0 || result == -ECANCELED);
        for (int i = 0; i < 4; i++) {
            weft_future_fini(&sleeps[i].future);
        }
    }
}

TEST_EVERYWHERE(combinators_wait_for_semaphores_and_sleeps)
{
    struct weft_semaphore semaphore;
    struct weft_sync_future permits;
    struct weft_sleep sleep;
    struct weft_branch sticks[2] = { { .future = &permits.future }, { .future = &sleep.future } };
    struct weft_combine race;
    CHECK_OK(weft_semaphore_init(&semaphore, 1));
    for (int round = 0; round < 2; round++) {
        weft_semaphore_acquire_future(&permits, &semaphore, 1);
        weft_sleep_init(&sleep, weft_after(WEFT_MS));
        weft_combine_select(&race, sticks, 2);
        CHECK_EQ(weft_await(&race.future, WEFT_FOREVER), round); // the second time there is none
    }
    CHECK_EQ(permits.future.result, -ECANCELED);
    CHECK_OK(weft_semaphore_release(&semaphore, 1));
    CHECK_OK(weft_semaphore_fini(&semaphore));
}

// Woken by foreign threads.

enum { FOREIGNERS = 4, ROUNDS = 200 };

static struct weft_semaphore gates[FOREIGNERS];

static void *open_gate(void *gate)
{
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_OK(weft_semaphore_release(gate, 1));
    }
    return NULL;
}

static void foreigners_open_the_gates(void)
{
    pthread_t threads[FOREIGNERS];
    struct weft_sync_future waits[FOREIGNERS];
    struct weft_branch sticks[FOREIGNERS];
    struct weft_combine all;
    for (int i = 0; i < FOREIGNERS; i++) {
        CHECK_OK(weft_semaphore_init(&gates[i], 0));
        sticks[i] = (struct weft_branch){ .future = &waits[i].future };
        threads[i] = foreign_begin(open_gate, &gates[i]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < FOREIGNERS; i++) {
            weft_semaphore_acquire_future(&waits[i], &gates[i], 1);
        }
        weft_combine_join(&all, sticks, FOREIGNERS);
        CHECK_EQ(weft_await(&all.future, WEFT_FOREVER), 0);
    }
    for (int i = 0; i < FOREIGNERS; i++) {
        foreign_end(threads[i]);
        CHECK_EQ(weft_semaphore_available(&gates[i]), 0u);
    }
}

static int run_foreigners(void *arg)
{
    (void)arg;
    foreigners_open_the_gates();
    return 0;
}

TEST_DRIVERS(foreign_threads_wake_children)
{
    CHECK_OK(weft_run(run_foreigners, NULL, NULL));
}

// What is wrong dies with a message.

static void check_dies(void (*wrong)(void), const char *message)
{
    int ends[2];
    char text[512] = { 0 };
    CHECK_OK(pipe(ends));
    pid_t child = fork();
    CHECK_OK(child);
    if (child == 0) {
        (void)signal(SIGABRT, SIG_DFL);
        (void)dup2(ends[1], STDERR_FILENO);
        wrong();
        _exit(0);
    }
    int status;
    (void)close(ends[1]);
    size_t length = 0;
    ssize_t n;
    while (length < sizeof text - 1 &&
           (n = read(ends[0], text + length, sizeof text - 1 - length)) > 0) {
        length += (size_t)n;
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status));
    CHECK_EQ(WTERMSIG(status), SIGABRT);
    CHECK(strstr(text, message) != NULL);
}

static void free_pending(void)
{
    struct hand hand = { 0 };
    make_leaves(2, (int[]){ 1, 0 }, (int64_t[]){ 0, 0 });
    leaves[0].quiet = true;
    weft_combine_join(&combine, branches, 2);
    CHECK_EQ(hand_poll(&hand, &combine.future), WEFT_PENDING);
    weft_future_fini(&leaves[1].future);
    weft_future_fini(&combine.future);
}

static void poll_ready(void)
{
    struct hand hand = { 0 };
    script_init(&leaves[0], 0, 1);
    CHECK_EQ(hand_poll(&hand, &leaves[0].future), WEFT_READY);
    (void)hand_poll(&hand, &leaves[0].future);
}

TEST(freeing_a_pending_future_is_an_assertion)
{
    check_dies(free_pending, "pending future");
}

TEST(polling_a_ready_future_is_an_assertion)
{
    check_dies(poll_ready, "READY");
}
