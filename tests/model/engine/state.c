// state.c - the hash of all that the rest of an execution depends on.
//
// Many executions pass through the same state: independent operations in another order, a loop that
// went round once more, a stale value that made no difference. From there on they are alike, so
// only the first goes on (visited.c). The hash must cover everything that matters and should cover
// nothing that does not:
//
//   threads     registers, live stack, status, views, the words a spin loop reads
//   memory      what threads have touched; its last accesses, for the race detector
//   locations   the stores that a live thread can still read, and the views they carry
//   world       tokens, wake-ups, allocations; what SC operations agreed on
//
//   Z1  Views and stores are named by their rank among the stores that still count, not by their
//       number, and locations by address: neither depends on how long the history is.
//   Z2  A clock is named by the number of views that do not cover it. An access that all threads
//       know of no longer counts.
//
// A state that occurs twice in one execution is a cycle: nothing keeps it from going round for
// ever. That is reported as a livelock. Spin loops that wait for others do not get here, because
// mc_relax() rests until there is something new to see.
//
// Rejected: hashing what each thread has observed so far (simple, but a loop that went round once
// more never meets the others again: models with a carrier loop were ten to a hundred times as
// big).
#include "engine.h"

struct mc__entry mc__entry;

static uint16_t first[MC__LOCATIONS];      // first store that counts
static uint8_t interesting[MC__LOCATIONS]; // locations with more than one such store
static int interesting_count;
uint8_t mc__rank[MC__THREADS][MC__MAX_STEPS + 2];
uint16_t mc__known_to_all[MC__THREADS];
static uint64_t chosen_in_setup;

void mc__state_reset(void)
{
    chosen_in_setup = 0;
}

void mc__state_note_choice(int choice)
{
    chosen_in_setup = mc__mix(chosen_in_setup, (uint64_t)choice + 1);
}

static bool is_live(const struct mc__thread *thread)
{
    return thread->status != MC__ENDED;
}

static int index_at(const struct mc__location *where, uint32_t at)
{
    int index = where->count - 1;
    while (index > 0 && mc__store_at(where, index)->at > at) {
        index--;
    }
    return index;
}

// Z1
static void find_stores_that_count(void)
{
    interesting_count = 0;
    for (int i = 0; i < mc__location_count; i++) {
        struct mc__location *where = &mc__locations[i];
        uint32_t floor = UINT32_MAX;
        if (where->is_retired) {
            continue;
        }
        for (int t = 0; t < mc__thread_count; t++) {
            if (is_live(&mc__threads[t]) && mc__threads[t].now.seen[i] < floor) {
                floor = mc__threads[t].now.seen[i];
            }
        }
        mc__fetch_pending(where);
        first[i] = (uint16_t)index_at(where, floor);
        if (first[i] + 1 < where->count) {
            interesting[interesting_count++] = (uint8_t)i;
        }
    }
}

static void mark(const struct mc__view *view)
{
    for (int t = 0; t < mc__thread_count; t++) {
        mc__rank[t][view->clock[t]] = 1;
    }
}

static void visit_views(void (*visit)(const struct mc__view *view))
{
    for (int t = 0; t < mc__thread_count; t++) {
        const struct mc__thread *thread = &mc__threads[t];
        if (!is_live(thread)) {
            continue;
        }
        visit(&thread->now);
        if (thread->has_acquirable) {
            visit(&thread->acquirable);
        }
        if (thread->has_released) {
            visit(&thread->released);
        }
    }
    for (int i = 0; i < mc__location_count; i++) {
        const struct mc__location *where = &mc__locations[i];
        for (int j = first[i]; j < where->count && !where->is_retired; j++) {
            if (mc__store_at(where, j)->carries_view) {
                visit(&mc__store_at(where, j)->view);
            }
        }
    }
    mc__world_views(visit);
}

// Z2
static void rank_clocks(void)
{
    for (int t = 0; t < mc__thread_count; t++) {
        unsigned own = mc__threads[t].now.clock[t];
        for (unsigned i = 0; i <= own; i++) {
            mc__rank[t][i] = 0;
        }
        mc__known_to_all[t] = UINT16_MAX;
        for (int u = 0; u < mc__thread_count; u++) {
            uint16_t known = mc__threads[u].now.clock[t];
            if (u != t && is_live(&mc__threads[u]) && known < mc__known_to_all[t]) {
                mc__known_to_all[t] = known;
            }
        }
    }
    visit_views(mark);
    for (int t = 0; t < mc__thread_count; t++) {
        unsigned own = mc__threads[t].now.clock[t];
        uint8_t smaller = 0;
        for (unsigned i = 0; i <= own; i++) {
            uint8_t here = mc__rank[t][i];
            mc__rank[t][i] = smaller;
            smaller = (uint8_t)(smaller + here);
        }
    }
}

