// cxx.h - C++ exceptions in virtual threads.
//
// The C++ runtime keeps the exceptions that are being handled, and the number of those in flight,
// per OS thread (__cxa_get_globals of the Itanium C++ ABI). A virtual thread that parks inside a
// catch block, or in a destructor that unwinding calls, leaves them there; the next one on the
// carrier would push its own on top, and whoever leaves its block first would free the wrong one.
//
//   C1  Between two runs the carrier's pair is empty: leave() moves it into the task, enter() back.
//   C2  A parked task's pair is not empty only if it parked in such a place, so both are normally a
//       test that fails.
//
// A program without C++ has no such runtime; then the pair is a dummy that stays empty.
#ifndef WEFT_TASK_CXX_H
#define WEFT_TASK_CXX_H

#include "base/base.h"

/// The ABI's __cxa_eh_globals.
struct weft__cxx {
    void *caught;      // innermost handled exception; they are linked
    unsigned uncaught; // thrown and not caught yet
};

/// The calling OS thread's pair; valid until that thread ends. Never NULL.
struct weft__cxx *weft__cxx_of_thread(void);

static inline bool weft__cxx_is_empty(const struct weft__cxx *cxx)
{
    return ((uintptr_t)cxx->caught | cxx->uncaught) == 0;
}

/// Before a switch to a task: `thread` is the running OS thread's pair, `task` the task's.
static inline void weft__cxx_enter(struct weft__cxx *thread, struct weft__cxx *task)
{
    if (weft__unlikely(!weft__cxx_is_empty(task))) {
        *thread = *task;
        *task = (struct weft__cxx){ NULL, 0 };
    }
}

/// After the switch back.
static inline void weft__cxx_leave(struct weft__cxx *thread, struct weft__cxx *task)
{
    if (weft__unlikely(!weft__cxx_is_empty(thread))) {
        *task = *thread;
        *thread = (struct weft__cxx){ NULL, 0 };
    }
}

#endif
