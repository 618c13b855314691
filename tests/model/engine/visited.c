// visited.c - states that need not be explored twice.
//
// Two interleavings that differ only in the order of independent operations meet in one state, and
// everything after it is the same. The state's hash covers what the future depends on: each
// thread's history (a hash of all it observed, where a store is named by its writer's history),
// the modification orders, what SC fences agreed on, who sleeps where, and who runs. Fewer
// preemptions used so far allow more futures, so the least number seen is kept with the state.
//
// Two different states with one 61-bit hash would hide executions: with ten million states the
// chance is about one in forty thousand, and random mode does not use this table.
#include <stdlib.h>
#include <string.h>

#include "engine.h"

enum { FIRST_BITS = 12, MOST_BITS = 24, PREEMPTION_MASK = 7 };

static uint64_t *table;
static unsigned bits;
static size_t used;
static bool remember;

void mc__visited_clear(bool new_remember)
{
    remember = new_remember;
    free(table);
    bits = FIRST_BITS;
    used = 0;
    table = calloc((size_t)1 << bits, sizeof *table);
    if (table == NULL) {
        abort();
    }
}

static uint64_t *slot_of(uint64_t *in, unsigned in_bits, uint64_t key)
{
    size_t mask = ((size_t)1 << in_bits) - 1;
    size_t i = (size_t)(key >> 3) & mask;
    while (in[i] != 0 && (in[i] ^ key) > PREEMPTION_MASK) {
        i = (i + 1) & mask;
    }
    return &in[i];
}

static void grow(void)
{
    uint64_t *bigger = calloc((size_t)2 << bits, sizeof *bigger);
    if (bigger == NULL) {
        return;
    }
    for (size_t i = 0; i < (size_t)1 << bits; i++) {
        if (table[i] != 0) {
            *slot_of(bigger, bits + 1, table[i]) = table[i];
        }
    }
    free(table);
    table = bigger;
    bits++;
}

bool mc__visited_before(uint64_t state, unsigned preemptions)
{
    if (!remember || preemptions > PREEMPTION_MASK) {
        return false;
    }
    uint64_t key = (state | 8) & ~(uint64_t)PREEMPTION_MASK;
    if (used >= ((size_t)3 << bits) / 4 && bits < MOST_BITS) {
        grow();
    }
    uint64_t *slot = slot_of(table, bits, key);
    if (*slot != 0 && (*slot & PREEMPTION_MASK) <= preemptions) {
        return true;
    }
    if (*slot == 0) {
        if (used >= ((size_t)7 << bits) / 8) {
            return false; // full: explore without remembering
        }
        used++;
    }
    *slot = key | preemptions;
    return false;
}
