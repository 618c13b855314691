// sim.c - the same carriers, stepped by one OS thread in a seeded order under a virtual clock.
//
//   X1  Nothing is ordered or hashed by address, and nothing reads the real clock: the same seed
//       gives the same run.
//   X2  A carrier that found nothing to do is asleep until it is kicked or its wheel's next expiry
//       has come. When nobody can step, the clock jumps to the earliest moment at which somebody
//       can, or at which something arrives on the network (sim_net.h); when there is none, nobody
//       will ever wake: that is a failure of the program under test.
//   X3  All read one clock, but they work side by side: a step keeps its own carrier busy for a
//       while, and the others step meanwhile. So a timer is not late because others are busy.
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <weft/sim.h>

#include "base/alloc.h"
#include "runtime/options.h"
#include "runtime/runtime.h"
#include "runtime/sim_heap.h"
#include "runtime/sim_ops.h"
#include "sched/clock.h"
#include "sched/park.h"
#include "task/overflow.h"

#define DEFAULT_CARRIERS 2
#define MAX_CARRIERS 64
#define DEFAULT_GRACE (10 * WEFT_S)
#define MILLION 1000000u
/// What was closed and is not yet free gets this time at least.
#define LEAST_SETTLING_NS (1 * WEFT_S)
/// A step costs its carrier up to so much virtual time.
#define STEP_COST_NS 2048
/// Virtual time starts here, so that 0 stays a time in the past.
#define EPOCH WEFT_S

struct sim {
    struct weft__runtime *runtime;
    struct weft__sim_clock clock;
    struct weft__rng rng; // the order of steps
    struct weft__sim_heap *heap;
    struct weft__sim_net net;
    struct weft__sim_carrier carriers[MAX_CARRIERS];
    struct weft_sim_options options;
    uint64_t steps;
    weft_task *main;
    bool main_ended;
    int main_result;
    weft_time grace_end;
    weft_time settle_end; // when what is still lingering is left alone; 0: tasks are left
    struct weft__cxx callers_cxx;
};

/// Has something to do, as soon as its last step is over.
static bool is_able(const struct sim *sim, int i)
{
    const struct weft__sim_carrier *carrier = &sim->carriers[i];
    return !carrier->asleep || carrier->kicked || carrier->ready_count > 0 ||
           carrier->until <= sim->clock.now;
}

static bool can_step(const struct sim *sim, int i)
{
    return is_able(sim, i) && sim->carriers[i].free_at <= sim->clock.now;
}

/// Draws one of the carriers that can step, or -1.
static int draw(struct sim *sim)
{
    int count = weft__crew_started(&sim->runtime->crew);
    uint32_t able = 0;
    for (int i = 0; i < count; i++) {
        able += can_step(sim, i);
    }
    if (able == 0) {
        return -1;
    }
    uint32_t turn = weft__rng_below(&sim->rng, able);
    for (int i = 0; i < count; i++) {
        if (can_step(sim, i) && turn-- == 0) {
            return i;
        }
    }
    return -1;
}

static void step(struct sim *sim, int i)
{
    struct weft__carrier *carrier = &sim->runtime->crew.carriers[i];
    struct weft__sim_carrier *state = &sim->carriers[i];
    if (state->asleep) {
        weft__sleep_end(carrier);
        state->asleep = false;
    }
    state->kicked = false;
    sim->steps++;
    state->free_at = weft__sim_later(&sim->clock, weft__rng_below(&sim->clock.rng, STEP_COST_NS));
    weft__sim_note(&sim->clock, (uint64_t)i);
    carrier->coarse_now = sim->clock.now;
    weft__carrier_set_self(carrier);
    if (!weft__step(carrier) && weft__sleep_begin(carrier)) {
        state->asleep = true;
        state->until = weft__wheel_next(&carrier->wheel);
    }
    weft__carrier_set_self(NULL);
}

