// history.c - atomic locations, the stores made to them, and views.
//
// A location's stores stand in modification order. That order need not be the order of execution:
// a store may go before another one that its thread does not know of. So a store's place is a
// number with gaps, a view names a place per location, and places never change.
//
//   H1  A thread reads no store that lies before its view, and stores after its view.
//   H2  Nothing is inserted between a read-modify-write and the store that it read.
//   H3  Real memory holds the value of the last store, so that code that may access it without
//       atomics (all stores happened before) finds the right value there.
//
// A location exists from its first atomic access on; what was in memory then is its first store
// and visible to all. A plain write to it (initialising recycled memory, memset) becomes a store
// that only those see who know of it; the hook is called before the write, so the value is fetched
// from memory when it is needed.
#include "engine.h"

enum { GAP = 1 << 16 };

struct mc__location mc__locations[MC__LOCATIONS];
int mc__location_count;
struct mc__store mc__stores[MC__STORES];
struct mc__view mc__sc;
static int store_count;

void mc__history_reset(void)
{
    mc__location_count = 0;
    store_count = 0;
    mc__sc = (struct mc__view){ 0 };
}

void mc__view_join_seen(struct mc__view *into, const struct mc__view *from)
{
    for (int i = 0; i < mc__location_count; i++) {
        into->seen[i] = into->seen[i] < from->seen[i] ? from->seen[i] : into->seen[i];
    }
}

void mc__view_join(struct mc__view *into, const struct mc__view *from)
{
    mc__view_join_seen(into, from);
    for (int i = 0; i < MC__THREADS; i++) {
        into->clock[i] = into->clock[i] < from->clock[i] ? from->clock[i] : into->clock[i];
    }
}

bool mc__view_within(const struct mc__view *smaller, const struct mc__view *bigger)
{
    for (int i = 0; i < mc__location_count; i++) {
        if (smaller->seen[i] > bigger->seen[i]) {
            return false;
        }
    }
    for (int i = 0; i < MC__THREADS; i++) {
        if (smaller->clock[i] > bigger->clock[i]) {
            return false;
        }
    }
    return true;
}

static struct mc__store *new_store(void)
{
    if (store_count == MC__STORES) {
        mc_fail("livelock: more than %d stores", MC__STORES);
    }
    struct mc__store *store = &mc__stores[store_count++];
    store->is_rmw = store->is_pending = store->carries_view = false;
    return store;
}

// Needs room for one more number on either side; sixteen insertions into one gap use it up.
bool mc__can_insert(const struct mc__location *where, int after)
{
    if (after == where->count - 1) {
        return true;
    }
    const struct mc__store *next = mc__store_at(where, after + 1);
    return !next->is_rmw && next->at - mc__store_at(where, after)->at >= 2;
}

// Adds a store after the one at index `after`; -1 for the first.
struct mc__store *mc__insert(struct mc__location *where, int after)
{
    if (where->count == MC__HISTORY) {
        mc_fail("livelock: more than %d stores to %s", MC__HISTORY,
                mc__address_text(where->address));
    }
    uint32_t before = after >= 0 ? mc__store_at(where, after)->at : 0;
    bool is_last = after == where->count - 1;
    uint32_t at = is_last ? before + GAP
                          : before + (mc__store_at(where, after + 1)->at - before) / 2;
    struct mc__store *store = new_store();
    store->at = at;
    for (int i = where->count; i > after + 1; i--) {
        where->order[i] = where->order[i - 1];
    }
    where->order[after + 1] = (uint16_t)(store - mc__stores);
    where->count++;
    return store;
}

void mc__fetch_pending(struct mc__location *where)
{
    struct mc__store *last = mc__store_at(where, where->count - 1);
    if (last->is_pending) {
        last->value = mc__read_memory(where->address, where->size);
        last->is_pending = false;
    }
}

// A plain write covered this location. The race detector has made sure that the writer knows of
// all its stores, so there is one place for it.
void mc__plain_store(int index)
{
    struct mc__location *where = &mc__locations[index];
    struct mc__store *last = mc__store_at(where, where->count - 1);
    if (!last->is_pending) {
        last = mc__insert(where, where->count - 1);
        last->is_pending = true;
    }
    mc__self()->now.seen[index] = last->at;
}

static struct mc__location *new_location(char *address, unsigned size)
{
    if (mc__location_count == MC__LOCATIONS) {
        mc_fail("model too big: more than %d atomic locations", MC__LOCATIONS);
    }
    struct mc__location *where = &mc__locations[mc__location_count++];
    where->address = address;
    where->size = (uint8_t)size;
    where->count = 0;
    where->is_retired = false;
    struct mc__store *first = mc__insert(where, -1);
    first->value = mc__read_memory(address, size);
    return where;
}

// Another size at the same place is legal only when the memory has become something else: then
// its user knows all that happened to it before.
static void retire(struct mc__location *where)
{
    uint32_t last = mc__store_at(where, where->count - 1)->at;
    if (mc__self()->now.seen[mc__location_index(where)] < last) {
        mc_fail("mixed sizes: atomic accesses of different size to %s",
                mc__address_text(where->address));
    }
    where->is_retired = true;
    uint8_t *slots = mc__location_slots(where->address);
    for (unsigned i = 0; i < where->size; i++) {
        slots[((uintptr_t)where->address & 7) + i] = 0;
    }
}

struct mc__location *mc__locate(void *address, unsigned size)
{
    unsigned offset = (uintptr_t)address & 7;
    if (offset % size != 0) {
        mc_fail("misaligned atomic access to %s", mc__address_text(address));
    }
    uint8_t *slots = mc__location_slots(address) + offset;
    for (unsigned i = 0; i < size; i++) {
        if (slots[i] == 0) {
            continue;
        }
        struct mc__location *where = &mc__locations[slots[i] - 1];
        if (where->address == address && where->size == size) {
            mc__fetch_pending(where);
            return where;
        }
        retire(where);
    }
    struct mc__location *where = new_location(address, size);
    for (unsigned i = 0; i < size; i++) {
        slots[i] = (uint8_t)(mc__location_index(where) + 1);
    }
    return where;
}
