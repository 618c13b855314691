// epoll_trust.c - waiting for an event without a proof that it can come.
//
// Arming a descriptor anew for each read costs a system call per request, which a loop written by hand
// does not make. So one that is read again and again is registered edge-triggered, like weft's own. But
// the user may close it by close(2), and the number may come back as something that epoll has never
// heard of; an op that relied on the registration would wait for ever. So reliance is a debt:
//
//   T1  An op that waits without telling epoll makes its slot doubtful. Telling epoll (MOD, or ADD where
//       that says ENOENT) is proof: it also reports what is ready already.
//   T2  An event is proof for those that it serves. If somebody still waits after it, it may have been
//       the event of an older file with this number, whose last duplicate is not closed yet: the slot
//       becomes doubtful again.
//   T3  Before the driver sleeps it proves what is doubtful, and what was doubtful for some looks at
//       epoll in a row it proves anyway. So under load, when the next events are there already, nearly
//       all proofs come for nothing, and an idle driver makes the same calls as with one shots.
//   T4  A Unix socket whose read came back short is most likely empty, but such a read also ends where
//       descriptors are attached. (recvmsg tells the difference, at a price of 160 ns.) Who waits there
//       relies on a guess, and proof is the same: epoll reports what is ready already.
//   T5  Events that nobody waits for wake the carrier for nothing. After a few in a row the descriptor
//       goes back to one shots.
//
// Rejected: to trust until close(), which only weft_close() would tell us about.
#include "io/epoll.h"

enum {
    TURNS_MOST = WEFT__SIZED(8, 2), ///< looks at epoll before a slot is proven anyway
    STRIKES_MOST = 3,
};

_Static_assert((WEFT__DOUBTS & (WEFT__DOUBTS - 1)) == 0, "a power of two");

/// What was registered is gone, or epoll cannot have it. The ops of the slot start anew, but not here:
/// this may be inside of submit().
static void start_anew(struct weft__epoll *e, struct weft__slot *slot, int fd)
{
    weft__slot_forget(e, slot, fd);
    weft__slot_list_add(&e->again, slot);
}

static bool is_open(const struct weft__slot *slot, const struct weft__doubt *doubt)
{
    return (slot->hints & WEFT__SLOT_DOUBTED) != 0 && slot->doubted_at == doubt->turn;
}

static void prove(struct weft__epoll *e, struct weft__slot *slot, int fd)
{
    weft__slot_drop(slot, WEFT__SLOT_DOUBTED);
    if (!weft__slot_is_idle(slot) && weft__slot_prove(e, slot, fd) < 0) {
        start_anew(e, slot, fd);
    }
}

/// Proves the oldest one that is left, unless it is younger than so many turns: then false.
static inline bool prove_first(struct weft__epoll *e, uint32_t turns)
{
    struct weft__doubts *doubts = &e->doubts;
    struct weft__doubt doubt = doubts->ring[doubts->first];
    struct weft__slot *slot = weft__slot_of(e, doubt.fd);
    bool open = is_open(slot, &doubt);
    if (open && e->turn - doubt.turn < turns) {
        return false;
    }
    doubts->first = (doubts->first + 1) & (WEFT__DOUBTS - 1);
    doubts->count--;
    if (weft__unlikely(open)) {
        prove(e, slot, doubt.fd);
    }
    return true;
}

void weft__slot_doubt(struct weft__epoll *e, struct weft__slot *slot, int fd)
{
    struct weft__doubts *doubts = &e->doubts;
    if ((slot->hints & WEFT__SLOT_DOUBTED) != 0) {
        return;
    }
    if (weft__unlikely(doubts->count == WEFT__DOUBTS)) {
        (void)prove_first(e, 0);
    }
    slot->hints |= WEFT__SLOT_DOUBTED;
    slot->doubted_at = e->turn;
    doubts->ring[(doubts->first + doubts->count++) & (WEFT__DOUBTS - 1)] = (struct weft__doubt){
        fd, e->turn
    };
}

void weft__doubts_age(struct weft__epoll *e)
{
    while (e->doubts.count > 0 && prove_first(e, TURNS_MOST)) {
    }
}

void weft__doubts_settle(struct weft__epoll *e)
{
    while (e->doubts.count > 0) {
        (void)prove_first(e, 0);
    }
}

void weft__slot_strike(struct weft__epoll *e, struct weft__slot *slot, int fd)
{
    if (++slot->strikes >= STRIKES_MOST) {
        slot->strikes = 0;
        weft__slot_demote(e, slot, fd);
    }
}
