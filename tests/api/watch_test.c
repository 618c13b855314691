// watch_test.c - the latest value, its generations, and those who follow it.
#include "support/caller.h"
#include "support/test.h"

#include <errno.h>
#include <string.h>
#include <weft.h>

static weft_watch *make(uint64_t first)
{
    weft_watch *watch;
    CHECK_OK(weft_watch_create(&watch, sizeof first, &first));
    return watch;
}

static int set(weft_watch *watch, uint64_t value)
{
    return weft_watch_set(watch, &value);
}

TEST(every_set_is_a_generation)
{
    weft_watch *watch = make(10);
    uint64_t value = 0;
    CHECK_EQ(weft_watch_generation(watch), 1u);
    CHECK_EQ(weft_watch_get(&value, watch), 1u);
    CHECK_EQ(value, 10u);
    CHECK_EQ(weft_watch_wait(watch, 1, 1), -ETIMEDOUT);
    CHECK_EQ(weft_watch_wait(watch, 0, WEFT_FOREVER), 0); // has seen none
    CHECK_EQ(set(watch, 11), 0);
    CHECK_EQ(set(watch, 12), 0);
    CHECK_EQ(weft_watch_wait(watch, 1, WEFT_FOREVER), 0);
    CHECK_EQ(weft_watch_get(&value, watch), 3u);
    CHECK_EQ(value, 12u);
    CHECK_EQ(weft_watch_wait(watch, 3, 1), -ETIMEDOUT);
    CHECK_EQ(weft_watch_destroy(watch), 0);
    CHECK_EQ(weft_watch_destroy(NULL), 0);
}

TEST(sizes_that_make_no_sense_are_refused)
{
    weft_watch *watch = (weft_watch *)&watch;
    CHECK_EQ(weft_watch_create(&watch, 0, &watch), -EINVAL);
    CHECK(watch == NULL);
    CHECK_EQ(weft_watch_create(&watch, SIZE_MAX, &watch), -EINVAL);
}

TEST(a_closed_watch_keeps_its_last_value)
{
    weft_watch *watch = make(1);
    uint64_t value = 0;
    CHECK_EQ(set(watch, 2), 0);
    CHECK(!weft_watch_is_closed(watch));
    weft_watch_close(watch);
    weft_watch_close(watch);
    CHECK(weft_watch_is_closed(watch));
    CHECK_EQ(set(watch, 3), -EPIPE);
    CHECK_EQ(weft_watch_wait(watch, 1, WEFT_FOREVER), 0); // one that it has not seen
    CHECK_EQ(weft_watch_get(&value, watch), 2u);
    CHECK_EQ(value, 2u);
    CHECK_EQ(weft_watch_wait(watch, 2, WEFT_FOREVER), -EPIPE);
    CHECK_EQ(weft_watch_destroy(watch), 0);
}

static bool holds(const void *value, uint64_t expected)
{
    return memcmp(value, &expected, sizeof expected) == 0;
}

TEST(a_borrowed_value_does_not_change)
{
    weft_watch *watch = make(1);
    uint64_t generation = 0;
    uint64_t value;
    const void *first = weft_watch_borrow(&generation, watch);
    CHECK_EQ(generation, 1u);
    CHECK_EQ(set(watch, 2), 0);
    const void *second = weft_watch_borrow(&generation, watch);
    const void *again = weft_watch_borrow(NULL, watch);
    CHECK_EQ(generation, 2u);
    CHECK(again == second);
    CHECK_EQ(set(watch, 3), 0);
    CHECK_EQ(set(watch, 4), 0);
    CHECK(holds(first, 1));
    CHECK(holds(second, 2));
    CHECK_EQ(weft_watch_get(&value, watch), 4u);
    CHECK_EQ(value, 4u);
    CHECK_EQ(weft_watch_destroy(watch), -EBUSY);
    weft_watch_return(watch, first);
    weft_watch_return(watch, second);
    CHECK(holds(again, 2));
    weft_watch_return(watch, again);
    for (uint64_t i = 5; i < 50; i++) { // in the memory that came back
        const void *borrowed = weft_watch_borrow(NULL, watch);
        CHECK(holds(borrowed, i - 1));
        CHECK_EQ(set(watch, i), 0);
        CHECK(holds(borrowed, i - 1));
        weft_watch_return(watch, borrowed);
    }
    CHECK_EQ(weft_watch_destroy(watch), 0);
}

static int wait_for_second(struct caller *caller)
{
    return weft_watch_wait(caller->object, 1, caller->deadline);
}

TEST_EVERYWHERE(all_that_wait_are_woken)
{
    weft_watch *watch = make(1);
    struct caller callers[3];
    for (int i = 0; i < 3; i++) {
        caller_start(&callers[i], wait_for_second, watch);
    }
    CHECK_EQ(weft_watch_destroy(watch), -EBUSY);
    CHECK_EQ(set(watch, 2), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(caller_end(&callers[i]), 0);
    }
    CHECK_EQ(weft_watch_destroy(watch), 0);
}