uint64_t mc__view_hash(const struct mc__view *view)
{
    uint64_t clocks = 0, places = 0;
    for (int t = 0; t < mc__thread_count; t++) {
        clocks = clocks << 8 | mc__rank[t][view->clock[t]];
    }
    for (int i = 0; i < interesting_count; i++) {
        int location = interesting[i];
        const struct mc__location *where = &mc__locations[location];
        int place = index_at(where, view->seen[location]) - first[location];
        if (place > 0) {
            places += mc__mix((uintptr_t)where->address, (uint64_t)place);
        }
    }
    return mc__mix(clocks, places);
}

static uint64_t hash_locations(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < mc__location_count; i++) {
        const struct mc__location *where = &mc__locations[i];
        uint64_t hash = (uintptr_t)where->address;
        if (where->is_retired) {
            continue;
        }
        for (int j = first[i]; j < where->count; j++) {
            const struct mc__store *store = mc__store_at(where, j);
            uint64_t view = store->carries_view ? mc__view_hash(&store->view) : 0;
            hash = mc__mix(hash, store->value);
            hash = mc__mix(hash, view << 1 | (store->is_rmw && j > first[i]));
        }
        sum += hash;
    }
    return sum;
}

static uint64_t hash_local_state(int id)
{
    const struct mc__thread *thread = &mc__threads[id];
    const struct mc__entry *entry = &thread->entry;
    uint64_t hash = mc__mix(entry->rsp, entry->arguments[0]);
    hash = mc__mix(hash, entry->arguments[1]);
    hash = mc__mix(hash, entry->arguments[2]);
    for (size_t i = 0; i < sizeof entry->preserved / sizeof *entry->preserved; i++) {
        hash = mc__mix(hash, entry->preserved[i]);
    }
    const uint64_t *word = (const uint64_t *)entry->rsp;
    const uint64_t *top = (const uint64_t *)(const void *)mc__stack_top(id);
    for (; word != NULL && word < top; word++) {
        hash = (hash ^ *word) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
    }
    return hash;
}

static uint64_t hash_watched(const struct mc__thread *thread)
{
    uint64_t sum = 0;
    for (int i = 0; i < thread->watched_count; i++) {
        int location = thread->watched[i].location;
        const struct mc__location *where = &mc__locations[location];
        int place = index_at(where, thread->watched[i].at) - first[location];
        sum += mc__mix((uintptr_t)where->address, (uint64_t)(place > 0 ? place : 0));
    }
    return sum;
}

static uint64_t hash_thread(int id)
{
    const struct mc__thread *thread = &mc__threads[id];
    if (!is_live(thread)) {
        return mc__mix((uint64_t)id, 0x656e64);
    }
    uint64_t flags = (uint64_t)thread->status | (uint64_t)thread->phase << 8 |
                     (uint64_t)thread->spurious_left << 16 | (uint64_t)thread->may_time_out << 20 |
                     (uint64_t)thread->has_changed << 21;
    if (thread->rests > 0) {
        flags |= (uint64_t)thread->must_run_first << 24 | (uint64_t)thread->ran_since << 32 |
                 (uint64_t)thread->runnable_since << 40 | (uint64_t)thread->rests << 48;
    }
    uint64_t hash = mc__mix(hash_local_state(id), flags);
    hash = mc__mix(hash, (uintptr_t)thread->blocked_on);
    hash = mc__mix(hash, mc__view_hash(&thread->now));
    hash = mc__mix(hash, thread->has_acquirable ? mc__view_hash(&thread->acquirable) : 0);
    hash = mc__mix(hash, thread->has_released ? mc__view_hash(&thread->released) : 0);
    return mc__mix(hash, hash_watched(thread) + (uint64_t)id);
}

uint64_t mc__state_hash(bool voluntary)
{
    find_stores_that_count();
    rank_clocks();
    uint64_t hash = mc__mix(chosen_in_setup, (uint64_t)(mc__me + 1) << 1 | voluntary);
    for (int t = 0; t < mc__thread_count; t++) {
        hash = mc__mix(hash, hash_thread(t));
    }
    hash = mc__mix(hash, hash_locations());
    hash = mc__mix(hash, mc__view_hash(&mc__sc));
    hash = mc__mix(hash, mc__shadow_hash());
    return mc__mix(hash, mc__world_hash());
}
