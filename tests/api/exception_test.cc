// exception_test.cc - C++ exceptions in virtual threads, which may park inside a catch block.
#include "support/test.h"

#include "../../examples/sched_pool.h"

#include <exception>
#include <stdexcept>
#include <string>
#include <weft.h>

namespace {
int throw_and_catch(void *arg)
{
    int depth = *static_cast<int *>(arg);
    try {
        throw depth;
    } catch (int caught) {
        return caught;
    }
}

int rethrow_after_parking(void *arg)
{
    const std::string mine = *static_cast<std::string *>(arg);
    for (int i = 0; i < 20; i++) {
        try {
            try {
                throw std::runtime_error(mine);
            } catch (const std::runtime_error &error) {
                CHECK_OK(weft_yield());
                CHECK_STR(error.what(), mine.c_str());
                CHECK(std::current_exception() != nullptr);
                CHECK_OK(weft_sleep(20 * WEFT_US));
                try { // a second exception while the first one is being handled
                    throw std::logic_error(mine + "!");
                } catch (const std::logic_error &inner) {
                    CHECK_OK(weft_yield());
                    CHECK_STR(inner.what(), (mine + "!").c_str());
                }
                throw; // the outer one again
            }
        } catch (const std::exception &error) {
            CHECK_STR(error.what(), mine.c_str());
        }
        CHECK(std::current_exception() == nullptr);
        CHECK_EQ(std::uncaught_exceptions(), 0);
    }
    return 0;
}

/// Parks while its frame is being unwound.
struct Parker {
    ~Parker()
    {
        CHECK_EQ(std::uncaught_exceptions(), 1);
        (void)weft_yield();
        (void)weft_sleep(10 * WEFT_US);
        CHECK_EQ(std::uncaught_exceptions(), 1);
    }
};

int park_while_unwinding(void *arg)
{
    int number = *static_cast<int *>(arg);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(std::uncaught_exceptions(), 0);
        try {
            Parker parker;
            throw number + i;
        } catch (int caught) {
            CHECK_EQ(caught, number + i);
        }
    }
    return 0;
}
} // namespace

TEST_EVERYWHERE(an_exception_is_caught_in_the_thread_that_threw_it)
{
    for (int i = 0; i < 10; i++) {
        weft_task *task;
        int result;
        CHECK_OK(weft_spawn(&task, throw_and_catch, &i, NULL));
        CHECK_EQ(weft_join(&result, task, WEFT_FOREVER), 0);
        CHECK_EQ(result, i);
    }
}

TEST_EVERYWHERE(threads_interleave_inside_catch_blocks)
{
    std::string names[] = { "one", "two", "three", "four" };
    weft_task *tasks[4];
    for (int i = 0; i < 4; i++) {
        CHECK_OK(weft_spawn(&tasks[i], rethrow_after_parking, &names[i], NULL));
    }
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(weft_join(NULL, tasks[i], WEFT_FOREVER), 0);
    }
}

TEST_EVERYWHERE(threads_interleave_while_unwinding)
{
    int numbers[] = { 100, 200, 300 };
    weft_task *tasks[3];
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weft_spawn(&tasks[i], park_while_unwinding, &numbers[i], NULL));
    }
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_join(NULL, tasks[i], WEFT_FOREVER), 0);
    }
}

namespace {
struct pool *the_pool;

int run_on_pool(void *arg)
{
    (void)arg;
    std::string names[8];
    int numbers[8];
    weft_task *tasks[8];
    weft_attr attr;
    weft_attr_init(&attr);
    attr.scheduler = &the_pool->base;
    attr.migratable = the_pool->count > 1;
    for (int i = 0; i < 8; i++) {
        names[i] = "task " + std::to_string(i);
        numbers[i] = i;
        if (i % 2 == 0) {
            CHECK_OK(weft_spawn(&tasks[i], rethrow_after_parking, &names[i], &attr));
        } else {
            CHECK_OK(weft_spawn(&tasks[i], park_while_unwinding, &numbers[i], &attr));
        }
    }
    for (weft_task *task : tasks) {
        int result = -1;
        CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
        CHECK_OK(result);
    }
    return 0;
}
} // namespace

TEST_DRIVERS(exceptions_travel_with_tasks_of_a_scheduler)
{
    for (int threads = 1; threads <= 3; threads++) {
        CHECK_OK(pool_create(&the_pool, threads));
        CHECK_OK(weft_run(run_on_pool, nullptr, nullptr));
        weft_scheduler_release(&the_pool->base);
    }
}
