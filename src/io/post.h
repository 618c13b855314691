// post.h - letters to a driver thread, and the bell by which a carrier hears of answers.
#ifndef WEFT_IO_POST_H
#define WEFT_IO_POST_H

#include <stdatomic.h>

#include <weft/time.h>

#include "base/base.h"
#include "sched/inbox.h"

/// Where carriers put what a driver thread is to do.
struct weft__post {
    struct weft__inbox inbox;
    _Atomic uint32_t asleep; // 0: awake; or one of enum weft__post_sleep
};

enum weft__post_sleep {
    WEFT__POST_SATED = 1, ///< sleeps, and has receive buffers enough
    WEFT__POST_HUNGRY,    ///< sleeps, and wants to hear of those that come back
};

/// Any thread: puts a node in. weft__post_call() has to follow, once for any number of them.
static inline void weft__post_put(struct weft__post *post, struct weft__node *node)
{
    weft__inbox_push(&post->inbox, node);
}

/// After putting: true if the caller has to wake the driver thread now. Not `urgent`: receive buffers
/// came back and nothing else, which a thread that has enough can take when it wakes anyway.
bool weft__post_call(struct weft__post *post, bool urgent);

/// The driver thread: announces its sleep and looks. True: it may wait in its driver, and
/// weft__post_awake() must follow. False: there are letters.
bool weft__post_sleep(struct weft__post *post, bool hungry);
void weft__post_awake(struct weft__post *post);

/// What a carrier sleeps on.
struct weft__doorbell {
    _Atomic uint32_t word; // a futex; bits of enum weft__doorbell_bit
    int fd;                // an eventfd for who watches; the carrier's, until WATCHED is set
};

enum weft__doorbell_bit {
    WEFT__DOORBELL_RUNG = 0x1,    ///< there are answers
    WEFT__DOORBELL_KICKED = 0x2,  ///< somebody wants the carrier to look round
    WEFT__DOORBELL_ASLEEP = 0x4,  ///< the carrier sleeps on the word
    WEFT__DOORBELL_WATCHED = 0x8, ///< somebody watches `fd`
};

/// Any thread: rings for one of the two reasons.
void weft__doorbell_ring(struct weft__doorbell *bell, uint32_t why);

/// The carrier: takes what it was rung for, bits RUNG and KICKED, and looks at its answers after that.
/// With `watched`, `fd` becomes readable when it is rung the next time.
uint32_t weft__doorbell_take(struct weft__doorbell *bell, bool watched);

/// The carrier: sleeps until it is rung or `until` has come, unless it was rung since the last take. May
/// return early.
void weft__doorbell_sleep(struct weft__doorbell *bell, weft_time until);

#endif
