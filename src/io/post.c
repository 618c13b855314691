// post.c - letters to a driver thread, and the bell by which a carrier hears of answers.
//
// The danger is the one of every sleeper: it looks at its queue while a producer looks whether it
// sleeps; each sees nothing, and a letter or an answer waits for an unrelated event. There are two
// sleepers. A driver thread sleeps in the kernel's hands, where only a system call wakes it, so that who
// writes to it has to know whether it sleeps: both sides announce first and look second.
//
//     a carrier                           a driver thread
//     push letters                        asleep = 1
//     fence (seq_cst)                     fence (seq_cst)
//     asleep? clear it and kick           inbox empty? then wait in the driver
//
// A carrier sleeps on a word of its own, and every ring goes through that word:
//
//     a driver thread, or who kicks       a carrier
//     push the answer                     word = 0, and look at the answers     (take)
//     word |= RUNG                        word: 0 -> ASLEEP, and sleep          (sleep)
//     it said ASLEEP? wake
//
//   L1  Who clears `asleep` kicks: one system call for each sleep of a driver thread. A kick is a token
//       (sched/driver.h).
//   L2  Buffers that come back are not worth a system call, unless the thread sleeps because it has too
//       few. It says so when it announces its sleep, and looks at the inbox after that.
//   L3  A carrier takes the word first and looks second: a ring is either taken, and then its answer is
//       seen (release, acquire), or it is in the word and the sleep does not begin.
//   L4  Only the first ring after a take wakes. It reads `fd` after it has read WATCHED, and the carrier
//       writes `fd` before it sets that.
//   L5  A kick is kept until take: it is never lost, and several may count as one.
//
// Rejected: an eventfd to sleep on (two system calls for each wake-up, and one more to take it back).
// Locks: none. Checked by: tests/model/post_model.c.
#include "io/post.h"

#include "base/sys.h"
#include "io/event.h"

bool weft__post_call(struct weft__post *post, bool urgent)
{
    atomic_thread_fence(memory_order_seq_cst);
    uint32_t asleep = atomic_load_explicit(&post->asleep, memory_order_relaxed);
    return asleep != 0 && (urgent || asleep == WEFT__POST_HUNGRY) && // L2
           atomic_exchange_explicit(&post->asleep, 0, memory_order_relaxed) != 0;
}

bool weft__post_sleep(struct weft__post *post, bool hungry)
{
    atomic_store_explicit(&post->asleep, hungry ? WEFT__POST_HUNGRY : WEFT__POST_SATED,
                          memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    if (weft__inbox_empty(&post->inbox)) {
        return true;
    }
    weft__post_awake(post);
    return false;
}

void weft__post_awake(struct weft__post *post)
{
    atomic_store_explicit(&post->asleep, 0, memory_order_relaxed);
}

void weft__doorbell_ring(struct weft__doorbell *bell, uint32_t why)
{
    uint32_t old = atomic_fetch_or_explicit(&bell->word, why, memory_order_acq_rel);
    if ((old & (WEFT__DOORBELL_RUNG | WEFT__DOORBELL_KICKED)) != 0) {
        return; // L4
    }
    if ((old & WEFT__DOORBELL_ASLEEP) != 0) {
        weft__futex_wake(&bell->word, 1);
    } else if ((old & WEFT__DOORBELL_WATCHED) != 0) {
        weft__event_signal(bell->fd);
    }
}

uint32_t weft__doorbell_take(struct weft__doorbell *bell, bool watched)
{
    uint32_t next = watched ? WEFT__DOORBELL_WATCHED : 0;
    uint32_t old = atomic_exchange_explicit(&bell->word, next, memory_order_acq_rel);
    return old & (WEFT__DOORBELL_RUNG | WEFT__DOORBELL_KICKED);
}

void weft__doorbell_sleep(struct weft__doorbell *bell, weft_time until)
{
    uint32_t word = 0;
    if (atomic_compare_exchange_strong_explicit(&bell->word, &word, WEFT__DOORBELL_ASLEEP,
                                                memory_order_relaxed, memory_order_relaxed)) {
        (void)weft__futex_wait(&bell->word, WEFT__DOORBELL_ASLEEP, until);
    }
}
