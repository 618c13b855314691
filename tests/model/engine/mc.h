// mc.h - what a model may say to the checker.
//
// A model is a handful of threads that run the library's real sources, compiled with
// -fsanitize=thread and linked against this engine instead of the sanitizer's runtime. The engine
// runs the threads one at a time, decides at every atomic operation who goes next and which store
// a load reads, and repeats the execution until all decisions within the bound were tried.
// tests/model/README.md says what is modelled and what is not.
//
// A model file defines `mc_models`; the engine brings `main`.
//
// Rules for models: threads end; setup puts back every global they change (an execution must
// depend on nothing but the engine's decisions); results travel to `check` through plain
// variables, so that the race detector sees them.
#ifndef MC_H
#define MC_H

#include <stddef.h>
#include <stdint.h>

struct mc_model {
    const char *name;
    void (*setup)(void);   // runs alone before the threads; calls mc_thread()
    void (*check)(void);   // runs alone after they all ended; may be NULL
    const char *must_fail; // NULL, or the start of the failure that must be found
    const char *needs;     // NULL, or "gcc": the other compiler hides what this model is about
    int max_bound;         // 0, or: more preemptions than this take too long for every day
    int max_steps;         // 0, or: more atomic operations than this are a livelock
    int never_spurious;    // 1: no spurious failures and wake-ups
};

// Ends with an entry whose name is NULL.
extern const struct mc_model mc_models[];

// Adds a thread and returns its number. From setup, or from a running thread, whose memory effects
// so far the new thread then sees.
int mc_thread(void (*fn)(void *), void *arg);

// The number of the running thread, for what thread-locals are for; -1 in setup and check.
int mc_self(void);

// Ends the execution with a failure. Does not return.
_Noreturn void mc_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define mc_assert(condition)                                                                       \
    ((condition) ? (void)0 : mc_fail("assertion: %s (%s:%d)", #condition, __FILE__, __LINE__))

// Explores every answer from 0 to n - 1.
int mc_choose(int n);

// Stands in a spin loop where the hardware's pause would. The caller rests until a location that it
// read since the last mc_relax() gets a newer store, unless it has changed something itself.
void mc_relax(void);

// A kernel futex. Wait returns 0 after a wake-up or spuriously, -EAGAIN if the word differs; a
// wake-up happens before the return that it causes. Wake returns how many it woke.
int mc_futex_wait(const void *word, uint32_t expected);
int mc_futex_wake(const void *word, int count);

// A sticky token as an eventfd keeps one: `set` before `wait` is not lost. It wakes and no more,
// it orders no memory, because no protocol of ours may lean on what an eventfd happens to order.
// Wait returns 1 if it took the token, 0 for a spurious return.
void mc_event_set(const void *event);
int mc_event_wait(const void *event);

// The same with a time limit: returns 0 at any moment, so nobody sleeps here for ever.
int mc_event_wait_briefly(const void *event);

// From here on any access to the range is a failure, and so is an earlier one that did not happen
// before this call: the memory has died (a stack frame was left, a page was given back).
void mc_forbid(const void *start, size_t size_bytes);
void mc_allow(const void *start, size_t size_bytes);

// Zeroed memory at an address that depends only on the calls before it; freed memory is forbidden.
void *mc_alloc(size_t size_bytes);
void mc_free(void *block);

// How traces call this range. `name` is borrowed and must outlive the execution.
void mc_name(const void *start, size_t size_bytes, const char *name);

#endif
