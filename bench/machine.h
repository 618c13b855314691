// machine.h - what a result was measured on.
#ifndef WEFT_BENCH_MACHINE_H
#define WEFT_BENCH_MACHINE_H

#define MACHINE_VERSIONS_MAX 16

struct machine {
    char kernel[256];
    char cpu[256];
    char compiler[128];
    char weft[32];
    int cpus;
    unsigned long long memory_bytes;
    double load_average;    // of the last minute: of others, when nothing has run yet
    unsigned versions_used; // of the peers, from the file `versions` beside them
    char versions[MACHINE_VERSIONS_MAX][160];
};

/// Looks at the machine. `peers` may be NULL.
void machine_look(struct machine *out, const char *peers);

#endif
