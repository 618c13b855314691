// word.h - the transitions of a task's state word. See task.h for the picture. None of them queues
// anything. Inlined, because a carrier that runs short tasks does little else.
//
//   W1  A wake publishes: what the waker wrote before is visible to the run that the wake causes or
//       cuts short. Hence every wake is an RMW with release, even when it changes nothing, and every
//       reader of NOTIFIED that acts on it acquires. On the IDLE-to-ACTIVE edge the lane carries the
//       order, and the waker acquires what the parking carrier wrote.
//   W2  A park that fails leaves the task ACTIVE: the caller queues it again.
//   W3  A zero word is a free block. Only weft__word_init() leaves that state.
//   W4  DONE is final while references remain; the last release zeroes the word.
//
// Rejected: fetch_or for the wake (it would mark DONE and free blocks too, and dirty a page that was
// given back to the kernel).
// Locks: none. Checked by: tests/model (wake/run, join/exit), tests/unit/word_test.c.
#ifndef WEFT_TASK_WORD_H
#define WEFT_TASK_WORD_H

#include "base/assert.h"
#include "task/task.h"

/// Makes a fresh, ACTIVE task visible to visitors, with `refs` references. Last step of a spawn.
static inline void weft__word_init(struct weft__task *task, unsigned refs, uint64_t flags)
{
    uint64_t word = WEFT__WORD_ACTIVE | flags | (uint64_t)refs * WEFT__WORD_REF;
    atomic_store_explicit(&task->word, word, memory_order_release);
}

/// IDLE to ACTIVE: the caller must queue the task. ACTIVE: sets NOTIFIED. DONE: nothing. `flags` (LOOK,
/// CANCELLED) are set along with it unless DONE. Returns the word before.
static inline uint64_t weft__word_wake_from(struct weft__task *task, uint64_t flags)
{
    uint64_t word = atomic_load_explicit(&task->word, memory_order_relaxed);
    for (;;) {
        uint64_t life = word & WEFT__WORD_LIFE;
        if (life == WEFT__WORD_DONE) {
            return word;
        }
        uint64_t next = (life == WEFT__WORD_IDLE)
                            ? (word & ~WEFT__WORD_LIFE) | WEFT__WORD_ACTIVE | flags
                            : word | WEFT__WORD_NOTIFIED | flags;
        if (atomic_compare_exchange_weak_explicit(&task->word, &word, next, memory_order_acq_rel,
                                                  memory_order_relaxed)) {
            return word;
        }
    }
}

/// The same, and gives the caller's reference back with it, unless DONE.
static inline uint64_t weft__word_wake_release(struct weft__task *task)
{
    uint64_t word = atomic_load_explicit(&task->word, memory_order_relaxed);
    for (;;) {
        uint64_t life = word & WEFT__WORD_LIFE;
        if (life == WEFT__WORD_DONE) {
            return word;
        }
        weft_assert((word & WEFT__WORD_REFS) > WEFT__WORD_REF); // its own, and the caller's
        uint64_t next = (life == WEFT__WORD_IDLE) ? (word & ~WEFT__WORD_LIFE) | WEFT__WORD_ACTIVE
                                                  : word | WEFT__WORD_NOTIFIED;
        if (atomic_compare_exchange_weak_explicit(&task->word, &word, next - WEFT__WORD_REF,
                                                  memory_order_acq_rel, memory_order_relaxed)) {
            return word;
        }
    }
}

/// weft__word_wake_from(). True: the caller must queue the task.
static inline bool weft__word_wake(struct weft__task *task, uint64_t flags)
{
    return (weft__word_wake_from(task, flags) & WEFT__WORD_LIFE) == WEFT__WORD_IDLE;
}

/// Before a run: takes a notification that came while the task was queued. True: there was one.
static inline bool weft__word_clear_notified(struct weft__task *task)
{
    bool notified = (weft__word_peek(task) & WEFT__WORD_NOTIFIED) != 0;
    if (notified) {
        atomic_fetch_and_explicit(&task->word, ~WEFT__WORD_NOTIFIED, memory_order_acquire);
    }
    return notified;
}

