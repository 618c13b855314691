// once_model.c - one makes it, the others wait for it (sync/once.c, O1 and O2).
//
// What is made is plain, so everybody who hears that it is done has to see it. Whoever is forgotten
// sleeps for ever. It is made once, and again only after a failure.
//
// Sources: sync/once.c sync/waiter.c task/wait.c task/run.c
// Headers: sync/queue.h base/lock.h
// With: stage.c stage_actor.c stage_lock.c stage_sync.c
// Flags: -DWEFT_TINY=1
#include <errno.h>

#include <weft/once.h>

#include "mc.h"
#include "stage_sync.h"

static struct weft_once once;
static struct weft_once_cell cell;
static struct stage_wakeup wakeup;
static int made;         // plain: what is made once
static _Atomic int left; // so many that make it fail
static int in_cell;

static int make(void *unused)
{
    (void)unused;
    made++;
    int failures = atomic_load_explicit(&left, memory_order_relaxed);
    if (failures > 0) {
        atomic_store_explicit(&left, failures - 1, memory_order_relaxed);
        return -EIO;
    }
    return 0;
}

static void call(void *unused)
{
    (void)unused;
    int rc = weft_once_call(&once, make, NULL, WEFT_FOREVER);
    mc_assert(rc == 0 && made == 1);
}

static void call_or_fail(void *unused)
{
    (void)unused;
    int rc = weft_once_call(&once, make, NULL, WEFT_FOREVER);
    mc_assert(rc == -EIO || (rc == 0 && made == 2));
}

static void call_beside(void *unused)
{
    (void)unused;
    int rc = weft_once_call(&once, make, NULL, WEFT_FOREVER);
    mc_assert(rc == -EIO || (rc == 0 && made >= 1)); // the other may have made it before, or after
}

static void call_or_be_late(void *unused)
{
    (void)unused;
    int rc = weft_once_call(&once, make, NULL, 10);
    mc_assert(rc == -ETIMEDOUT || (rc == 0 && made == 1));
}

static void look(void *unused)
{
    (void)unused;
    if (weft_once_is_done(&once)) {
        mc_assert(made == 1);
    }
}

// Told to make it or not, it is cancelled: then somebody else makes it.
static __attribute__((noinline)) int64_t begin_and_cancel(void)
{
    struct weft_sync_future f;
    weft_waker waker = stage_sync_waker(&wakeup);
    weft_once_begin_future(&f, &once);
    bool cancelled = false;
    while (f.future.poll(&f.future, &waker) == WEFT_PENDING) {
        if (!cancelled) {
            cancelled = true;
            f.future.cancel(&f.future);
        } else {
            stage_sync_sleep(&wakeup);
        }
    }
    return f.future.result;
}

static void give_up(void *unused)
{
    (void)unused;
    int64_t rc = begin_and_cancel();
    mc_assert(rc == 0 || rc == 1 || rc == -ECANCELED);
    if (rc == 1) {
        made++;
        weft_once_end(&once, 0);
    }
    mc_assert(rc < 0 || made >= 1);
}

static void call_twice(void *unused)
{
    (void)unused;
    int rc = weft_once_call(&once, make, NULL, WEFT_FOREVER);
    if (rc == -EIO) {
        rc = weft_once_call(&once, make, NULL, WEFT_FOREVER);
    }
    mc_assert(rc == 0 && made == 2);
}

static void fill(void *unused)
{
    (void)unused;
    in_cell = 7;
    mc_assert(weft_once_cell_set(&cell, &in_cell) == 0);
}

static void get(void *unused)
{
    (void)unused;
    void *value;
    if (weft_once_cell_get(&value, &cell)) {
        mc_assert(*(int *)value == 7);
    }
}

// Ends a once in a block of its own, which another one has begun.
static struct weft_once *block;

static void do_block(void *unused)
{
    (void)unused;
    weft_once_end(block, 0);
}

static void end_block(void *unused)
{
    (void)unused;
    while (weft_once_fini(block) != 0) {
        mc_relax();
    }
    mc_free(block);
}

static void reset(int failures)
{
    stage_sync_init();
    weft_once_init(&once);
    weft_once_cell_init(&cell);
    atomic_init(&wakeup.woken, 0);
    atomic_init(&left, failures);
    made = in_cell = 0;
    mc_name(&once, sizeof once, "once");
}

static void two_callers(void)
{
    reset(0);
    stage_sync_thread(call, NULL);
    mc_thread(call, NULL);
}

static void three_callers(void)
{
    reset(0);
    stage_sync_thread(call, NULL);
    mc_thread(call, NULL);
    stage_sync_thread(call, NULL);
}

static void first_fails(void)
{
    reset(1);
    stage_sync_thread(call_or_fail, NULL);
    mc_thread(call_twice, NULL);
}

static void late(void)
{
    reset(0);
    stage_sync_thread(call_or_be_late, NULL);
    stage_sync_thread(call, NULL);
    mc_thread(look, NULL);
}

static void cancelled(void)
{
    reset(1);
    mc_thread(give_up, NULL);
    stage_sync_thread(call_beside, NULL);
}

static void cells(void)
{
    reset(0);
    mc_thread(fill, NULL);
    mc_thread(get, NULL);
}

static void ended(void)
{
    reset(0);
    block = mc_alloc(sizeof *block);
    weft_once_init(block);
    mc_assert(weft_once_begin(block, WEFT_FOREVER) == 1);
    mc_thread(do_block, NULL);
    mc_thread(end_block, NULL);
}

static void check(void)
{
    mc_assert(weft_once_fini(&once) == 0);
    mc_assert(weft_once_cell_fini(&cell) == 0);
}

const struct mc_model mc_models[] = {
    { .name = "once_two_callers", .setup = two_callers, .check = check },
    { .name = "once_three_callers", .setup = three_callers, .check = check, .never_spurious = 1 },
    { .name = "once_first_fails", .setup = first_fails, .check = check },
    { .name = "once_late", .setup = late, .check = check, .never_spurious = 1 },
    { .name = "once_cancelled", .setup = cancelled, .check = check },
    { .name = "once_cell", .setup = cells, .check = check },
    { .name = "once_ended", .setup = ended },
    { .name = NULL },
};
