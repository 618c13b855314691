// scope_walk_test.c - a cancel walks the children of a scope while they leave (task/scope.c, S6).
//
// The tasks here are blocks that never run. Waking one calls its scheduler, which is ours: from
// there other children leave, exactly while the walk is under way.
#include "support/test.h"

#include <errno.h>
#include <stdint.h>

#include "task/scope.h"
#include "task/word.h"

enum { CHILDREN = 8 };

static struct weft__task owner;
static struct weft__task children[CHILDREN];
static struct weft__scope root;
static struct weft__scope scope;
static bool told[CHILDREN];
static bool gone[CHILDREN];
static int leaves_when_told[CHILDREN]; // which child leaves when this one is told; -1: none

static void leave(int i)
{
    if (!gone[i]) {
        gone[i] = true;
        weft__scope_leave(&scope, &children[i]);
        children[i].sibling_next = (struct weft__task *)(uintptr_t)0xeeeeeeeeeeeeeeee;
    }
}

static void on_continue(struct weft_scheduler *self, struct weft__task *task)
{
    (void)self;
    if (task == &owner) {
        return;
    }
    int i = (int)(task - children);
    CHECK(!told[i]);
    told[i] = true;
    if (leaves_when_told[i] >= 0) {
        leave(leaves_when_told[i]);
    }
}

static const struct weft_scheduler_ops ops = { .on_start = on_continue,
                                               .on_continue = on_continue };
static struct weft_scheduler sched = { .ops = &ops };

/// The list is newest first: the walk goes from child 7 down to child 0.
static void open_scope(void)
{
    owner.scope = &root;
    owner.sched = &sched;
    weft__word_init(&owner, 1, 0);
    weft__scope_open(&scope, &owner, WEFT_SCOPE_ALL, WEFT_FOREVER);
    for (int i = 0; i < CHILDREN; i++) {
        children[i].sched = &sched;
        CHECK_EQ(weft__scope_enter(&scope, &children[i]), 0);
        weft__word_init(&children[i], 1, 0);
        CHECK(weft__word_park(&children[i]));
        leaves_when_told[i] = -1;
    }
}

static void check_all_told(void)
{
    for (int i = 0; i < CHILDREN; i++) {
        CHECK(told[i] || gone[i]);
        CHECK_EQ((weft__word_peek(&children[i]) & WEFT__WORD_LOOK) != 0, told[i]);
        leave(i);
    }
    CHECK(scope.children == NULL && scope.cursor == NULL);
    CHECK_EQ(scope.live, 0u);
}

TEST(everyone_is_told_once)
{
    open_scope();
    weft__scope_cancel(&scope, -EIO);
    for (int i = 0; i < CHILDREN; i++) {
        CHECK(told[i]);
    }
    CHECK((weft__word_peek(&owner) & WEFT__WORD_LOOK) != 0);
    weft__scope_cancel(&scope, -ECANCELED); // too late: nobody is told again
    CHECK_EQ(atomic_load(&scope.cause), -EIO);
    check_all_told();
}

TEST(the_walk_goes_on_when_the_next_child_leaves)
{
    open_scope();
    for (int i = CHILDREN - 1; i > 0; i -= 2) {
        leaves_when_told[i] = i - 1; // the one that the cursor stands at
    }
    weft__scope_cancel(&scope, -ECANCELED);
    for (int i = 0; i < CHILDREN; i++) {
        CHECK_EQ(told[i], i % 2 != 0);
        CHECK_EQ(gone[i], i % 2 == 0);
    }
    check_all_told();
}

TEST(the_walk_goes_on_when_anyone_leaves)
{
    uint64_t random = test_seed();
    open_scope();
    for (int i = 0; i < CHILDREN; i++) {
        leaves_when_told[i] = (int)(test_random(&random) % (CHILDREN + 1)) - 1;
    }
    weft__scope_cancel(&scope, -ECANCELED);
    check_all_told();
}

TEST(a_cancelled_scope_takes_no_more_children)
{
    open_scope();
    struct weft__task late = { .sched = &sched };
    weft__scope_cancel(&scope, -ECANCELED);
    CHECK_EQ(weft__scope_enter(&scope, &late), -ECANCELED);
    CHECK_EQ(scope.live, CHILDREN);
    check_all_told();
}
