// place.c - which carrier has less to do.
//
// Load is what a carrier published when its last step began, the tasks ready there, plus what was
// placed on it since: without the latter a burst of spawns would all see the same idle carrier.
//
// Rejected: the number of tasks that live there, because a thousand idle connections are no load;
// the least loaded of all, because everyone would choose the same one, and look at every carrier's
// memory to find it.
#include "base/rng.h"
#include "sched/crew.h"

static uint64_t load_of(struct weft__carrier *carrier, const struct weft__carrier *self)
{
    uint64_t offered = carrier->shares ? weft__carrier_offered(carrier) : 0;
    if (carrier == self) {
        return carrier->local.count + offered + 1; // and whoever is spawning
    }
    uint64_t seen = weft__tally_get(&carrier->counts.placed_seen);
    uint64_t placed = weft__tally_get(&carrier->placed);
    uint64_t coming = placed > seen ? placed - seen : 0; // nothing orders the two reads
    return weft__tally_get(&carrier->counts.ready) + offered + coming;
}

struct weft__carrier *weft__place_lighter(struct weft__crew *crew, struct weft__carrier *self)
{
    uint32_t count = (uint32_t)weft__crew_active(crew);
    // Task numbers make good seeds: they never repeat, and they do in the simulator what they did
    // the last time.
    struct weft__rng rng = { self != NULL ? (uint64_t)self->number << 32 ^ self->next_id
                                          : weft__tally_get(&crew->foreign_ids) };
    uint32_t first = weft__rng_below(&rng, count);
    if (count == 1) {
        return &crew->carriers[0];
    }
    uint32_t second = weft__rng_below(&rng, count - 1);
    second += second >= first;
    struct weft__carrier *a = &crew->carriers[first];
    struct weft__carrier *b = &crew->carriers[second];
    uint64_t load_a = load_of(a, self);
    uint64_t load_b = load_of(b, self);
    struct weft__carrier *chosen = load_b < load_a || (load_b == load_a && b == self) ? b : a;
    if (chosen != self) {
        weft__tally_shared(&chosen->placed);
    }
    return chosen;
}