/// Nobody can step: jumps to the moment when somebody can. False: there is none (X2).
static bool jump(struct sim *sim)
{
    weft_time next = weft__sim_net_next(&sim->net);
    for (int i = 0; i < weft__crew_started(&sim->runtime->crew); i++) {
        const struct weft__sim_carrier *carrier = &sim->carriers[i];
        weft_time when = is_able(sim, i) || carrier->until < carrier->free_at ? carrier->free_at
                                                                              : carrier->until;
        next = when < next ? when : next;
    }
    if (next == WEFT_FOREVER) {
        return false;
    }
    sim->clock.now = next > sim->clock.now ? next : sim->clock.now;
    return true;
}

static int fail(struct sim *sim, int rc, const char *why)
{
    weft__log(&sim->runtime->log, WEFT_LOG_ERROR, "sim",
              "seed %" PRIu64 ", virtual time %" PRIu64 " ns: %s", sim->options.seed,
              sim->clock.now - EPOCH, why);
    weft__dump_to_log(sim->runtime, why);
    return rc;
}

static int report_deadlock(struct sim *sim)
{
    struct weft__crew *crew = &sim->runtime->crew;
    uint32_t refused = atomic_load_explicit(&crew->refused_wakes, memory_order_relaxed);
    if (refused > 0) {
        weft__log(&sim->runtime->log, WEFT_LOG_ERROR, "sim",
                  "%" PRIu32 " wakes by threads outside the simulation were ignored", refused);
    }
    return fail(sim, -EDEADLK, "everyone is asleep and nothing will wake them");
}

/// Notices that the main task has ended and starts the shutdown.
static void watch_main(struct sim *sim)
{
    if (sim->main_ended || !weft_task_done(sim->main)) {
        return;
    }
    sim->main_ended = true;
    sim->main_result = sim->main->result;
    sim->grace_end = weft__sim_later(&sim->clock, sim->options.grace_ns);
    (void)weft__shutdown_begin(sim->runtime, sim->clock.now);
}

static int check_limits(struct sim *sim)
{
    const struct weft_sim_options *options = &sim->options;
    if (options->limit_ns != 0 && sim->clock.now - EPOCH > options->limit_ns) {
        return fail(sim, -ETIME, "the limit of virtual time was reached");
    }
    if (options->limit_steps != 0 && sim->steps >= options->limit_steps) {
        return fail(sim, -ETIME, "the limit of steps was reached");
    }
    if (sim->main_ended && sim->clock.now > sim->grace_end) {
        return fail(sim, -EBUSY, "tasks did not end within the grace period");
    }
    return 0;
}

/// Whether something was closed whose cancelled operations have not ended yet.
static bool lingers(const struct sim *sim)
{
    for (int i = 0; i < weft__crew_started(&sim->runtime->crew); i++) {
        if (sim->runtime->crew.carriers[i].lingering > 0) {
            return true;
        }
    }
    return false;
}

/// The last task has ended: carriers that would stop tell what lingers to hurry.
static void begin_to_settle(struct sim *sim)
{
    if (sim->settle_end != 0) {
        return;
    }
    weft_time least = weft__sim_later(&sim->clock, LEAST_SETTLING_NS);
    sim->settle_end = sim->grace_end > least ? sim->grace_end : least;
    for (int i = 0; i < weft__crew_started(&sim->runtime->crew); i++) {
        struct weft__carrier *carrier = &sim->runtime->crew.carriers[i];
        if (carrier->drains != NULL) {
            weft__carrier_hurry(carrier);
            sim->carriers[i].kicked = true; // it slept until something later
        }
    }
}

static int loop(struct sim *sim)
{
    for (;;) {
        watch_main(sim);
        bool over = sim->main_ended && weft__crew_live(&sim->runtime->crew) == 0;
        if (over) {
            begin_to_settle(sim);
        }
        if (over && (!lingers(sim) || sim->clock.now > sim->settle_end)) {
            return sim->main_result;
        }
        int rc = over ? 0 : check_limits(sim);
        if (rc < 0) {
            return rc;
        }
        weft__sim_net_arrive(&sim->net);
        if (sim->net.error < 0) {
            return fail(sim, sim->net.error, "no memory for the simulated network");
        }
        int i = draw(sim);
        if (i >= 0) {
            step(sim, i);
        } else if (!jump(sim)) {
            return over ? sim->main_result : report_deadlock(sim);
        }
    }
}

