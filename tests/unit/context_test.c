// context_test.c - the switch: what a context keeps, and how its stack begins and ends.
#include "support/test.h"

#include <execinfo.h>
#include <fenv.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <signal.h>
#include <ucontext.h>
#include <unwind.h>
#include <xmmintrin.h>
#endif

#include "task/context.h"

#define STACK_BYTES ((size_t)256 << 10)

struct fiber {
    struct weft__context context;
    char *stack;
    void (*body)(struct fiber *self);
    int number;
    int got;
    bool ended;
};

static struct weft__context here;

static void enter(void *arg)
{
    struct fiber *self = arg;
    self->body(self);
    self->ended = true;
    weft__context_exit(&self->context, &here, 0);
}

static void fiber_make(struct fiber *fiber, void (*body)(struct fiber *self), int number)
{
    memset(fiber, 0, sizeof *fiber);
    fiber->stack = aligned_alloc(4096, STACK_BYTES);
    CHECK(fiber->stack != NULL);
    fiber->body = body;
    fiber->number = number;
    weft__context_make(&fiber->context, fiber->stack, fiber->stack + STACK_BYTES, enter, fiber);
}

static void fiber_free(struct fiber *fiber)
{
    weft__context_forget(&fiber->context);
    free(fiber->stack);
}

static int resume(struct fiber *fiber, int value)
{
    return weft__context_switch(&here, &fiber->context, value);
}

static int suspend(struct fiber *self, int value)
{
    return weft__context_switch(&self->context, &here, value);
}

// ---------------------------------------------------------------------------------------------

static void add_up(struct fiber *self)
{
    int sum = 0;
    for (int i = 0; i < 5; i++) {
        sum += suspend(self, sum);
    }
}

TEST(a_switch_carries_a_value_both_ways)
{
    struct fiber fiber;
    weft__context_adopt(&here);
    fiber_make(&fiber, add_up, 0);
    CHECK_EQ(resume(&fiber, 0), 0);
    CHECK_EQ(resume(&fiber, 1), 1);
    CHECK_EQ(resume(&fiber, 2), 3);
    CHECK_EQ(resume(&fiber, -10), -7);
    CHECK_EQ(resume(&fiber, 7), 0);
    CHECK(!fiber.ended);
    resume(&fiber, 0);
    CHECK(fiber.ended);
    fiber_free(&fiber);
    weft__context_forget(&here);
}

// More values than registers, live across the switch in each of the contexts that take turns.
static __attribute__((noinline)) void juggle(struct fiber *self)
{
    uint64_t seed = (uint64_t)self->number * 1000003 + 17;
    for (int round = 0; round < 50; round++) {
        uint64_t a = test_random(&seed), b = test_random(&seed), c = test_random(&seed);
        uint64_t d = test_random(&seed), e = test_random(&seed), f = test_random(&seed);
        uint64_t g = test_random(&seed), h = test_random(&seed), i = test_random(&seed);
        double p = (double)(a & 0xffff), q = (double)(b & 0xffff), r = (double)(c & 0xffff);
        double s = (double)(d & 0xffff), t = (double)(e & 0xffff), u = (double)(f & 0xffff);
        uint64_t before = a ^ b * 3 ^ c * 5 ^ d * 7 ^ e * 11 ^ f * 13 ^ g * 17 ^ h * 19 ^ i * 23;
        double total = p + q * 2 + r * 3 + s * 4 + t * 5 + u * 6;
        suspend(self, 0);
        CHECK_EQ(a ^ b * 3 ^ c * 5 ^ d * 7 ^ e * 11 ^ f * 13 ^ g * 17 ^ h * 19 ^ i * 23, before);
        CHECK(p + q * 2 + r * 3 + s * 4 + t * 5 + u * 6 == total);
    }
}

TEST(registers_survive_other_contexts)
{
    enum { FIBERS = 20 };
    static struct fiber fibers[FIBERS];
    weft__context_adopt(&here);
    for (int i = 0; i < FIBERS; i++) {
        fiber_make(&fibers[i], juggle, i);
    }
    for (int round = 0; round <= 50; round++) {
        for (int i = 0; i < FIBERS; i++) {
            resume(&fibers[i], 0);
        }
    }
    for (int i = 0; i < FIBERS; i++) {
        CHECK(fibers[i].ended);
        fiber_free(&fibers[i]);
    }
}

static void check_alignment(struct fiber *self)
{
    (void)self;
    _Alignas(16) volatile char aligned[16] = { 1 };
    CHECK_EQ((uintptr_t)aligned % 16, 0);
    CHECK_EQ((uintptr_t)__builtin_frame_address(0) % 16, 0);
    char text[64]; // floating-point varargs: libc saves vector registers with aligned stores
    snprintf(text, sizeof text, "%.2f", 1.25 + aligned[0]);
    CHECK_STR(text, "2.25");
}

