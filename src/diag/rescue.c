// rescue.c - what is done for tasks whose carrier is stuck.
//
// The monitor does it all by itself, with what any thread may do: it empties the annex and the inbox
// (sched/annex.c), takes everything on offer, and puts it into the inbox of somebody who can run it. What
// it wakes on the way goes there by itself (sched/steal.c, H7).
//
// The spare carrier is a carrier like the others, in the crew's last place. It is made with them and
// sleeps, because a moment of trouble is a bad one for making threads and rings; nobody places a
// task there, it searches for nothing, and nobody is sent to it.
//
//   Z1  What runs on the spare carrier can come back: futures, and threads that were made migratable.
//       They keep their origin, and the next wake or yield after that has recovered takes them there.
//   Z2  A thread that is not migratable is not started there either, or it would stay for life; nor is
//       what a task spawns there (sched/spawn.c).
//   Z3  Somebody else is chosen first. If nobody is left, everything stays where it is.
//   Z4  Who makes something there that belongs to a carrier for good, a listener or a connection, goes home
//       first, to wait there like a thread that is not migratable; timers of its scopes go along
//       (sched/retire.c).
//   Z5  What waits for anybody and is not taken was in nobody's hands meanwhile. So it is announced when it is
//       back, and handed on if all who would look for it there have left (sched/policy_stealing.c, F6).
//   Z6  A thief that meets the monitor at an offer gives up, as if that were another thief; but the monitor
//       does not ask for help with what it leaves behind. It comes again while the carrier is marked, and
//       only the end of a step takes the mark off, which asks.
// Checked by: tests/model/rescue_model.c, tests/api/remedy_test.c.
#include "diag/rescue.h"

#include "base/sys.h"
#include "sched/annex.h"
#include "sched/park.h"
#include "sched/steal.h"

static bool may_help(const struct weft__crew *crew, struct weft__carrier *carrier,
                     const struct weft__carrier *stuck)
{
    bool near = crew->steals_globally || carrier->cluster == stuck->cluster || carrier->aside;
    return carrier != stuck && near && weft__tally_get(&carrier->stuck) == 0;
}

/// Z3: one that sleeps, or else the one with the least to do; the spare one only if it must be.
static struct weft__carrier *choose_helper(struct weft__crew *crew,
                                           const struct weft__carrier *stuck)
{
    struct weft__carrier *best = NULL;
    uint64_t least = UINT64_MAX;
    int count = weft__crew_active(crew);
    for (int i = 0; i < count; i++) {
        struct weft__carrier *carrier = &crew->carriers[i];
        uint64_t state = atomic_load_explicit(&carrier->state, memory_order_relaxed);
        uint64_t load = state == WEFT__CARRIER_PARKED ? 0
                                                      : 1 + weft__tally_get(&carrier->counts.ready);
        if (load < least && may_help(crew, carrier, stuck)) {
            best = carrier;
            least = load;
        }
    }
    return best != NULL ? best : may_help(crew, crew->spare, stuck) ? crew->spare : NULL;
}

/// Whatever the thread that we are on could take from an offer.
static bool may_move(const struct weft__task *task)
{
    return weft__task_may_move(task);
}

/// Under the work-stealing policy, what waits for anybody: nobody but the spare carrier is left.
static void take_injected(struct weft__carrier *stuck, struct weft__fifo *loot)
{
    struct weft__inject *inject = stuck->worker.inject; // of its cluster, if tasks keep to theirs
    struct weft__fifo all = { 0 };
    struct weft__fifo rest = { 0 };
    (void)weft__inject_take(inject, &all, weft__inject_count(inject));
    for (struct weft__node *node; (node = weft__fifo_pop(&all)) != NULL;) {
        bool ours = weft__spare_takes(weft__container_of(node, struct weft__task, node));
        weft__fifo_push(ours ? loot : &rest, node);
    }
    if (rest.head != NULL) {
        weft__inject_push(inject, &rest);
        weft__search_ask(stuck, NULL); // Z5: somebody may have come back, looked and found nothing
        weft__free_desert(stuck, NULL);
    }
}

static void send_all(struct weft__fifo *loot, struct weft__carrier *helper,
                     struct weft__carrier *stuck)
{
    for (struct weft__node *node; (node = weft__fifo_pop(loot)) != NULL;) {
        struct weft__task *task = weft__container_of(node, struct weft__task, node);
        bool stays = helper->aside && !weft__spare_takes(task);
        if (!stays) {
            weft__task_rehome(task, helper);
            weft__tally_shared(&helper->crew->rescued);
        }
        weft__put(stays ? stuck : helper, node, NULL); // then it is theirs, and may be gone
    }
}

void weft__rescue(struct weft__runtime *runtime, struct weft__carrier *stuck)
{
    struct weft__crew *crew = &runtime->crew;
    struct weft__carrier *helper = choose_helper(crew, stuck);
    if (helper == NULL) {
        return;
    }
    struct weft__fifo loot = { 0 };
    bool gone = weft__annex_rescue(stuck->annex, weft__clock_ns(),
                                   helper->aside ? weft__spare_takes : may_move, &loot);
    while (gone && weft__offer_steal(&stuck->offer, &loot) > 0) {
    }
    if (gone && weft__inject_count(&stuck->spill) > 0) {
        (void)weft__inject_take(&stuck->spill, &loot, SIZE_MAX);
    }
    if (gone && helper->aside && stuck->freely && weft__inject_count(stuck->worker.inject) > 0) {
        take_injected(stuck, &loot);
    }
    send_all(&loot, helper, stuck);
}
