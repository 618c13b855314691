// allocated.h - how many bytes this process takes from malloc.
#ifndef WEFT_BENCH_ALLOCATED_H
#define WEFT_BENCH_ALLOCATED_H

/// Begins to count what all threads ask for.
void allocated_begin(void);

/// Ends counting. Returns the bytes, or -1 where they cannot be counted (another C library, sanitizers).
double allocated_end(void);

#endif
