// run.c - the course of one run.
#include "run.h"

static void mark(struct load_run *run, bool ended)
{
    if (run->plan->mark != NULL) {
        run->plan->mark(run->plan->mark_arg, ended);
    }
}

void load_run_begin(struct load_run *run, const struct load_plan *plan, struct load_result *result)
{
    hist_clear(&result->latency_ns);
    result->requests = result->span_ns = 0;
    *run = (struct load_run){ .plan = plan, .result = result };
    run->begun = run->now = load_now();
    load_run_advance(run);
}

void load_run_advance(struct load_run *run)
{
    const struct load_plan *plan = run->plan;
    if (run->stage == LOAD_WARM && run->done >= plan->warm_count &&
        run->now - run->begun >= plan->warm_ns) {
        run->stage = LOAD_MEASURE;
        run->warm = run->done;
        mark(run, false);
        run->now = run->measured_from = load_now();
    } else if (run->stage == LOAD_MEASURE &&
               ((plan->count > 0 && run->done - run->warm >= plan->count) ||
                (plan->duration_ns > 0 && run->now - run->measured_from >= plan->duration_ns))) {
        run->stage = LOAD_DRAIN;
        run->result->span_ns = load_now() - run->measured_from;
        run->result->requests = run->done - run->warm;
        mark(run, true);
    }
}

uint64_t load_run_due(const struct load_run *run, const struct load_link *link, uint64_t n)
{
    uint64_t place = (n - link->base) * run->plan->connections + link->index;
    return run->begun + (uint64_t)((double)place * 1e9 / run->plan->rate);
}

void load_run_sent(struct load_run *run, struct load_link *link, uint64_t requests)
{
    if (run->plan->rate <= 0) {
        for (uint64_t i = 0; i < requests; i++) {
            link->sent_at[(link->sent + i) % run->plan->depth] = run->now;
        }
    }
    link->sent += requests;
    run->sent += requests;
}

static void record(struct load_run *run, const struct load_link *link, uint64_t replies)
{
    for (uint64_t i = 0; i < replies; i++) {
        uint64_t n = link->done + i;
        uint64_t from = run->plan->rate > 0 ? load_run_due(run, link, n)
                                            : link->sent_at[n % run->plan->depth];
        hist_add(&run->result->latency_ns, run->now > from ? run->now - from : 0, 1);
    }
}

bool load_run_received(struct load_run *run, struct load_link *link, uint64_t replies)
{
    if (replies > link->sent - link->done) {
        return false;
    }
    if (run->stage == LOAD_MEASURE) {
        record(run, link, replies);
    }
    link->done += replies;
    run->done += replies;
    load_run_advance(run);
    return true;
}
