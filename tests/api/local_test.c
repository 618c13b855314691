// local_test.c - task-local values: their life, their end, and what children inherit.
#include "support/test.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <weft.h>

static const struct weft_local plain = { "plain", NULL, NULL };
static const struct weft_local other = { NULL, NULL, NULL };

static char end_log[64];
static size_t end_used;

static void log_end(void *value)
{
    CHECK(value != NULL);
    CHECK(weft_self() != NULL);
    end_log[end_used++] = *(char *)value;
}

static const struct weft_local logged[3] = {
    { "first", log_end, NULL },
    { "second", log_end, NULL },
    { "third", log_end, NULL },
};

static void run(weft_fn fn, void *arg, const struct weft_attr *attr)
{
    weft_task *task;
    CHECK_OK(weft_spawn(&task, fn, arg, attr));
    CHECK_EQ(weft_join(NULL, task, WEFT_FOREVER), 0);
}

static int keep_values(void *arg)
{
    int mine;
    CHECK(weft_local_get(&plain) == NULL);
    CHECK_EQ(weft_local_set(&plain, &mine), 0);
    CHECK_EQ(weft_local_set(&other, arg), 0);
    for (int i = 0; i < 10; i++) {
        CHECK_OK(weft_yield());
        CHECK_EQ(weft_local_get(&plain), (void *)&mine);
        CHECK_EQ(weft_local_get(&other), arg);
    }
    CHECK_EQ(weft_local_set(&plain, arg), 0); // replaces
    CHECK_EQ(weft_local_get(&plain), arg);
    CHECK_EQ(weft_local_set(&plain, NULL), 0); // removes
    CHECK(weft_local_get(&plain) == NULL);
    CHECK_EQ(weft_local_set(&plain, NULL), 0);
    CHECK_EQ(weft_local_get(&other), arg);
    return 0;
}

TEST_EVERYWHERE(values_belong_to_their_task)
{
    weft_task *tasks[10];
    int numbers[10];
    for (int i = 0; i < 10; i++) {
        CHECK_OK(weft_spawn(&tasks[i], keep_values, &numbers[i], NULL));
    }
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_join(NULL, tasks[i], WEFT_FOREVER), 0);
    }
}

TEST(there_are_no_values_outside_a_task)
{
    int value;
    CHECK(weft_local_get(&plain) == NULL);
    CHECK_EQ(weft_local_set(&plain, &value), -EPERM);
}

static char letters[] = "abcdef";

static int leave_three(void *arg)
{
    (void)arg;
    CHECK_OK(weft_local_set(&logged[0], &letters[0]));
    CHECK_OK(weft_local_set(&logged[1], &letters[1]));
    CHECK_OK(weft_local_set(&logged[2], &letters[2]));
    CHECK_OK(weft_local_set(&logged[2], &letters[3])); // the replaced one is not destroyed
    CHECK_OK(weft_local_set(&logged[1], NULL));        // nor is the removed one
    return 0;
}

TEST_EVERYWHERE(values_are_destroyed_when_the_task_ends_the_newest_first)
{
    run(leave_three, NULL, NULL);
    CHECK_STR(end_log, "da");
}

static int lives;

static void set_again(void *value);
static const struct weft_local stubborn = { "stubborn", set_again, NULL };

static void set_again(void *value)
{
    if (--lives > 0) {
        CHECK_OK(weft_local_set(&stubborn, value));
    }
}

static int leave_stubborn(void *arg)
{
    CHECK_OK(weft_local_set(&stubborn, arg));
    return 0;
}

TEST_EVERYWHERE(a_destroy_function_may_set_values)
{
    lives = 4;
    run(leave_stubborn, letters, NULL);
    CHECK_EQ(lives, 0);
}

static atomic_int copies;
static atomic_int ends;

static void *copy(void *value)
{
    int *clone = malloc(sizeof *clone);
    CHECK(clone != NULL);
    *clone = *(int *)value + 1;
    atomic_fetch_add(&copies, 1);
    return clone;
}

static void end_copy(void *value)
{
    CHECK(value != NULL);
    free(value);
    atomic_fetch_add(&ends, 1);
}

