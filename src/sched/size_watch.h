// size_watch.h - being told which carriers come and go, on their own threads.
//
//   V1  A watch is called by each carrier that was told to stay or to leave, after that was done: what
//       the watcher keeps for a carrier needs no lock, as everything else that is a carrier's alone.
//   V2  It is called without the lock, because it wakes, and is taken out only while nobody is inside: so it
//       may go as soon as it is out, and whoever walks along the list finds the next.
//   V3  Whoever adds a watch and reads crew.active afterwards misses nobody: a carrier that did not find
//       the watch has been under the lock before, and had seen `active` by then.
#ifndef WEFT_SCHED_SIZE_WATCH_H
#define WEFT_SCHED_SIZE_WATCH_H

#include "sched/crew.h"

/// Whoever wants to know. Caller-owned.
struct weft__size_watch {
    /// carrier->leaving says which. Must not wait.
    void (*told)(struct weft__size_watch *watch, struct weft__carrier *carrier);
    // Under crew.watching.
    struct weft__size_watch *next;
    int inside; // carriers that are about to call it, or do
};

void weft__size_watch_add(struct weft__crew *crew, struct weft__size_watch *watch);
/// False: it is being called right now, by another thread. Try again soon.
bool weft__size_watch_remove(struct weft__crew *crew, struct weft__size_watch *watch);

/// Calls all of them; on the carrier's thread.
void weft__size_watches_tell(struct weft__carrier *carrier);

#endif