TEST(the_stack_is_aligned_from_the_first_call)
{
    weft__context_adopt(&here);
    for (int i = 0; i < 4; i++) {
        struct fiber fiber;
        fiber_make(&fiber, check_alignment, 0);
        char *high = fiber.stack + STACK_BYTES - 8 * i; // any end is as good
        weft__context_forget(&fiber.context);
        weft__context_make(&fiber.context, fiber.stack, high, enter, &fiber);
        resume(&fiber, 0);
        CHECK(fiber.ended);
        fiber_free(&fiber);
    }
}

// ---------------------------------------------------------------------------------------------
// Floating-point control.

#ifndef WEFT_NO_FPU_CONTROL
static void round_upwards(struct fiber *self)
{
    CHECK_EQ(fegetround(), FE_TONEAREST);
    CHECK_EQ(fesetround(FE_UPWARD), 0);
    suspend(self, 0);
    CHECK_EQ(fegetround(), FE_UPWARD);
    volatile float one = 1.0F, tiny = 1e-20F;
    CHECK(one + tiny > 1.0F || test_is_slow()); // valgrind rounds to nearest, whatever it is told
}

static void round_to_nearest(struct fiber *self)
{
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(fegetround(), FE_TONEAREST);
        suspend(self, 0);
    }
}

TEST(rounding_mode_stays_with_its_context)
{
    struct fiber up, near;
    weft__context_adopt(&here);
    fiber_make(&up, round_upwards, 0);
    fiber_make(&near, round_to_nearest, 0);
    resume(&up, 0);
    CHECK_EQ(fegetround(), FE_TONEAREST);
    resume(&near, 0);
    resume(&up, 0);
    CHECK_EQ(fegetround(), FE_TONEAREST);
    resume(&near, 0);
    CHECK(up.ended);
    fiber_free(&up);
    fiber_free(&near);
}

TEST(a_fresh_context_has_a_clean_floating_point_environment)
{
    struct fiber fiber;
    weft__context_adopt(&here);
    CHECK_EQ(fesetround(FE_TOWARDZERO), 0);
    fiber_make(&fiber, round_to_nearest, 0);
    resume(&fiber, 0);
    CHECK_EQ(fegetround(), FE_TOWARDZERO);
    fiber_free(&fiber);
}

TEST(a_context_that_knows_its_rounding_mode_gets_it_back)
{
    struct fiber up;
    weft__context_adopt(&here);
    CHECK_EQ(fesetround(FE_DOWNWARD), 0);
    uint64_t control = weft__context_control();
    fiber_make(&up, round_upwards, 0);
    CHECK_EQ(weft__context_resume(&here, &up.context, 0, control), 0);
    CHECK_EQ(fegetround(), FE_DOWNWARD);
    CHECK_EQ(weft__context_resume(&here, &up.context, 0, control), 0);
    CHECK_EQ(fegetround(), FE_DOWNWARD);
    CHECK(up.ended);
    fiber_free(&up);
}

#ifdef __x86_64__
static void flush_to_zero(struct fiber *self)
{
    _mm_setcsr(_mm_getcsr() | 0x8000);
    suspend(self, 0);
    CHECK_EQ(_mm_getcsr() & 0x8000, 0x8000);
}

TEST(vector_control_alone_stays_with_its_context)
{
    if (test_is_slow()) {
        SKIP("valgrind does not keep this bit");
    }
    struct fiber fiber;
    weft__context_adopt(&here);
    fiber_make(&fiber, flush_to_zero, 0);
    resume(&fiber, 0);
    CHECK_EQ(_mm_getcsr() & 0x8000, 0);
    resume(&fiber, 0);
    CHECK_EQ(_mm_getcsr() & 0x8000, 0);
    fiber_free(&fiber);
}
#endif
#endif

// ---------------------------------------------------------------------------------------------
// Stacks.

static int __attribute__((noinline)) dig(int depth)
{
    volatile char frame[512];
    frame[0] = (char)depth;
    return depth == 0 ? 0 : dig(depth - 1) + (frame[0] == (char)depth);
}

static void dig_deep(struct fiber *self)
{
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(dig(100), 100);
        suspend(self, 0);
        CHECK_EQ(dig(5), 5);
    }
}

TEST(a_stack_serves_one_context_after_another)
{
    struct fiber fiber;
    weft__context_adopt(&here);
    fiber_make(&fiber, dig_deep, 0);
    for (int life = 0; life < 10; life++) {
        while (!fiber.ended) {
            resume(&fiber, 0);
        }
        weft__context_forget(&fiber.context);
        fiber.ended = false;
        weft__context_make(&fiber.context, fiber.stack, fiber.stack + STACK_BYTES, enter, &fiber);
    }
    fiber_free(&fiber);
}

struct hand_over {
    struct fiber fiber;
    struct weft__context *home; // of the thread that runs it
    int steps;
};

static void wander(struct fiber *self)
{
    struct hand_over *over = (struct hand_over *)(void *)self;
    while (over->steps < 100) {
        over->steps++;
        weft__context_switch(&self->context, over->home, 0);
    }
}

