// run.h - the course of one run, which all cores share: warm up, measure, let the rest arrive.
#ifndef WEFT_BENCH_LOAD_RUN_H
#define WEFT_BENCH_LOAD_RUN_H

#include "load.h"

/// Nearer than this, the next request of an open loop is waited for without sleeping.
#define LOAD_SPIN_NS 200000

/// A server that is silent for so long is given up.
#define LOAD_STALL_NS 10000000000u

enum load_stage { LOAD_WARM, LOAD_MEASURE, LOAD_DRAIN };

struct load_run {
    const struct load_plan *plan;
    struct load_result *result;
    enum load_stage stage;
    uint64_t begun, measured_from; // when
    uint64_t now;                  // of the present event; the core sets it
    uint64_t sent, done;           // requests of all connections
    uint64_t warm;                 // `done` when the measurement began
};

/// What one connection has in flight.
struct load_link {
    unsigned index;
    uint64_t sent, done; // requests; done <= sent
    uint64_t base;       // `sent` when the run began
    uint64_t *sent_at;   // closed loop: when each of the last `depth` requests was sent
};

void load_run_begin(struct load_run *run, const struct load_plan *plan, struct load_result *result);

/// Goes to the next stage when it is time. A stage begins between two requests.
void load_run_advance(struct load_run *run);

/// Whether everything that was sent has come back, and nothing more is to be sent.
static inline bool load_run_over(const struct load_run *run)
{
    return run->stage == LOAD_DRAIN && run->done == run->sent;
}

/// When request `n` of a connection is due in an open loop: the connections take turns.
uint64_t load_run_due(const struct load_run *run, const struct load_link *link, uint64_t n);

/// Requests are being sent now.
void load_run_sent(struct load_run *run, struct load_link *link, uint64_t requests);

/// Replies have come, and a stage may end by it. False: more than there were requests.
bool load_run_received(struct load_run *run, struct load_link *link, uint64_t replies);

#endif
