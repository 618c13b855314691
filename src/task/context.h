// context.h - a saved point of execution with its own stack, and the switch between two of them.
//
// The sanitizers and valgrind are told about every switch; without them the fields for that do not
// exist and weft__context_switch() is the assembly routine.
#ifndef WEFT_TASK_CONTEXT_H
#define WEFT_TASK_CONTEXT_H

#include "base/base.h"
#include "base/sanitizer.h"

struct weft__context {
    // Of the frame drawn in switch_*.S; valid while not running. First: assembly reads it. A future is
    // not switched to, and stands here itself.
    void *sp;
#if WEFT__ASAN
    void *fake_stack;
    const void *stack_low;
    size_t stack_size;
    void (*entry)(void *);
    void *arg;
#endif
#if WEFT__TSAN
    void *fiber;
    bool owns_fiber;
#endif
#if WEFT__VALGRIND
    unsigned valgrind_id; // plus one; 0: not registered
#endif
};

/// Prepares a context that, when first switched to, calls entry(arg) on the stack [low, high) with
/// a clean floating-point environment. `entry` never returns: it ends with weft__context_exit().
void weft__context_make(struct weft__context *context, void *low, void *high, void (*entry)(void *),
                        void *arg);

/// Prepares the context of the calling OS thread, so that others can switch back to it. Call on
/// that thread, once, before the first switch away from it.
void weft__context_adopt(struct weft__context *context);

/// switch_*.S.
int weft__switch(struct weft__context *from, struct weft__context *to, int value);
int weft__switch_known(struct weft__context *from, struct weft__context *to, int value,
                       uint64_t control);

/// Saves the running context in `from` and continues `to`, whose own switch returns `value`. Returns
/// when somebody switches back, with the value they give.
///
/// Best called last (`return weft__context_switch(...)`): then the compiler jumps, and no `ret`
/// follows whose prediction the other stack has spoilt; each of those costs more than the switch.
#if WEFT__ASAN || WEFT__TSAN
int weft__context_switch(struct weft__context *from, struct weft__context *to, int value);
#else
static inline int weft__context_switch(struct weft__context *from, struct weft__context *to,
                                       int value)
{
    return weft__switch(from, to, value);
}
#endif

/// The floating-point control words of the calling OS thread, for weft__context_resume().
uint64_t weft__context_control(void);

/// weft__context_switch() from a context that runs with the same floating-point control words all
/// the time: `control`. They are set again when it continues, and need not be asked for, which is
/// a quarter of the cost of going there and back.
static inline int weft__context_resume(struct weft__context *from, struct weft__context *to,
                                       int value, uint64_t control)
{
#if WEFT__ASAN || WEFT__TSAN
    (void)control;
    return weft__context_switch(from, to, value);
#else
    return weft__switch_known(from, to, value, control);
#endif
}

/// The last switch of `from`: its stack will not be used again. `value` as for a switch.
WEFT__NORETURN void weft__context_exit(struct weft__context *from, struct weft__context *to,
                                       int value);

/// Ends what make or adopt began (sanitizer bookkeeping). Call from another context.
void weft__context_forget(struct weft__context *context);

/// Fetches into the cache what a switch to `context` will read first.
static inline void weft__context_prefetch(const struct weft__context *context)
{
    __builtin_prefetch(context->sp);
    __builtin_prefetch((const char *)context->sp + WEFT__LINE);
}

/// The same for one that has not run yet, or not for long: what it writes first, too.
static inline void weft__context_prefetch_cold(const struct weft__context *context)
{
    weft__context_prefetch(context);
    for (int line = 1; line <= 4; line++) {
        __builtin_prefetch((const char *)context->sp - (ptrdiff_t)line * WEFT__LINE, 1);
    }
}

#endif
