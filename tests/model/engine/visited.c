// visited.c - the states that were explored already, and those on the way to the present one.
//
// Fewer preemptions used so far allow more futures, so the least number seen is kept with a state.
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

void mc__visited_clear(void)
{
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
    if (mc__never_prune || preemptions > PREEMPTION_MASK) {
        return false;
    }
    uint64_t key = state & ~(uint64_t)PREEMPTION_MASK;
    key = key == 0 ? ~(uint64_t)PREEMPTION_MASK : key; // 0 marks a free slot
    if (used >= ((size_t)5 << bits) / 8 && bits < MOST_BITS) {
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

// The way: states of the present execution, with the number of choices made before each. The part
// that repeats the execution before keeps its states.

static struct {
    uint64_t state;
    int choices;
} path[MC__MAX_STEPS];
static int path_length;

void mc__path_rewind(int choices)
{
    while (path_length > 0 && path[path_length - 1].choices >= choices) {
        path_length--;
    }
}

void mc__path_add(uint64_t state, int choices)
{
    if (path_length < MC__MAX_STEPS) {
        path[path_length].state = state;
        path[path_length++].choices = choices;
    }
}

bool mc__path_has(uint64_t state)
{
    for (int i = 0; i < path_length; i++) {
        if (path[i].state == state) {
            return true;
        }
    }
    return false;
}
