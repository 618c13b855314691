// chance.h - what random programs draw, each from a state of its own.
#ifndef WEFT_TEST_CHANCE_H
#define WEFT_TEST_CHANCE_H

#include "support/test.h"

#include <weft.h>

/// A number from 0 to `limit` - 1.
static inline uint64_t below(uint64_t *random, uint64_t limit)
{
    return test_random(random) % limit;
}

/// Soon, one time in three, or in a while.
static inline weft_time some_deadline(uint64_t *random)
{
    return weft_after(below(random, 3) == 0 ? below(random, 200 * WEFT_US) : WEFT_MS);
}

#endif
