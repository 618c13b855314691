// memory.c - what C11 lets an atomic operation do.
//
// The model is operational: threads take turns, and weakness comes from what a turn may see. A load
// may read any store that its thread's view does not rule out, a store may go before stores its
// thread does not know of. Ordering is views travelling in stores:
//
//   release store     carries all that its thread knows
//   relaxed store     carries what its thread knew at its last release fence
//   read-modify-write also carries what the store that it read carried (release sequence)
//   acquire load      takes over what the store carries
//   relaxed load      lays it aside for the next acquire fence
//   SC fence          exchanges what is known with all earlier SC fences; orders, but does not
//                     make anything happen before
//   SC access         agrees about its own location with earlier SC accesses and fences
//
// As in C++20, a release sequence is continued by read-modify-writes only, not by later stores of
// the same thread: weaker than C11's, so nothing is missed.
//
// Of several stores with one value, a load need not try one that teaches it more than another: who
// knows less can do all that who knows more can do, so nothing is missed.
//
// Not modelled: a load that reads a store not yet executed (load buffering). Compilers and
// processors may do that for relaxed accesses without dependencies; no protocol here has them.
#include "engine.h"

enum { MAX_OPTIONS = MC__HISTORY + 1 };

static bool is_acquire(int order)
{
    return order == __ATOMIC_ACQUIRE || order == __ATOMIC_CONSUME || order == __ATOMIC_ACQ_REL ||
           order == __ATOMIC_SEQ_CST;
}