static void open_carriers(struct sim *sim)
{
    // The caller may be handling an exception; tasks must not find it.
    struct weft__cxx *thread = weft__cxx_of_thread();
    sim->callers_cxx = *thread;
    *thread = (struct weft__cxx){ NULL, 0 };
    struct weft__crew *crew = &sim->runtime->crew;
    const struct weft_options *resolved = &sim->runtime->options;
    const struct weft__driver_config config = {
        .allocator = resolved->allocator,
        .buffer_bytes = (uint32_t)resolved->receive_buffer_bytes,
        .buffers = (uint32_t)resolved->receive_buffers,
    };
    crew->simulated = true;
    sim->net.options = sim->options.net;
    sim->net.clock = &sim->clock;
    sim->net.rng.state = weft__rng_next(&sim->rng);
    weft__sim_net_open(&sim->net, sim->carriers, weft__crew_started(crew), &config);
    for (int i = 0; i < weft__crew_started(crew); i++) {
        struct weft__carrier *carrier = &crew->carriers[i];
        carrier->sim = &sim->clock;
        carrier->driver_state = &sim->carriers[i];
        weft__wheel_init(&carrier->wheel, sim->clock.now);
        weft__carrier_adopt(carrier);
    }
}

static void forget_task(struct weft__task *task, void *arg)
{
    (void)arg;
    weft__locals_forget(task);
    if (!weft_task_done(task) && task->stack_low != NULL) {
        weft__context_forget(&task->context);
    }
}

static int clear_block(void *block, void *arg)
{
    (void)arg;
    atomic_store_explicit(&((struct weft__task *)block)->word, 0, memory_order_relaxed);
    return 0;
}

/// After a failed run tasks are left in the middle of their work: nobody will ever run them, so
/// their memory is taken away.
static void close_carriers(struct sim *sim, bool failed)
{
    struct weft__runtime *runtime = sim->runtime;
    weft__sim_net_close(&sim->net);
    if (failed) {
        weft__runtime_each_task(runtime, forget_task, NULL);
        weft__stack_pool_each(runtime->crew.stacks, clear_block, NULL);
        weft__blocks_each(&runtime->crew.blocks, clear_block, NULL);
    }
    for (int i = 0; i < weft__crew_started(&runtime->crew); i++) {
        weft__context_forget(&runtime->crew.carriers[i].runner.context);
    }
    weft__overflow_thread_fini();
    *weft__cxx_of_thread() = sim->callers_cxx;
    weft__registry_remove(runtime);
    weft__runtime_free(runtime);
    weft__sim_heap_destroy(sim->heap, failed);
}

static int check_rate(const struct weft__log *log, const char *name, uint32_t per_million)
{
    if (per_million <= MILLION) {
        return 0;
    }
    weft__log(log, WEFT_LOG_ERROR, "options",
              "weft_sim_options.net.%s_per_million = %" PRIu32
              " is not allowed: it must be 0..1000000",
              name, per_million);
    return -EINVAL;
}

static int check_net(const struct weft__log *log, const struct weft_sim_net *net)
{
    const struct {
        const char *name;
        uint32_t per_million;
    } rates[] = {
        { "reset", net->reset_per_million },
        { "short", net->short_per_million },
        { "cut", net->cut_per_million },
        { "loss", net->loss_per_million },
        { "dup", net->dup_per_million },
        { "reorder", net->reorder_per_million },
        { "accept_error", net->accept_error_per_million },
    };
    int rc = 0;
    for (size_t i = 0; i < WEFT__ARRAY_LEN(rates) && rc == 0; i++) {
        rc = check_rate(log, rates[i].name, rates[i].per_million);
    }
    return rc;
}

