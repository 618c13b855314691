// cxx_test.cc - C++ exceptions in contexts that switch away while handling one.
#include "support/test.h"

#include <stdint.h>
#include <stdlib.h>

#include <exception>
#include <stdexcept>
#include <string>

extern "C" {
#include "task/context.h"
#include "task/cxx.h"
}

namespace {

constexpr size_t stack_bytes = 256 << 10;

weft__context here;

struct fiber {
    weft__context context;
    weft__cxx cxx;
    char *stack;
    void (*body)(fiber &self);
    int number;
    bool ended;
};

void enter(void *arg)
{
    fiber *self = static_cast<fiber *>(arg);
    self->body(*self);
    self->ended = true;
    weft__context_exit(&self->context, &here, 0);
}

void start(fiber &f, void (*body)(fiber &), int number)
{
    f = fiber();
    f.stack = static_cast<char *>(aligned_alloc(4096, stack_bytes));
    f.body = body;
    f.number = number;
    weft__context_make(&f.context, f.stack, f.stack + stack_bytes, enter, &f);
}

void finish(fiber &f)
{
    CHECK(f.ended);
    weft__context_forget(&f.context);
    free(f.stack);
}

void resume(fiber &f)
{
    weft__cxx *thread = weft__cxx_of_thread();
    weft__cxx_enter(thread, &f.cxx);
    weft__context_switch(&here, &f.context, 0);
    weft__cxx_leave(thread, &f.cxx);
    CHECK(weft__cxx_is_empty(thread));
}

void suspend(fiber &self)
{
    weft__context_switch(&self.context, &here, 0);
}

std::string name(int number, int depth)
{
    return "a message long enough for the heap, number " + std::to_string(number) + "/" +
           std::to_string(depth);
}

// Parks inside nested catch blocks, and looks at the current exception after each.
void nest(fiber &self, int depth)
{
    try {
        throw std::runtime_error(name(self.number, depth));
    } catch (const std::exception &e) {
        suspend(self);
        CHECK(e.what() == name(self.number, depth));
        if (depth < 3) {
            nest(self, depth + 1);
        }
        suspend(self);
        try {
            std::rethrow_exception(std::current_exception());
        } catch (const std::runtime_error &again) {
            CHECK(again.what() == name(self.number, depth));
        }
    }
}

void nested_catches(fiber &self)
{
    nest(self, 0);
    CHECK(std::current_exception() == nullptr);
}

} // namespace

TEST(contexts_park_in_catch_blocks)
{
    enum { FIBERS = 10 };
    static fiber fibers[FIBERS];
    weft__context_adopt(&here);
    for (int i = 0; i < FIBERS; i++) {
        start(fibers[i], nested_catches, i);
    }
    uint64_t random = test_seed();
    for (int left = FIBERS; left > 0;) {
        fiber &f = fibers[test_random(&random) % FIBERS];
        if (!f.ended) {
            resume(f);
            left -= f.ended;
        }
    }
    for (fiber &f : fibers) {
        finish(f);
    }
}

namespace {

struct parks_when_destroyed {
    fiber &self;
    ~parks_when_destroyed()
    {
        CHECK_EQ(std::uncaught_exceptions(), 1);
        suspend(self);
        CHECK_EQ(std::uncaught_exceptions(), 1);
    }
};

void park_while_unwinding(fiber &self)
{
    try {
        parks_when_destroyed guard = { self };
        throw self.number;
    } catch (int number) {
        CHECK_EQ(number, self.number);
    }
    CHECK_EQ(std::uncaught_exceptions(), 0);
}

} // namespace

TEST(contexts_park_while_an_exception_unwinds)
{
    static fiber fibers[3];
    weft__context_adopt(&here);
    for (int i = 0; i < 3; i++) {
        start(fibers[i], park_while_unwinding, i);
        resume(fibers[i]);
        CHECK_EQ(std::uncaught_exceptions(), 0);
    }
    for (fiber &f : fibers) {
        resume(f);
        finish(f);
    }
}

namespace {

void rethrow_after_park(fiber &self)
{
    try {
        try {
            throw std::out_of_range(name(self.number, 0));
        } catch (...) {
            suspend(self);
            throw;
        }
    } catch (const std::out_of_range &e) {
        CHECK(e.what() == name(self.number, 0));
    }
}

} // namespace

TEST(a_plain_rethrow_finds_its_own_exception)
{
    static fiber first;
    static fiber second;
    weft__context_adopt(&here);
    start(first, rethrow_after_park, 1);
    start(second, rethrow_after_park, 2);
    resume(first);
    resume(second);
    resume(first); // not the one that was caught last
    resume(second);
    finish(first);
    finish(second);
}
