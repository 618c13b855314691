// rng.h - a small, fast, seedable generator (splitmix64). Not for secrets.
#ifndef WEFT_BASE_RNG_H
#define WEFT_BASE_RNG_H

#include "base/base.h"

struct weft__rng {
    uint64_t state; // any value is a seed
};

static inline uint64_t weft__rng_next(struct weft__rng *rng)
{
    uint64_t z = (rng->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/// A number below `limit`, which is not 0; fair enough for limits far below 2^32.
static inline uint32_t weft__rng_below(struct weft__rng *rng, uint32_t limit)
{
    return (uint32_t)(((weft__rng_next(rng) >> 32) * limit) >> 32);
}

#endif