static int check_options(const struct weft_sim_options *options)
{
    struct weft__log log = { options->log, options->log_ctx, WEFT_LOG_ERROR };
    if (options->carriers < 0 || options->carriers > MAX_CARRIERS) {
        weft__log(&log, WEFT_LOG_ERROR, "options",
                  "weft_sim_options.carriers = %d is not allowed: it must be 1..%d",
                  options->carriers, MAX_CARRIERS);
        return -EINVAL;
    }
    return check_net(&log, &options->net);
}

static int prepare(struct sim *sim, const struct weft_sim_options *options)
{
    struct weft_options own = WEFT_OPTIONS_INIT;
    struct weft_options resolved;
    struct weft__log log;
    if (options != NULL) {
        if (options->size != 0 && options->size != sizeof *options) {
            return -EINVAL;
        }
        sim->options = *options;
    }
    own.carriers = sim->options.carriers != 0 ? sim->options.carriers : DEFAULT_CARRIERS;
    own.max_carriers = own.carriers; // all of them are there from the beginning
    own.log = sim->options.log;
    own.remedy = WEFT_REMEDY_OFF; // nobody watches, and nothing is stuck in virtual time
    own.log_ctx = sim->options.log_ctx;
    sim->options.grace_ns = sim->options.grace_ns != 0 ? sim->options.grace_ns : DEFAULT_GRACE;
    int rc = check_options(&sim->options);
    if (rc == 0) {
        rc = weft__options_resolve(&resolved, &log, &own);
    }
    if (rc < 0) {
        return rc;
    }
    sim->rng.state = sim->options.seed;
    sim->clock = (struct weft__sim_clock){
        .now = EPOCH,
        .rng.state = weft__rng_next(&sim->rng),
        .hash = sim->options.seed,
    };
    weft__overflow_set_describe(weft__describe_block);
    rc = weft__overflow_install();
    if (rc == 0) {
        rc = weft__overflow_thread_init();
    }
    if (rc < 0) {
        return rc;
    }
    sim->heap = weft__sim_heap_create();
    resolved.allocator = sim->heap != NULL ? &sim->heap->allocator : NULL;
    rc = sim->heap == NULL ? -ENOMEM
                           : weft__runtime_alloc(&sim->runtime, &resolved, &log, &weft__sim_driver);
    if (rc == 0) {
        rc = weft__runtime_seat(sim->runtime, "", NULL);
    }
    if (rc < 0) {
        if (sim->heap != NULL) {
            weft__sim_heap_destroy(sim->heap, true);
        }
        weft__overflow_thread_fini();
        return rc;
    }
    sim->runtime->options.grace_ns = sim->options.grace_ns; // which may be WEFT_FOREVER
    open_carriers(sim);
    weft__registry_add(sim->runtime);
    return 0;
}

static int spawn_main(struct sim *sim, weft_fn fn, void *arg)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.name = "main";
    attr.place = WEFT_PLACE_CARRIER;
    struct weft__spawn spawn = {
        .fn = fn,
        .arg = arg,
        .attr = &attr,
        .scope = &sim->runtime->crew.root,
        .file = "weft_sim_run",
    };
    return weft__spawn(&sim->main, &sim->runtime->crew, NULL, &spawn);
}

int weft_sim_run(struct weft_sim_result *result, weft_fn fn, void *arg,
                 const struct weft_sim_options *options)
{
    struct sim sim = { 0 };
    if (result != NULL) {
        *result = (struct weft_sim_result){ 0 };
    }
    if (weft__crew_self() != NULL) {
        return -EDEADLK;
    }
    int rc = prepare(&sim, options);
    if (rc < 0) {
        return rc;
    }
    bool failed = true;
    rc = spawn_main(&sim, fn, arg);
    if (rc == 0) {
        rc = loop(&sim);
        failed = weft__crew_live(&sim.runtime->crew) != 0;
        if (!failed) {
            weft_task_release(sim.main);
        }
    }
    if (result != NULL) {
        *result = (struct weft_sim_result){
            .trace_hash = sim.clock.hash,
            .virtual_ns = sim.clock.now - EPOCH,
            .steps = sim.steps,
            .result = sim.main_result,
        };
    }
    close_carriers(&sim, failed);
    return rc;
}