/// After a run: ACTIVE to IDLE, true. False if the task was notified meanwhile: it stays ACTIVE.
static inline bool weft__word_park(struct weft__task *task)
{
    uint64_t word = atomic_load_explicit(&task->word, memory_order_relaxed);
    for (;;) {
        weft_assert((word & WEFT__WORD_LIFE) == WEFT__WORD_ACTIVE);
        bool notified = (word & WEFT__WORD_NOTIFIED) != 0;
        uint64_t next = notified ? word & ~WEFT__WORD_NOTIFIED
                                 : (word & ~WEFT__WORD_LIFE) | WEFT__WORD_IDLE;
        if (atomic_compare_exchange_weak_explicit(&task->word, &word, next, memory_order_acq_rel,
                                                  memory_order_relaxed)) {
            return !notified;
        }
    }
}

/// Counts one more reference; the caller has one.
static inline void weft__word_retain(struct weft__task *task)
{
    uint64_t word = atomic_fetch_add_explicit(&task->word, WEFT__WORD_REF, memory_order_relaxed);
    weft_assert((word & WEFT__WORD_REFS) != 0);
    weft_assert((word & WEFT__WORD_REFS) != WEFT__WORD_REFS);
}

/// Counts one more reference of a task that has `flag` and has not ended. False: it is not that, or not
/// any more. For who has none and found the flag there; only for tasks whose handle is kept until they
/// have ended, because an end, or a release, that finds itself alone does without an RMW.
static inline bool weft__word_retain_if(struct weft__task *task, uint64_t flag)
{
    uint64_t word = atomic_load_explicit(&task->word, memory_order_relaxed);
    while ((word & flag) != 0 && (word & WEFT__WORD_LIFE) != WEFT__WORD_DONE) {
        if (atomic_compare_exchange_weak_explicit(&task->word, &word, word + WEFT__WORD_REF,
                                                  memory_order_acquire, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

/// Gives a reference back; true if it was the last: the word is zero now and the caller frees. Who
/// holds the only reference needs no RMW, because nobody else can make another.
static inline bool weft__word_release(struct weft__task *task)
{
    uint64_t word = atomic_load_explicit(&task->word, memory_order_acquire);
    if ((word & WEFT__WORD_REFS) != WEFT__WORD_REF) {
        word = atomic_fetch_sub_explicit(&task->word, WEFT__WORD_REF, memory_order_acq_rel);
        weft_assert((word & WEFT__WORD_REFS) != 0 && "a task handle was released twice");
        if ((word & WEFT__WORD_REFS) != WEFT__WORD_REF) {
            return false;
        }
    }
    weft_assert((word & WEFT__WORD_LIFE) == WEFT__WORD_DONE);
    // Release: who destroys the runtime and finds the block free sees that we are still visiting.
    atomic_store_explicit(&task->word, 0, memory_order_release);
    return true;
}

/// Gives two references back, both the caller's. True: nobody had another, the word is zero now and the
/// caller frees. False: somebody had, and nothing was done. No RMW: see weft__word_release(). Only on a
/// carrier's thread: who destroys the runtime waits for that, so the store needs no release.
static inline bool weft__word_release_both(struct weft__task *task)
{
    uint64_t word = atomic_load_explicit(&task->word, memory_order_acquire);
    if ((word & WEFT__WORD_REFS) != 2 * WEFT__WORD_REF) {
        return false;
    }
    weft_assert((word & WEFT__WORD_LIFE) == WEFT__WORD_DONE);
    atomic_store_explicit(&task->word, 0, memory_order_relaxed);
    return true;
}

/// ACTIVE to DONE; the task's own reference stays. True: somebody has a handle, and may be joining. A task
/// that nobody has a handle to needs no RMW: what wakers set meanwhile does not matter.
static inline bool weft__word_end(struct weft__task *task)
{
    uint64_t word = atomic_load_explicit(&task->word, memory_order_acquire);
    weft_assert((word & WEFT__WORD_LIFE) == WEFT__WORD_ACTIVE);
    if ((word & WEFT__WORD_REFS) == WEFT__WORD_REF) {
        // The store ends the release sequence of whoever gave his handle back just now: hence the
        // acquire above.
        atomic_store_explicit(&task->word, WEFT__WORD_REF | WEFT__WORD_DONE, memory_order_relaxed);
        return false;
    }
    atomic_fetch_sub_explicit(&task->word, WEFT__WORD_ACTIVE - WEFT__WORD_DONE,
                              memory_order_seq_cst); // join.c, J1
    return true;
}

#endif