static bool is_release(int order)
{
    return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

uint64_t mc__read_memory(const void *address, unsigned size)
{
    switch (size) {
    case 1: return *(const uint8_t *)address;
    case 2: return *(const uint16_t *)address;
    case 4: return *(const uint32_t *)address;
    default: return *(const uint64_t *)address;
    }
}

static void write_memory(void *address, unsigned size, uint64_t value)
{
    switch (size) {
    case 1: *(uint8_t *)address = (uint8_t)value; break;
    case 2: *(uint16_t *)address = (uint16_t)value; break;
    case 4: *(uint32_t *)address = (uint32_t)value; break;
    default: *(uint64_t *)address = value;
    }
}

static uint64_t truncate_to(uint64_t value, unsigned size)
{
    return size == 8 ? value : value & ((UINT64_C(1) << (8 * size)) - 1);
}

static uint64_t apply(enum mc__rmw_kind kind, uint64_t old, uint64_t operand)
{
    switch (kind) {
    case MC__ADD: return old + operand;
    case MC__SUB: return old - operand;
    case MC__AND: return old & operand;
    case MC__OR: return old | operand;
    case MC__XOR: return old ^ operand;
    case MC__NAND: return ~(old & operand);
    case MC__XCHG:
    default: return operand;
    }
}

// The earliest place in the history that an operation of this order may read or store after.
static uint32_t floor_for(const struct mc__location *where, int order)
{
    int index = mc__location_index(where);
    uint32_t seen = mc__self()->now.seen[index];
    if (order == __ATOMIC_SEQ_CST && mc__sc.seen[index] > seen) {
        return mc__sc.seen[index];
    }
    return seen;
}

static void watch(int location, uint32_t at)
{
    struct mc__thread *self = mc__self();
    int i = 0;
    while (i < self->watched_count && self->watched[i].location != location) {
        i++;
    }
    if (i == MC__WATCHED) {
        return;
    }
    self->watched[i].location = (uint8_t)location;
    self->watched[i].at = at;
    if (i == self->watched_count) {
        self->watched_count++;
    }
}

static void agree(int location, uint32_t at, int order)
{
    if (order == __ATOMIC_SEQ_CST && mc__sc.seen[location] < at) {
        mc__sc.seen[location] = at;
    }
}

static void take_in(struct mc__location *where, const struct mc__store *store, int order)
{
    struct mc__thread *self = mc__self();
    int location = mc__location_index(where);
    self->now.seen[location] = store->at;
    agree(location, store->at, order);
    watch(location, store->at);
    if (!store->carries_view) {
        return;
    }
    if (is_acquire(order)) {
        mc__view_join(&self->now, &store->view);
    } else {
        mc__view_join(&self->acquirable, &store->view);
        self->has_acquirable = true;
    }
}

static void give_out(struct mc__location *where, struct mc__store *store, uint64_t value, int order)
{
    struct mc__thread *self = mc__self();
    int location = mc__location_index(where);
    store->value = truncate_to(value, where->size);
    self->now.seen[location] = store->at;
    agree(location, store->at, order);
    watch(location, store->at);
    if (is_release(order)) {
        store->view = self->now;
        store->carries_view = true;
        mc__tick();
    } else if (self->has_released) {
        store->view = self->released;
        store->view.seen[location] = store->at;
        store->carries_view = true;
    }
    // H3
    if (store == mc__store_at(where, where->count - 1)) {
        write_memory(where->address, where->size, store->value);
    }
}

static void continue_sequence(struct mc__store *store, const struct mc__store *read)
{
    store->is_rmw = true;
    if (!read->carries_view) {
        return;
    }
    if (store->carries_view) {
        mc__view_join(&store->view, &read->view);
    } else {
        store->view = read->view;
    }
    store->carries_view = true;
}

static const char *staleness(const struct mc__location *where, int index)
{
    uint64_t newest = mc__store_at(where, where->count - 1)->value;
    return mc__store_at(where, index)->value == newest ? "" : "   <- stale";
}

// Whether reading `older` leaves all open that reading `newer`, with the same value, would.
static bool makes_needless(const struct mc__store *older, const struct mc__store *newer)
{
    if (older->value != newer->value || mc__never_prune) {
        return false;
    }
    return !older->carries_view ||
           (newer->carries_view && mc__view_within(&older->view, &newer->view));
}

static bool is_needless(const struct mc__location *where, int index, uint32_t floor)
{
    for (int i = index - 1; i >= 0 && mc__store_at(where, i)->at >= floor; i--) {
        if (makes_needless(mc__store_at(where, i), mc__store_at(where, index))) {
            return true;
        }
    }
    return false;
}

static uint64_t load_from(struct mc__location *where, int order, uint32_t floor)
{
    int readable[MC__HISTORY];
    int count = 0;
    for (int i = where->count - 1; i >= 0 && mc__store_at(where, i)->at >= floor; i--) {
        if (!is_needless(where, i, floor)) {
            readable[count++] = i;
        }
    }
    int index = readable[mc__choice(count)];
    const struct mc__store *store = mc__store_at(where, index);
    take_in(where, store, order);
    MC__TRACE("load %s = %s (%s)%s", mc__address_text(where->address), mc__value_text(store->value),
              mc__order_text(order), staleness(where, index));
    return store->value;
}

uint64_t mc__load(const volatile void *address, unsigned size, int order)
{
    void *plain = (void *)(uintptr_t)address;
    if (mc__me == MC__ALONE) {
        return mc__read_memory(plain, size);
    }
    mc__point();
    mc__atomic_access(plain, size, false);
    struct mc__location *where = mc__locate(plain, size);
    return load_from(where, order, floor_for(where, order));
}

// The kernel reads a futex word: it sees at least what `floor` knows, its caller learns nothing but
// the value.
uint64_t mc__kernel_load(const void *address, unsigned size, const struct mc__view *floor)
{
    void *plain = (void *)(uintptr_t)address;
    mc__atomic_access(plain, size, false);
    struct mc__location *where = mc__locate(plain, size);
    uint32_t known = floor->seen[mc__location_index(where)];
    uint32_t own = floor_for(where, __ATOMIC_RELAXED);
    return load_from(where, __ATOMIC_RELAXED, known > own ? known : own);
}

void mc__store(volatile void *address, unsigned size, uint64_t value, int order)
{
    void *plain = (void *)(uintptr_t)address;
    if (mc__me == MC__ALONE) {
        write_memory(plain, size, value);
        return;
    }
    mc__point();
    mc__atomic_access(plain, size, true);
    struct mc__location *where = mc__locate(plain, size);
    uint32_t floor = floor_for(where, order);
    int places[MC__HISTORY];
    int count = 0;
    for (int i = where->count - 1; i >= 0; i--) {
        if (mc__can_insert(where, i)) {
            places[count++] = i;
        }
        if (mc__store_at(where, i)->at <= floor) {
            break;
        }
    }
    int after = places[mc__choice(count)];
    mc__self()->has_changed |= mc__store_at(where, after)->value != truncate_to(value, size);
    struct mc__store *store = mc__insert(where, after);
    give_out(where, store, value, order);
    MC__TRACE("store %s := %s (%s)%s", mc__address_text(plain), mc__value_text(store->value),
              mc__order_text(order), after + 2 == where->count ? "" : "   <- before a newer store");
}

static void modify(struct mc__location *where, int index, uint64_t value, int order)
{
    const struct mc__store *read = mc__store_at(where, index);
    take_in(where, read, order);
    mc__self()->has_changed |= read->value != truncate_to(value, where->size);
    struct mc__store *store = mc__insert(where, index);
    give_out(where, store, value, order);
    continue_sequence(store, read);
}

uint64_t mc__rmw(volatile void *address, unsigned size, uint64_t operand, int order,
                 enum mc__rmw_kind kind)
{
    void *plain = (void *)(uintptr_t)address;
    if (mc__me == MC__ALONE) {
        uint64_t old = mc__read_memory(plain, size);
        write_memory(plain, size, apply(kind, old, operand));
        return old;
    }
    mc__point();
    mc__atomic_access(plain, size, true);
    struct mc__location *where = mc__locate(plain, size);
    uint32_t floor = floor_for(where, order);
    int sources[MC__HISTORY];
    int count = 0;
    for (int i = where->count - 1; i >= 0 && mc__store_at(where, i)->at >= floor; i--) {
        if (mc__can_insert(where, i)) { // H2
            sources[count++] = i;
        }
    }
    int index = sources[mc__choice(count)];
    uint64_t old = mc__store_at(where, index)->value;
    modify(where, index, apply(kind, old, operand), order);
    MC__TRACE("update %s: %s -> %s (%s)%s", mc__address_text(plain), mc__value_text(old),
              mc__value_text(mc__store_at(where, index + 1)->value), mc__order_text(order),
              staleness(where, index + 1));
    return old;
}

// What a compare-and-swap may do: exchange after a store that holds the expected value, or fail by
// reading one that does not, perhaps an old one.
struct option {
    int index;
    bool succeeds;
};

static int cas_options(struct option *options, const struct mc__location *where, uint64_t expected,
                       int success, int failure, bool may_fail_spuriously)
{
    uint32_t success_floor = floor_for(where, success);
    uint32_t failure_floor = floor_for(where, failure);
    int count = 0, spurious = -1;
    for (int i = where->count - 1; i >= 0; i--) {
        const struct mc__store *store = mc__store_at(where, i);
        bool equal = store->value == expected;
        if (equal && store->at >= success_floor && mc__can_insert(where, i)) {
            options[count++] = (struct option){ i, true };
        }
        if (!equal && store->at >= failure_floor && !is_needless(where, i, failure_floor)) {
            options[count++] = (struct option){ i, false };
        }
        if (equal && store->at >= failure_floor) {
            spurious = i; // the oldest one teaches the thread least
        }
        if (store->at < success_floor && store->at < failure_floor) {
            break;
        }
    }
    if (may_fail_spuriously && spurious >= 0) {
        options[count++] = (struct option){ spurious, false };
    }
    return count;
}

static bool cas_alone(void *address, unsigned size, void *expected, uint64_t desired)
{
    uint64_t old = mc__read_memory(address, size);
    if (old == mc__read_memory(expected, size)) {
        write_memory(address, size, desired);
        return true;
    }
    write_memory(expected, size, old);
    return false;
}

bool mc__cas(volatile void *address, unsigned size, void *expected, uint64_t desired, int success,
             int failure, bool is_weak)
{
    void *plain = (void *)(uintptr_t)address;
    if (mc__me == MC__ALONE) {
        return cas_alone(plain, size, expected, desired);
    }
    mc__point();
    mc__atomic_access(plain, size, false);
    uint64_t wanted = mc__read_memory(expected, size);
    struct mc__location *where = mc__locate(plain, size);
    struct option options[MAX_OPTIONS];
    struct mc__thread *self = mc__self();
    int count = cas_options(options, where, wanted, success, failure,
                            is_weak && self->spurious_left > 0);
    struct option option = options[mc__choice(count)];
    uint64_t old = mc__store_at(where, option.index)->value;
    if (option.succeeds) {
        mc__atomic_access(plain, size, true);
        modify(where, option.index, desired, success);
    } else {
        take_in(where, mc__store_at(where, option.index), failure);
        if (old == wanted) {
            self->spurious_left--;
        }
        write_memory(expected, size, old);
    }
    MC__TRACE("cas %s: %s -> %s %s (%s)", mc__address_text(plain), mc__value_text(wanted),
              mc__value_text(desired),
              option.succeeds ? "done"
              : old == wanted ? "failed spuriously"
                              : "failed",
              mc__order_text(option.succeeds ? success : failure));
    if (!option.succeeds && old != wanted) {
        MC__TRACE("    found %s%s", mc__value_text(old), staleness(where, option.index));
    }
    return option.succeeds;
}

void mc__fence(int order)
{
    if (mc__me == MC__ALONE || order == __ATOMIC_RELAXED) {
        return;
    }
    // Only SC fences meet other threads; the others change what this thread alone holds.
    if (order == __ATOMIC_SEQ_CST) {
        mc__point();
    }
    struct mc__thread *self = mc__self();
    if (is_acquire(order) && self->has_acquirable) {
        mc__view_join(&self->now, &self->acquirable);
    }
    if (order == __ATOMIC_SEQ_CST) {
        mc__view_join_seen(&self->now, &mc__sc);
        mc__view_join_seen(&mc__sc, &self->now);
    }
    if (is_release(order)) {
        self->released = self->now;
        self->has_released = true;
        mc__tick();
    }
    MC__TRACE("fence (%s)", mc__order_text(order));
}