TEST_EVERYWHERE(a_wait_ends_early)
{
    weft_watch *watch = make(1);
    struct caller caller;
    caller_start(&caller, wait_for_second, watch);
    weft_task_cancel(caller.task);
    CHECK_EQ(caller_end(&caller), -ECANCELED);
    CHECK_EQ(weft_watch_wait(watch, 1, weft_after(WEFT_MS)), -ETIMEDOUT);
    caller_start(&caller, wait_for_second, watch);
    weft_watch_close(watch);
    CHECK_EQ(caller_end(&caller), -EPIPE);
    CHECK_EQ(weft_watch_destroy(watch), 0);
}

TEST_EVERYWHERE(futures_wait)
{
    weft_watch *watch = make(1);
    struct weft_sync_future f;
    weft_watch_wait_future(&f, watch, 0);
    CHECK_EQ(poll_once(&f.future), WEFT_READY);
    CHECK_EQ(f.future.result, 0);
    weft_watch_wait_future(&f, watch, 1);
    CHECK_EQ(poll_once(&f.future), WEFT_PENDING);
    CHECK_EQ(set(watch, 2), 0);
    CHECK_EQ(poll_to_the_end(&f.future), 0);
    weft_watch_wait_future(&f, watch, 2);
    CHECK_EQ(weft_await(&f.future, weft_after(WEFT_MS)), -ETIMEDOUT);
    weft_watch_wait_future(&f, watch, 2);
    CHECK_EQ(poll_once(&f.future), WEFT_PENDING);
    weft_watch_close(watch);
    CHECK_EQ(poll_to_the_end(&f.future), -EPIPE);
    CHECK_EQ(weft_watch_destroy(watch), 0);
}

// Several set values that must be whole, others follow in all ways; the last value reaches all.

enum { WORDS = 16, SETTERS = 2, FOLLOWERS = 4 };

struct page {
    uint64_t words[WORDS];
};

struct scene {
    weft_watch *watch;
    _Atomic int setters;
};

static void check_page(const struct page *page)
{
    for (int i = 1; i < WORDS; i++) {
        CHECK_EQ(page->words[i], page->words[0]);
    }
}

static int set_often(void *arg)
{
    struct scene *scene = arg;
    for (uint64_t i = 0; i < test_scaled(3000); i++) {
        struct page page;
        for (int word = 0; word < WORDS; word++) {
            page.words[word] = i;
        }
        CHECK_EQ(weft_watch_set(scene->watch, &page), 0);
        if (i % 8 == 0) {
            (void)weft_yield();
        }
    }
    if (atomic_fetch_sub(&scene->setters, 1) == 1) {
        weft_watch_close(scene->watch);
    }
    return 0;
}

static uint64_t look(struct scene *scene, bool borrow)
{
    struct page page;
    uint64_t seen;
    if (borrow) {
        const struct page *borrowed = weft_watch_borrow(&seen, scene->watch);
        check_page(borrowed);
        weft_watch_return(scene->watch, borrowed);
    } else {
        seen = weft_watch_get(&page, scene->watch);
        check_page(&page);
    }
    return seen;
}

static int follow(void *arg)
{
    struct scene *scene = arg;
    uint64_t seen = 0;
    int rc = 0;
    for (int i = 0; rc == 0; i++) {
        struct weft_sync_future f;
        uint64_t now = look(scene, i % 3 == 0);
        CHECK_GE(now, seen);
        seen = now;
        if (i % 2 == 0) {
            weft_watch_wait_future(&f, scene->watch, seen);
            rc = (int)weft_await(&f.future, WEFT_FOREVER);
        } else {
            rc = weft_watch_wait(scene->watch, seen, WEFT_FOREVER);
        }
    }
    CHECK_EQ(rc, -EPIPE);
    CHECK_EQ(seen, weft_watch_generation(scene->watch)); // nobody misses the last one
    return 0;
}

static void *follow_outside(void *arg)
{
    struct scene *scene = arg;
    uint64_t seen = 0;
    while (weft_watch_wait(scene->watch, seen, WEFT_FOREVER) == 0) {
        seen = look(scene, seen % 2 == 0);
    }
    CHECK_EQ(seen, weft_watch_generation(scene->watch));
    return NULL;
}

TEST_EVERYWHERE(values_are_whole_and_the_last_one_reaches_all)
{
    struct scene scene;
    struct page first = { { 0 } };
    weft_task *tasks[SETTERS + FOLLOWERS];
    bool foreign = test_driver() != TEST_DRIVER_SIM;
    pthread_t thread = 0;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    CHECK_OK(weft_watch_create(&scene.watch, sizeof first, &first));
    atomic_store(&scene.setters, SETTERS);
    for (int i = 0; i < SETTERS + FOLLOWERS; i++) {
        CHECK_OK(weft_spawn(&tasks[i], i < FOLLOWERS ? follow : set_often, &scene, &attr));
    }
    if (foreign) {
        thread = foreign_begin(follow_outside, &scene);
    }
    for (int i = 0; i < SETTERS + FOLLOWERS; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    if (foreign) {
        foreign_end(thread);
    }
    CHECK_EQ(weft_watch_destroy(scene.watch), 0);
}
