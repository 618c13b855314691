// once_test.c - once and once-cell. What they share with others is in sync_test.c.
#include "support/test.h"

#include "support/waiting.h"

#include <errno.h>
#include <stdatomic.h>
#include <weft.h>

struct init {
    struct weft_once once;
    _Atomic int calls;
    int fail_first; // so many calls fail
    int value;      // plain: the once makes it visible
};

static int initialise(void *arg)
{
    struct init *init = arg;
    int call = atomic_fetch_add(&init->calls, 1);
    if (weft_self() != NULL && weft_sleep(100 * WEFT_US) < 0) { // it may block
        return -ECANCELED;
    }
    if (call < init->fail_first) {
        return -EIO;
    }
    init->value = 42;
    return 7;
}

TEST(a_function_is_called_once)
{
    struct init init = { .once = WEFT_ONCE_INIT, .fail_first = 1 };
    CHECK_EQ(weft_once_call(&init.once, initialise, &init, 1), -EIO);
    CHECK(!weft_once_is_done(&init.once));
    CHECK_EQ(weft_once_call(&init.once, initialise, &init, 1), 7); // what it returned
    CHECK(weft_once_is_done(&init.once));
    CHECK_EQ(weft_once_call(&init.once, initialise, &init, 1), 0);
    CHECK_EQ(atomic_load(&init.calls), 2);
    CHECK_EQ(weft_once_fini(&init.once), 0);
}

static int call_once(void *arg)
{
    struct init *init = arg;
    int rc = weft_once_call(&init->once, initialise, init, WEFT_FOREVER);
    if (rc >= 0) {
        CHECK_EQ(init->value, 42);
    }
    return rc < 0 ? rc : 0;
}

static void *call_once_outside(void *arg)
{
    call_once(arg);
    return NULL;
}

TEST_EVERYWHERE(one_initialises_and_the_others_wait)
{
    enum { COUNT = 12 };
    static struct init init;
    weft_task *tasks[COUNT];
    pthread_t thread = 0;
    int failures = 0;
    bool foreign = test_driver() != TEST_DRIVER_SIM;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    init.fail_first = 3;
    for (int i = 0; i < COUNT; i++) {
        CHECK_OK(weft_spawn(&tasks[i], call_once, &init, &attr));
    }
    if (foreign) {
        thread = foreign_begin(call_once_outside, &init);
    }
    for (int i = 0; i < COUNT; i++) {
        int rc;
        CHECK_OK(weft_join(&rc, tasks[i], WEFT_FOREVER));
        CHECK(rc == 0 || rc == -EIO);
        failures += rc < 0;
    }
    if (foreign) {
        foreign_end(thread);
    }
    CHECK_LE(failures, 3); // each failure is one caller's
    CHECK_GE(failures, 2);
    CHECK_EQ(atomic_load(&init.calls), 4);
    CHECK_EQ(weft_once_fini(&init.once), 0);
}

/// The initialiser is cancelled; the next one who waits does it.
TEST_EVERYWHERE(a_cancelled_initialiser_is_replaced)
{
    static struct init init;
    weft_task *first;
    weft_task *second;
    int rc;
    CHECK_OK(weft_spawn(&first, call_once, &init, NULL));
    let_others_run();
    CHECK_EQ(atomic_load(&init.calls), 1);
    if (!test_is_emulated()) { // there it may be done by now
        CHECK_EQ(weft_once_fini(&init.once), -EBUSY);
    }
    CHECK_OK(weft_spawn(&second, call_once, &init, NULL));
    let_others_run();
    weft_task_cancel(first);
    CHECK_OK(weft_join(&rc, first, WEFT_FOREVER));
    CHECK(rc == -ECANCELED || rc == 0); // or it was done before
    CHECK_OK(weft_join(&rc, second, WEFT_FOREVER));
    CHECK_EQ(rc, 0);
    CHECK_EQ(init.value, 42);
}

