// shadow.c - plain accesses: data races and dead memory.
//
// For each byte and thread the shadow keeps the clock of the last plain and atomic read and write.
// An access that conflicts with one that is not in its thread's clock is a race. That needs no
// exploration of its own: two unordered accesses are found whichever comes first, so threads do
// not change places at plain accesses.
//
// What setup does is not recorded: it happened before everything.
#include <string.h>

#include "engine.h"

enum { GRANULE = 8, TABLE_BITS = 12, TABLE_SIZE = 1 << TABLE_BITS };

enum kind { PLAIN_READ, PLAIN_WRITE, ATOMIC_READ, ATOMIC_WRITE, KINDS, DEATH = KINDS };

struct granule {
    uintptr_t key;
    uint64_t execution; // contents are valid in this execution only
    uint8_t forbidden;  // a bit per byte
    uint8_t location[GRANULE];
    uint16_t latest[MC__THREADS]; // of all its accesses here: mostly this is all we need to know
    uint16_t last[KINDS][MC__THREADS][GRANULE];
};

static struct granule table[TABLE_SIZE];
static struct granule *touched[TABLE_SIZE]; // in this execution
static uint64_t execution = 1;
static int used;

// Which earlier accesses an access collides with.
static const uint8_t conflicts[KINDS + 1] = {
    [PLAIN_READ] = 1 << PLAIN_WRITE | 1 << ATOMIC_WRITE,
    [PLAIN_WRITE] = 1 << PLAIN_READ | 1 << PLAIN_WRITE | 1 << ATOMIC_READ | 1 << ATOMIC_WRITE,
    [ATOMIC_READ] = 1 << PLAIN_WRITE,
    [ATOMIC_WRITE] = 1 << PLAIN_READ | 1 << PLAIN_WRITE,
    [DEATH] = 1 << PLAIN_READ | 1 << PLAIN_WRITE | 1 << ATOMIC_READ | 1 << ATOMIC_WRITE,
};

static const char *const names[KINDS] = {
    [PLAIN_READ] = "read",
    [PLAIN_WRITE] = "write",
    [ATOMIC_READ] = "atomic read",
    [ATOMIC_WRITE] = "atomic write",
};

void mc__shadow_reset(void)
{
    execution++;
    used = 0;
}

static struct granule *granule_of(const void *address)
{
    uintptr_t key = (uintptr_t)address / GRANULE;
    unsigned i = (unsigned)((key * 0x9E3779B97F4A7C15u) >> (64 - TABLE_BITS));
    for (;; i = (i + 1) % TABLE_SIZE) {
        struct granule *granule = &table[i];
        if (granule->execution != execution) {
            if (used == TABLE_SIZE - 1) {
                mc_fail("model too big: it touches more than %d bytes", TABLE_SIZE * GRANULE);
            }
            touched[used++] = granule;
            *granule = (struct granule){ .key = key, .execution = execution };
            return granule;
        }
        if (granule->key == key) {
            return granule;
        }
    }
}

uint8_t *mc__location_slots(const void *address)
{
    return granule_of(address)->location;
}

static void report(const void *address, enum kind now, int other, enum kind before)
{
    const char *where = mc__address_text(address);
    if (now == DEATH) {
        MC__TRACE("%s dies   <- T%d's %s is not ordered before", where, other, names[before]);
        mc_fail("dead memory: T%d's %s of %s is not ordered before T%d ends its life", other,
                names[before], where, mc__me);
    }
    MC__TRACE("%s %s   <- races with T%d's %s", names[now], where, other, names[before]);
    mc_fail("data race: T%d's %s of %s is not ordered after T%d's %s", mc__me, names[now], where,
            other, names[before]);
}

static void check_races(struct granule *granule, unsigned from, unsigned to, enum kind now)
{
    for (int other = 0; other < mc__thread_count; other++) {
        if (other == mc__me) {
            continue;
        }
        uint16_t known = mc__self()->now.clock[other];
        if (granule->latest[other] <= known) {
            continue;
        }
        for (int before = 0; before < KINDS; before++) {
            if ((conflicts[now] >> before & 1) == 0) {
                continue;
            }
            const uint16_t *last = granule->last[before][other];
            for (unsigned i = from; i < to; i++) {
                if (last[i] > known) {
                    report((const char *)(granule->key * GRANULE) + i, now, other,
                           (enum kind)before);
                }
            }
        }
    }
}

static unsigned mask_of(unsigned from, unsigned to)
{
    return (0xFFu >> (GRANULE - (to - from))) << from;
}

static void touch(struct granule *granule, unsigned from, unsigned to, enum kind kind)
{
    const char *start = (const char *)(granule->key * GRANULE);
    int owner = mc__stack_owner(start);
    if (owner >= 0 && owner != mc__me) {
        mc__check_frame(owner, (uintptr_t)start + from, (uintptr_t)start + to);
    }
    if ((granule->forbidden & mask_of(from, to)) != 0) {
        const char *where = mc__address_text(start + from);
        MC__TRACE("%s %s   <- dead", names[kind], where);
        mc_fail("dead memory: %s of %s by T%d", names[kind], where, mc__me);
    }
    check_races(granule, from, to, kind);
    uint16_t now = mc__self()->now.clock[mc__me];
    granule->latest[mc__me] = now;
    for (unsigned i = from; i < to; i++) {
        granule->last[kind][mc__me][i] = now;
    }
}

