// context.c - making contexts, and telling sanitizers and valgrind about them.
//
// ASan keeps a shadow of the stack it believes in, so it hears of a switch before and after it. The
// "after" half of a context's first switch happens in start_announced(), of all others in the
// function that switched away.
//
// TSan keeps a call stack and a clock per fiber. It hears of a switch right before it, in a function
// that is not instrumented itself: the accesses of one would be booked on the wrong fiber. A switch
// synchronises the two fibers (flags 0): they follow each other on one OS thread, and a context
// that moves to another thread is handed over by the scheduler's own release and acquire.
#include "task/context.h"

#include <string.h>

#include "base/assert.h"

#if WEFT__ASAN
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if WEFT__TSAN
#include <sanitizer/tsan_interface.h>
#endif
#if WEFT__VALGRIND
#include <valgrind/memcheck.h>
#include <valgrind/valgrind.h>
#endif

#if defined(__clang__) && WEFT__HAS_FEATURE(thread_sanitizer)
#define UNINSTRUMENTED __attribute__((noinline, disable_sanitizer_instrumentation))
#else
#define UNINSTRUMENTED __attribute__((noinline, no_sanitize("thread")))
#endif

void weft__switch_start(void);

#if WEFT__VALGRIND
/// Asked once: each request is a dozen instructions, also where nobody listens.
static bool on_valgrind;

static __attribute__((constructor)) void look_for_valgrind(void)
{
    on_valgrind = RUNNING_ON_VALGRIND != 0;
}
#endif

#if defined(__x86_64__)
struct frame {
    uint32_t mxcsr;
    uint16_t x87_control;
    uint16_t unused;
    uint64_t r15, r14, r13;
    void *arg;             // r12
    void (*entry)(void *); // rbx
    uint64_t rbp;
    void (*pc)(void);
};
_Static_assert(sizeof(struct frame) == 64, "as drawn in switch_x86_64.S");

// What the kernel gives a new process: round to nearest, all exceptions masked, x87 extended.
#define CLEAN_FRAME .mxcsr = 0x1f80, .x87_control = 0x037f
#elif defined(__aarch64__)
struct frame {
    uint64_t x29;
    void (*pc)(void);      // x30
    void (*entry)(void *); // x19
    void *arg;             // x20
    uint64_t x21_to_x28[8];
    uint64_t d8_to_d15[8];
    uint64_t fpcr;
    uint64_t unused;
};
_Static_assert(sizeof(struct frame) == 176, "as drawn in switch_aarch64.S");

#define CLEAN_FRAME .fpcr = 0
#endif

#if WEFT__ASAN
static void start_announced(void *arg)
{
    struct weft__context *context = arg;
    __sanitizer_finish_switch_fiber(NULL, NULL, NULL);
    context->entry(context->arg);
}
#endif

void weft__context_make(struct weft__context *context, void *low, void *high, void (*entry)(void *),
                        void *arg)
{
    memset(context, 0, sizeof *context);
    char *top = (char *)high - ((uintptr_t)high & 15);
    weft_assert(top - (char *)low > (ptrdiff_t)sizeof(struct frame));
#if WEFT__ASAN
    context->stack_low = low;
    context->stack_size = (size_t)((char *)high - (char *)low);
    context->entry = entry;
    context->arg = arg;
    entry = start_announced;
    arg = context;
#endif
#if WEFT__TSAN
    context->fiber = __tsan_create_fiber(0);
    context->owns_fiber = true;
#endif
    struct frame *frame = (struct frame *)(void *)(top - sizeof *frame);
#if WEFT__VALGRIND
    context->valgrind_id = 0;
    if (weft__unlikely(on_valgrind)) {
        context->valgrind_id = VALGRIND_STACK_REGISTER(low, high) + 1;
        VALGRIND_MAKE_MEM_UNDEFINED(frame, sizeof *frame); // a former user's frames reached lower
    }
#endif
    *frame = (struct frame){ CLEAN_FRAME, .entry = entry, .arg = arg, .pc = weft__switch_start };
    context->sp = frame;
}

void weft__context_adopt(struct weft__context *context)
{
    memset(context, 0, sizeof *context);
#if WEFT__ASAN
    pthread_attr_t attr;
    if (pthread_getattr_np(pthread_self(), &attr) == 0) {
        void *low;
        pthread_attr_getstack(&attr, &low, &context->stack_size);
        context->stack_low = low;
        pthread_attr_destroy(&attr);
    }
#endif
#if WEFT__TSAN
    context->fiber = __tsan_get_current_fiber();
#endif
}

uint64_t weft__context_control(void)
{
#if defined(__x86_64__)
    struct frame frame = { .mxcsr = 0 };
    __asm__ volatile("stmxcsr %0; fnstcw %1" : "=m"(frame.mxcsr), "=m"(frame.x87_control));
    return frame.mxcsr | (uint64_t)frame.x87_control << 32;
#else
    return 0;
#endif
}

#if WEFT__ASAN || WEFT__TSAN
UNINSTRUMENTED int weft__context_switch(struct weft__context *from, struct weft__context *to,
                                        int value)
{
#if WEFT__ASAN
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack_low, to->stack_size);
#endif
#if WEFT__TSAN
    __tsan_switch_to_fiber(to->fiber, 0);
#endif
    value = weft__switch(from, to, value);
#if WEFT__ASAN
    __sanitizer_finish_switch_fiber(from->fake_stack, NULL, NULL);
#endif
    return value;
}
#endif

UNINSTRUMENTED void weft__context_exit(struct weft__context *from, struct weft__context *to,
                                       int value)
{
#if WEFT__ASAN
    __sanitizer_start_switch_fiber(NULL, to->stack_low, to->stack_size); // NULL: frees fake frames
#endif
#if WEFT__TSAN
    __tsan_switch_to_fiber(to->fiber, 0);
#endif
    weft__switch_known(from, to, value, 0); // its own control words do not matter any more
    __builtin_trap();
}

void weft__context_forget(struct weft__context *context)
{
#if WEFT__ASAN
    if (context->entry != NULL) {
        __asan_unpoison_memory_region(context->stack_low, context->stack_size);
    }
#endif
#if WEFT__TSAN
    if (context->owns_fiber) {
        __tsan_destroy_fiber(context->fiber);
    }
#endif
#if WEFT__VALGRIND
    if (context->valgrind_id != 0) {
        VALGRIND_STACK_DEREGISTER(context->valgrind_id - 1);
    }
#endif
    context->sp = NULL;
}
