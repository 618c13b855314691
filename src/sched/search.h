// search.h - who is idle, who needs help, and who is looking; see search.c.
#ifndef WEFT_SCHED_SEARCH_H
#define WEFT_SCHED_SEARCH_H

#include <stdatomic.h>

#include "base/base.h"
#include "sched/inject.h"

struct weft__carrier;

/// One bit per carrier, by its number: 1024 of them, and the spare one's, which is never set.
#define WEFT__SET_WORDS 17
#define WEFT__MOST_CARRIERS (64 * WEFT__SET_WORDS)
struct weft__set {
    _Atomic uint64_t words[WEFT__SET_WORDS];
};

/// What the carriers of one cluster share about stealing.
struct weft__help {
    _Alignas(WEFT__LINE_PAIR) _Atomic uint32_t searchers; // on behalf of carriers in this cluster
    _Alignas(WEFT__LINE_PAIR) struct weft__set idle;      // asleep, or about to be; a hint
    _Alignas(WEFT__LINE_PAIR) struct weft__set wanted; // have tasks on offer that nobody looked at
    struct weft__inject inject; // ready tasks of no carrier, if they may not leave the cluster
};

/// Says that `victim` has tasks on offer, and wakes an idle carrier to fetch some, unless somebody is
/// looking already. `self` is the carrier whose thread we are on: the victim, or who robbed it; NULL: it
/// is a thread outside.
void weft__search_ask(struct weft__carrier *victim, struct weft__carrier *self);

/// Whether somebody whom this carrier may help needs help. Going to sleep asks this last.
bool weft__search_wanted(struct weft__carrier *carrier);

/// Takes one of those who need help off the list, or NULL. The caller robs it and, if there is more
/// to be had or he was too late, calls weft__search_ask() again.
struct weft__carrier *weft__search_take(struct weft__carrier *carrier);

/// The same for the one that this carrier was sent to. NULL: it was not sent. Ends with
/// weft__search_stop().
struct weft__carrier *weft__search_sent(struct weft__carrier *carrier);

/// Begins to look on one's own account. False: enough do already. Ends with weft__search_stop() for
/// oneself.
bool weft__search_start(struct weft__carrier *carrier);

/// Ends a search on behalf of the cluster of `victim`; who was the last one looks for another
/// searcher.
void weft__search_stop(struct weft__carrier *victim, struct weft__carrier *self);

/// Around PARKED, see park.c.
void weft__search_idle(struct weft__carrier *carrier);
void weft__search_awake(struct weft__carrier *carrier);

#endif