static void enter_wanderer(void *arg)
{
    struct hand_over *over = arg;
    wander(&over->fiber);
    over->fiber.ended = true;
    weft__context_exit(&over->fiber.context, over->home, 0);
}

static void *carry(void *arg)
{
    struct hand_over *over = arg;
    struct weft__context own;
    weft__context_adopt(&own);
    over->home = &own;
    for (int i = 0; i < 10 && !over->fiber.ended; i++) {
        weft__context_switch(&own, &over->fiber.context, 0);
    }
    weft__context_forget(&own);
    return NULL;
}

TEST(a_context_may_move_to_another_os_thread)
{
    struct hand_over over = { 0 };
    fiber_make(&over.fiber, wander, 0);
    weft__context_forget(&over.fiber.context);
    weft__context_make(&over.fiber.context, over.fiber.stack, over.fiber.stack + STACK_BYTES,
                       enter_wanderer, &over);
    while (!over.fiber.ended) {
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, carry, &over), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
    CHECK_EQ(over.steps, 100);
    fiber_free(&over.fiber);
}

// ---------------------------------------------------------------------------------------------
// Unwinding.

void weft__switch_start(void);

static void trace(struct fiber *self)
{
    void *frames[64];
    self->got = backtrace(frames, 64);
    CHECK_LE(self->got, 12);
    const char *start = (const char *)(uintptr_t)weft__switch_start;
    const char *last = frames[self->got - 1];
    CHECK(last > start && last < start + 64);
}

TEST(a_backtrace_ends_where_the_context_began)
{
    struct fiber fiber;
    weft__context_adopt(&here);
    fiber_make(&fiber, trace, 0);
    resume(&fiber, 0);
    CHECK_GE(fiber.got, 3);
    fiber_free(&fiber);
}

#if defined(__x86_64__) && !WEFT__ASAN && !WEFT__TSAN
// Steps through the switch one instruction at a time and unwinds from each: the frame above must be
// one of the two callers.
static int steps_in_switch;
static int steps_lost;

static __attribute__((noinline)) void stepping_there(struct weft__context *from,
                                                     struct weft__context *to)
{
    weft__switch_known(from, to, 0, weft__context_control());
    __asm__ volatile(""); // not a tail call
}

static __attribute__((noinline)) void stepping_back(struct fiber *self)
{
    weft__switch(&self->context, &here, 0);
    __asm__ volatile("");
}

static bool is_switch(const void *function)
{
    return function == (const void *)(uintptr_t)weft__switch ||
           function == (const void *)(uintptr_t)weft__switch_known;
}

struct look {
    const void *function[8];
    int count;
    bool below_switch;
};

static _Unwind_Reason_Code look_at_frame(struct _Unwind_Context *context, void *arg)
{
    struct look *look = arg;
    int before;
    const char *pc = (const char *)_Unwind_GetIPInfo(context, &before);
    const void *function = _Unwind_FindEnclosingFunction((void *)(uintptr_t)(before ? pc : pc - 1));
    look->below_switch |= is_switch(function);
    if (look->below_switch && look->count < 8) {
        look->function[look->count++] = function;
    }
    return _URC_NO_REASON;
}

static void on_step(int signo, siginfo_t *info, void *machine)
{
    (void)signo;
    (void)info;
    const ucontext_t *context = machine;
    void *pc = (void *)(uintptr_t)context->uc_mcontext.gregs[REG_RIP];
    const char *start = (const char *)(uintptr_t)weft__switch;
    if ((const char *)pc < start || (const char *)pc >= start + 512 ||
        !is_switch(_Unwind_FindEnclosingFunction(pc))) {
        return;
    }
    struct look look = { .count = 0 };
    _Unwind_Backtrace(look_at_frame, &look);
    steps_in_switch++;
    steps_lost += look.count < 2 || (look.function[1] != (void *)(uintptr_t)stepping_there &&
                                     look.function[1] != (void *)(uintptr_t)stepping_back);
}

static void bounce(struct fiber *self)
{
    for (;;) {
        stepping_back(self);
    }
}

TEST(the_switch_can_be_unwound_from_every_instruction)
{
    if (test_is_slow()) {
        SKIP("valgrind does not trap single steps");
    }
    struct sigaction action = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };
    struct fiber fiber;
    weft__context_adopt(&here);
    fiber_make(&fiber, bounce, 0);
    stepping_there(&here, &fiber.context);
    CHECK_EQ(sigaction(SIGTRAP, &action, NULL), 0);
    __asm__ volatile("subq $128, %%rsp; pushfq; orq $0x100, (%%rsp); popfq; addq $128, %%rsp" ::
                         : "cc", "memory");
    stepping_there(&here, &fiber.context);
    __asm__ volatile("subq $128, %%rsp; pushfq; andq $~0x100, (%%rsp); popfq; addq $128, %%rsp" ::
                         : "cc", "memory");
    CHECK_GE(steps_in_switch, 40);
    CHECK_EQ(steps_lost, 0);
}
#endif