// Calls `visit` for each granule of a range with the bytes of it that belong to the range.
static void walk(const void *start, size_t size_bytes,
                 void (*visit)(struct granule *, unsigned from, unsigned to))
{
    uintptr_t address = (uintptr_t)start, end = address + size_bytes;
    while (address < end) {
        uintptr_t next = (address / GRANULE + 1) * GRANULE;
        unsigned from = address % GRANULE;
        unsigned to = next <= end ? GRANULE : (unsigned)(end % GRANULE);
        visit(granule_of((const void *)address), from, to);
        address = next;
    }
}

static void visit_read(struct granule *granule, unsigned from, unsigned to)
{
    touch(granule, from, to, PLAIN_READ);
}

static void visit_write(struct granule *granule, unsigned from, unsigned to)
{
    touch(granule, from, to, PLAIN_WRITE);
    unsigned previous = 0;
    for (unsigned i = from; i < to; i++) {
        unsigned slot = granule->location[i];
        if (slot != 0 && slot != previous) {
            mc__plain_store((int)slot - 1);
        }
        previous = slot;
    }
}

void mc__plain(const volatile void *address, size_t size_bytes, bool is_write)
{
    if (mc__me != MC__ALONE) {
        walk((const void *)(uintptr_t)address, size_bytes, is_write ? visit_write : visit_read);
    }
}

void mc__atomic_access(const void *address, unsigned size, bool is_write)
{
    unsigned from = (uintptr_t)address % GRANULE;
    touch(granule_of(address), from, from + size, is_write ? ATOMIC_WRITE : ATOMIC_READ);
}

static void visit_death(struct granule *granule, unsigned from, unsigned to)
{
    check_races(granule, from, to, DEATH);
}

// The range dies: what others did there must have happened before.
void mc__check_death(const void *start, size_t size_bytes)
{
    walk(start, size_bytes, visit_death);
}

static void visit_forbid(struct granule *granule, unsigned from, unsigned to)
{
    if ((granule->forbidden & mask_of(from, to)) != 0) {
        mc_fail("dead memory: %s dies twice",
                mc__address_text((const char *)(granule->key * GRANULE) + from));
    }
    if (mc__me != MC__ALONE) {
        check_races(granule, from, to, DEATH);
    }
    granule->forbidden |= (uint8_t)mask_of(from, to);
}

static void visit_allow(struct granule *granule, unsigned from, unsigned to)
{
    granule->forbidden &= (uint8_t)~mask_of(from, to);
}

// Both are points where others may run: the order of a death and a late access decides.
void mc__forbid(const void *start, size_t size_bytes)
{
    mc__called_from(__builtin_return_address(0));
    mc__point();
    MC__TRACE("%s dies (%zu bytes)", mc__address_text(start), size_bytes);
    walk(start, size_bytes, visit_forbid);
}

void mc__allow(const void *start, size_t size_bytes)
{
    mc__called_from(__builtin_return_address(0));
    mc__point();
    MC__TRACE("%s lives again (%zu bytes)", mc__address_text(start), size_bytes);
    walk(start, size_bytes, visit_allow);
}

// The last accesses of one kind by one thread, as far as somebody does not know of them. Mostly
// there are none, or all bytes were accessed at once.
static uint64_t hash_row(int thread, const uint16_t *row)
{
    uint64_t half[2];
    memcpy(half, row, sizeof half);
    if ((half[0] | half[1]) == 0) {
        return 0;
    }
    if (half[0] == half[1] && half[0] == row[0] * UINT64_C(0x0001000100010001)) {
        return mc__clock_rank(thread, row[0]) * UINT64_C(0x0101010101010101);
    }
    uint64_t ranks = 0;
    for (int i = 0; i < GRANULE; i++) {
        ranks = ranks << 8 | (row[i] == 0 ? 0 : mc__clock_rank(thread, row[i]));
    }
    return ranks;
}

// Live stacks are hashed as a whole, atomic locations store by store.
static uint64_t hash_content(const struct granule *granule)
{
    const uint8_t *bytes = (const uint8_t *)(granule->key * GRANULE);
    uint64_t locations, content = 0;
    memcpy(&locations, granule->location, sizeof locations);
    if (locations == 0) {
        memcpy(&content, bytes, sizeof content);
        return content;
    }
    for (int i = 0; i < GRANULE; i++) {
        content = content << 8 | (granule->location[i] == 0 ? bytes[i] : 0);
    }
    return content;
}

static uint64_t hash_granule(const struct granule *granule)
{
    uintptr_t start = granule->key * GRANULE;
    int owner = mc__stack_owner((const void *)start);
    if (owner >= 0 && mc__is_dead_frame(owner, start)) {
        return 0;
    }
    uint64_t hash = granule->forbidden;
    if (owner < 0) {
        hash = mc__mix(hash, hash_content(granule));
    }
    for (int t = 0; t < mc__thread_count; t++) {
        if (mc__clock_rank(t, granule->latest[t]) == 0) {
            continue;
        }
        for (int kind = 0; kind < KINDS; kind++) {
            uint64_t ranks = hash_row(t, granule->last[kind][t]);
            hash = ranks != 0 ? mc__mix(hash, ranks ^ (unsigned)(t * KINDS + kind)) : hash;
        }
    }
    return hash == 0 ? 0 : mc__mix(granule->key, hash);
}

uint64_t mc__shadow_hash(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < used; i++) {
        sum += hash_granule(touched[i]);
    }
    return sum;
}