TEST_EVERYWHERE(a_cancelled_caller_still_learns_that_it_is_done)
{
    struct weft_once once = WEFT_ONCE_INIT;
    struct weft_scope scope;
    CHECK_EQ(weft_once_begin(&once, WEFT_FOREVER), 1);
    weft_once_end(&once, 0);
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_cancel(&scope);
    CHECK_EQ(weft_once_begin(&once, WEFT_FOREVER), 0);
    CHECK_EQ(weft_scope_join(&scope), -ECANCELED);
}

TEST_EVERYWHERE(success_lets_all_futures_go)
{
    enum { COUNT = 5 };
    struct weft_once once = WEFT_ONCE_INIT;
    struct weft_sync_future futures[COUNT];
    CHECK_EQ(weft_once_begin(&once, WEFT_FOREVER), 1);
    for (int i = 0; i < COUNT; i++) {
        weft_once_begin_future(&futures[i], &once);
        CHECK_EQ(poll_once(&futures[i].future), WEFT_PENDING);
    }
    weft_once_end(&once, -EIO); // the first is to do it now
    CHECK_EQ(poll_to_the_end(&futures[0].future), 1);
    CHECK_EQ(poll_once(&futures[1].future), WEFT_PENDING);
    weft_once_end(&once, 0);
    for (int i = 1; i < COUNT; i++) {
        CHECK_EQ(poll_to_the_end(&futures[i].future), 0);
    }
    CHECK_EQ(weft_once_fini(&once), 0);
}

TEST(a_cell_is_filled_once)
{
    struct weft_once_cell cell = WEFT_ONCE_CELL_INIT;
    struct weft_sync_future f;
    int a;
    int b;
    void *value = &a;
    CHECK(!weft_once_cell_get(&value, &cell));
    CHECK(value == NULL);
    weft_once_cell_begin_future(&f, &cell);
    CHECK_EQ(f.future.poll(&f.future, NULL), WEFT_READY);
    CHECK_EQ(f.future.result, 1);
    CHECK_EQ(weft_once_cell_set(&cell, &a), -EAGAIN); // somebody is making one
    CHECK_EQ(weft_once_cell_fini(&cell), -EBUSY);
    weft_once_cell_end(&cell, &b, -EIO);
    CHECK(!weft_once_cell_get(&value, &cell));
    CHECK_EQ(weft_once_cell_set(&cell, &a), 0);
    CHECK_EQ(weft_once_cell_set(&cell, &b), -EEXIST);
    CHECK(weft_once_cell_get(&value, &cell));
    CHECK(value == &a);
    CHECK_EQ(weft_once_cell_fini(&cell), 0);
    weft_once_cell_init(&cell);
    CHECK_EQ(weft_once_cell_set(&cell, NULL), 0); // NULL is a value, too
    CHECK(weft_once_cell_get(&value, &cell));
}

static int make_value(void **value, void *arg)
{
    int *calls = arg;
    CHECK_OK(weft_sleep(100 * WEFT_US));
    *value = calls;
    return ++*calls == 1 ? -ENOMEM : 0; // the first one fails
}

struct getter {
    struct weft_once_cell *cell;
    int *calls; // plain: the cell makes it safe
};

static int get_or_make(void *arg)
{
    struct getter *g = arg;
    void *value = g;
    int rc = weft_once_cell_get_or_init(&value, g->cell, make_value, g->calls, WEFT_FOREVER);
    CHECK(value == (rc == 0 ? g->calls : NULL));
    return rc;
}

TEST_EVERYWHERE(a_value_is_made_once)
{
    enum { COUNT = 8 };
    static struct weft_once_cell cell;
    static int calls;
    struct getter getter = { &cell, &calls };
    weft_task *tasks[COUNT];
    int failures = 0;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    for (int i = 0; i < COUNT; i++) {
        CHECK_OK(weft_spawn(&tasks[i], get_or_make, &getter, &attr));
    }
    for (int i = 0; i < COUNT; i++) {
        int rc;
        CHECK_OK(weft_join(&rc, tasks[i], WEFT_FOREVER));
        CHECK(rc == 0 || rc == -ENOMEM);
        failures += rc < 0;
    }
    CHECK_EQ(failures, 1);
    CHECK_EQ(calls, 2);
    CHECK_EQ(weft_once_cell_fini(&cell), 0);
}
