// token_test.c - the tree of cancellation tokens. What they share with others is in sync_test.c.
#include "support/test.h"

#include "support/waiting.h"

#include <errno.h>
#include <stdatomic.h>
#include <weft.h>

TEST(cancelling_reaches_everything_below_and_nothing_else)
{
    //        root
    //       /    \            .
    //      a      b
    //     / \      \          .
    //    c   d      e
    struct weft_token root = WEFT_TOKEN_INIT;
    struct weft_token a, b, c, d, e; // NOLINT: a tree
    weft_token_init(&a, &root);
    weft_token_init(&b, &root);
    weft_token_init(&c, &a);
    weft_token_init(&d, &a);
    weft_token_init(&e, &b);
    CHECK_EQ(weft_token_fini(&a), -EBUSY); // has children
    weft_token_cancel(&c);
    CHECK(weft_token_is_cancelled(&c));
    CHECK(!weft_token_is_cancelled(&a));
    CHECK(!weft_token_is_cancelled(&d));
    weft_token_cancel(&a);
    CHECK(weft_token_is_cancelled(&a));
    CHECK(weft_token_is_cancelled(&d));
    CHECK(!weft_token_is_cancelled(&root));
    CHECK(!weft_token_is_cancelled(&b));
    CHECK(!weft_token_is_cancelled(&e));
    weft_token_cancel(&root);
    weft_token_cancel(&root);
    CHECK(weft_token_is_cancelled(&b));
    CHECK(weft_token_is_cancelled(&e));
    CHECK_EQ(weft_token_wait(&e, 1), 0);
    CHECK_EQ(weft_token_fini(&c), 0);
    weft_token_init(&c, &e); // cancelled from the start
    CHECK(weft_token_is_cancelled(&c));
    CHECK_EQ(weft_token_fini(&c), 0);
    CHECK_EQ(weft_token_fini(&d), 0);
    CHECK_EQ(weft_token_fini(&a), 0);
    CHECK_EQ(weft_token_fini(&e), 0);
    CHECK_EQ(weft_token_fini(&b), 0);
    CHECK_EQ(weft_token_fini(&root), 0);
}

TEST(a_deep_tree_is_cancelled_without_recursion)
{
    enum { DEPTH = 100000 };
    static struct weft_token tokens[DEPTH];
    for (int i = 0; i < DEPTH; i++) {
        weft_token_init(&tokens[i], i > 0 ? &tokens[i - 1] : NULL);
    }
    weft_token_cancel(&tokens[1]);
    CHECK(!weft_token_is_cancelled(&tokens[0]));
    CHECK(weft_token_is_cancelled(&tokens[DEPTH - 1]));
    for (int i = DEPTH - 1; i >= 0; i--) {
        CHECK_EQ(weft_token_fini(&tokens[i]), 0);
    }
}

struct watcher {
    struct weft_token *parent;
    int value; // plain: the token makes it visible
    int *shown;
};

/// Each has a token of its own below the one that is cancelled.
static int watch(void *arg)
{
    struct watcher *w = arg;
    struct weft_token mine;
    weft_token_init(&mine, w->parent);
    CHECK_EQ(weft_token_wait(&mine, WEFT_FOREVER), 0);
    w->value = *w->shown;
    CHECK_EQ(weft_token_fini(&mine), 0);
    return 0;
}

static void *watch_outside(void *arg)
{
    watch(arg);
    return NULL;
}

TEST_EVERYWHERE(everybody_who_waits_below_is_woken)
{
    enum { COUNT = 20 };
    static struct weft_token root;
    static int shown;
    struct watcher watchers[COUNT + 1];
    weft_task *tasks[COUNT];
    pthread_t thread = 0;
    bool foreign = test_driver() != TEST_DRIVER_SIM;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    for (int i = 0; i <= COUNT; i++) {
        watchers[i] = (struct watcher){ .parent = &root, .shown = &shown };
    }
    for (int i = 0; i < COUNT; i++) {
        CHECK_OK(weft_spawn(&tasks[i], watch, &watchers[i], &attr));
    }
    if (foreign) {
        thread = foreign_begin(watch_outside, &watchers[COUNT]);
    }
    let_others_run();
    shown = 42;
    weft_token_cancel(&root);
    for (int i = 0; i < COUNT; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
        CHECK_EQ(watchers[i].value, 42);
    }
    if (foreign) {
        foreign_end(thread);
    }
    CHECK_EQ(weft_token_fini(&root), 0);
}

/// Children come and go while the root is cancelled.
static int come_and_go(void *arg)
{
    struct weft_token *root = arg;
    bool cancelled = false;
    while (!cancelled) {
        struct weft_token child;
        struct weft_token grandchild;
        weft_token_init(&child, root);
        weft_token_init(&grandchild, &child);
        if (weft_token_is_cancelled(&child)) {
            CHECK(weft_token_is_cancelled(&grandchild));
        }
        cancelled = weft_token_wait(&grandchild, weft_after(20 * WEFT_US)) == 0;
        CHECK_EQ(weft_token_fini(&grandchild), 0);
        CHECK_EQ(weft_token_fini(&child), 0);
    }
    CHECK(weft_token_is_cancelled(root));
    return 0;
}

TEST_EVERYWHERE(tokens_end_while_their_tree_is_cancelled)
{
    enum { COUNT = 6 };
    for (int round = 0; round < 10; round++) {
        struct weft_token root = WEFT_TOKEN_INIT;
        weft_task *tasks[COUNT];
        struct weft_attr attr = WEFT_ATTR_INIT;
        attr.place = WEFT_PLACE_SPREAD;
        for (int i = 0; i < COUNT; i++) {
            CHECK_OK(weft_spawn(&tasks[i], come_and_go, &root, &attr));
        }
        CHECK_OK(weft_sleep(500 * WEFT_US));
        weft_token_cancel(&root);
        for (int i = 0; i < COUNT; i++) {
            CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
        }
        CHECK_EQ(weft_token_fini(&root), 0);
    }
}