static void *refuse(void *value)
{
    (void)value;
    return NULL;
}

static const struct weft_local heritable = { "heritable", end_copy, copy };
static const struct weft_local refused = { "refused", end_copy, refuse };

static int check_heirs(void *arg)
{
    int generation = *(int *)arg;
    int *value = weft_local_get(&heritable);
    CHECK(weft_local_get(&plain) == NULL); // has no inherit function
    CHECK(weft_local_get(&refused) == NULL);
    if (generation < 0) {
        CHECK(value == NULL);
        return 0;
    }
    CHECK(value != NULL);
    CHECK_EQ(*value, generation);
    if (generation < 3) {
        struct weft_attr attr = WEFT_ATTR_INIT;
        int next = generation + 1;
        attr.inherit = true;
        run(check_heirs, &next, &attr);
    }
    return 0;
}

static int leave_heirs(void *arg)
{
    (void)arg;
    struct weft_attr attr = WEFT_ATTR_INIT;
    struct weft_scope scope;
    int none = -1;
    int first = 1;
    int *value = malloc(sizeof *value);
    CHECK(value != NULL);
    *value = 0;
    CHECK_OK(weft_local_set(&heritable, value));
    CHECK_OK(weft_local_set(&plain, letters));
    int *unwanted = malloc(sizeof *unwanted);
    CHECK(unwanted != NULL);
    CHECK_OK(weft_local_set(&refused, unwanted));
    run(check_heirs, &none, NULL);
    run(check_heirs, &none, &attr);
    attr.inherit = true;
    run(check_heirs, &first, &attr);
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_set_attr(&scope, &attr);
    CHECK_OK(weft_scope_spawn(&scope, check_heirs, &first));
    CHECK_EQ(weft_scope_join(&scope), 0);
    CHECK_EQ(*(int *)weft_local_get(&heritable), 0);
    return 0;
}

TEST_EVERYWHERE(children_inherit_copies_when_asked_to)
{
    run(leave_heirs, NULL, NULL);
    CHECK_EQ(atomic_load(&copies), 6); // two chains of three generations
    CHECK_EQ(atomic_load(&ends), 8);   // those, the original, and the one that nobody inherited
}

static int spawn_and_fail(void *arg)
{
    (void)arg;
    struct weft_attr attr = WEFT_ATTR_INIT;
    struct weft_scope scope;
    int *value = malloc(sizeof *value);
    CHECK(value != NULL);
    *value = 0;
    CHECK_OK(weft_local_set(&heritable, value));
    attr.inherit = true;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_set_attr(&scope, &attr);
    weft_scope_cancel(&scope);
    CHECK_EQ(weft_scope_spawn(&scope, check_heirs, NULL), -ECANCELED);
    CHECK_EQ(weft_scope_join(&scope), -ECANCELED);
    CHECK_EQ(atomic_load(&copies), atomic_load(&ends));
    return 0;
}

TEST_EVERYWHERE(a_spawn_that_fails_destroys_what_was_copied_for_it)
{
    run(spawn_and_fail, NULL, NULL);
    CHECK_EQ(atomic_load(&copies), atomic_load(&ends) - 1);
}

struct remembering {
    struct weft_future future;
    int polls;
};

static enum weft_poll remember(struct weft_future *future, weft_waker *waker)
{
    struct remembering *remembering = (struct remembering *)future;
    if (remembering->polls++ == 0) {
        CHECK(weft_local_get(&logged[0]) == NULL);
        CHECK_OK(weft_local_set(&logged[0], &letters[4]));
        weft_waker_wake_by_ref(waker);
        return WEFT_PENDING;
    }
    CHECK_EQ(weft_local_get(&logged[0]), (void *)&letters[4]);
    return WEFT_READY;
}

TEST_EVERYWHERE(futures_have_values_too)
{
    struct remembering remembering = { .polls = 0 };
    weft_task *task;
    weft_future_init(&remembering.future, remember, NULL);
    CHECK_OK(weft_spawn_future(&task, &remembering.future, NULL));
    CHECK_EQ(weft_join(NULL, task, WEFT_FOREVER), 0);
    CHECK_STR(end_log, "e");
}
