// sched.c - the model's threads, and who of them runs next.
//
// Threads are contexts on stacks of their own; all run on one OS thread. Whoever is about to do
// something that others can notice calls mc__point(), and the choice made there may switch away.
//
//   switch                                cost
//   the thread blocks, ends or relaxes    free
//   the thread could have gone on         one preemption; an execution has `bound` of them
//
//   S1  No runnable thread and not all ended: somebody sleeps for ever. Deadlock, in our
//       protocols a lost wake-up; if one of them spins, livelock.
//   S2  Fairness: a thread that relaxes twice while another could run all the time without
//       getting a turn must let it run first. Without this rule two spinning threads could take
//       turns for ever while the one they wait for stands still.
//   S3  An execution that ends early just abandons its stacks; the next one starts them afresh.
//
// A crash of the model's code is a failure of the execution: the signal handler leaves through
// mc_fail(), which switches stacks, so no signal is blocked while the handler runs.
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine.h"

void mc__switch(void **save, void *load);

struct mc__thread mc__threads[MC__THREADS];
int mc__thread_count;
int mc__me = MC__ALONE;
const void *mc__callers[MC__THREADS + 1];

static void *main_stack_pointer;
static void (*alone_fn)(void); // setup or check
static bool inside_model;
static enum mc__outcome outcome;
static char failure[512];
static int preemptions, preemption_bound;
static uint8_t spurious_failures; // per thread
static uint64_t steps, max_steps;

const char *mc__failure(void)
{
    return failure;
}

uint64_t mc__steps(void)
{
    return steps;
}

static _Noreturn void end_execution(enum mc__outcome how)
{
    void *abandoned;
    outcome = how;
    mc__switch(&abandoned, main_stack_pointer);
    abort();
}

void mc_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(failure, sizeof failure, format, arguments);
    va_end(arguments);
    end_execution(MC__FAILED);
}

// Contexts.

// mc__switch pops six registers and jumps: the function then finds the stack as after a call.
static void *prepare(int thread, void (*entry)(void))
{
    uintptr_t *top = (uintptr_t *)(void *)mc__stack_top(thread);
    *--top = 0; // the return address: entry functions do not return
    *--top = (uintptr_t)entry;
    for (int i = 0; i < 6; i++) {
        *--top = 0;
    }
    return top;
}

// Who runs next.

static unsigned bit(int thread)
{
    return 1u << thread;
}

static unsigned could_run(void)
{
    unsigned mask = 0;
    for (int i = 0; i < mc__thread_count; i++) {
        const struct mc__thread *thread = &mc__threads[i];
        if (thread->status == MC__READY || thread->may_time_out ||
            (thread->status == MC__SPINNING && mc__has_news(thread))) {
            mask |= bit(i);
        }
    }
    return mask;
}

// S2. The rule cannot exclude everybody: a thread waits only for threads that ran longer ago.
static unsigned may_run(unsigned candidates)
{
    unsigned mask = candidates;
    for (int i = 0; i < mc__thread_count; i++) {
        if ((mc__threads[i].must_run_first & candidates) != 0) {
            mask &= ~bit(i);
        }
    }
    return mask != 0 ? mask : candidates;
}

static void note_turn(int next, unsigned candidates)
{
    for (int i = 0; i < mc__thread_count; i++) {
        struct mc__thread *thread = &mc__threads[i];
        thread->must_run_first &= (uint8_t)~bit(next);
        thread->ran_since |= (uint8_t)bit(next);
        thread->runnable_since &= (uint8_t)candidates;
    }
}

static void report_stuck(void)
{
    static const char *const states[] = {
        [MC__UNUSED] = "is unused",   [MC__READY] = "is ready",  [MC__SPINNING] = "spins",
        [MC__BLOCKED] = "sleeps in ", [MC__ENDED] = "has ended",
    };
    char text[400];
    int length = 0;
    bool spins = false;
    for (int i = 0; i < mc__thread_count && length < (int)sizeof text; i++) {
        const struct mc__thread *thread = &mc__threads[i];
        bool blocked = thread->status == MC__BLOCKED;
        spins |= thread->status == MC__SPINNING;
        length += snprintf(text + length, sizeof text - (size_t)length, "%sT%d %s%s",
                           i == 0 ? "" : ", ", i, states[thread->status],
                           blocked ? thread->blocked_in : "");
    }
    mc_fail("%s: %s", spins ? "livelock" : "deadlock (lost wake-up)", text);
}

static int pick(unsigned enabled, bool voluntary)
{
    bool could_stay = !voluntary && mc__me != MC__ALONE && (enabled & bit(mc__me)) != 0;
    if (could_stay && preemptions >= preemption_bound) {
        return mc__me;
    }
    int order[MC__THREADS] = { 0 };
    int count = 0;
    if (could_stay) {
        order[count++] = mc__me;
    }
    for (int i = 1; i <= mc__thread_count; i++) {
        int thread = (mc__me + i) % mc__thread_count;
        if ((enabled & bit(thread)) != 0 && !(could_stay && thread == mc__me)) {
            order[count++] = thread;
        }
    }
    int next = order[mc__choice(count)];
    if (could_stay && next != mc__me) {
        preemptions++;
    }
    return next;
}

static void look_for_state(bool voluntary)
{
    uint64_t state = mc__state_hash(voluntary);
    bool is_known = mc__is_replaying() || mc__visited_before(state, (unsigned)preemptions);
    if (is_known && mc__path_has(state)) {
        mc_fail("livelock: the execution goes round in a circle");
    }
    if (is_known && !mc__is_replaying()) {
        end_execution(MC__PRUNED);
    }
    mc__path_add(state, mc__choices_made());
}

// Chooses a thread and runs it; returns when the caller's turn has come again.
static void reschedule(bool voluntary)
{
    unsigned candidates = could_run();
    if (candidates == 0) {
        for (int i = 0; i < mc__thread_count; i++) {
            if (mc__threads[i].status != MC__ENDED) {
                report_stuck();
            }
        }
        end_execution(MC__FINISHED);
    }
    if (mc__choices_are_new() || mc__is_replaying()) {
        look_for_state(voluntary);
    }
    int next = pick(may_run(candidates), voluntary);
    note_turn(next, candidates);
    if (next == mc__me) {
        return;
    }
    void **save = mc__me == MC__ALONE ? &main_stack_pointer : &mc__self()->stack_pointer;
    mc__me = next;
    mc__switch(save, mc__self()->stack_pointer);
}

static void take_step(enum mc__phase phase)
{
    if (++steps > max_steps) {
        mc_fail("livelock: no end after %llu steps", (unsigned long long)max_steps);
    }
    mc__self()->phase = phase;
    mc__self()->entry = mc__entry;
}

void mc__tick(void)
{
    if (mc__self()->now.clock[mc__me]++ == MC__MAX_STEPS) {
        mc_fail("livelock: more than %d releases by one thread", MC__MAX_STEPS);
    }
}

void mc__point(void)
{
    if (mc__me == MC__ALONE) {
        return;
    }
    take_step(MC__AT_POINT);
    reschedule(false);
}

void mc__block(const void *on, const char *in)
{
    struct mc__thread *self = mc__self();
    self->status = MC__BLOCKED;
    self->blocked_on = on;
    self->blocked_in = in;
    self->phase = MC__IN_BLOCK;
    reschedule(true);
}

bool mc__block_briefly(const void *on, const char *in)
{
    struct mc__thread *self = mc__self();
    self->may_time_out = true;
    mc__block(on, in);
    self->may_time_out = false;
    bool was_woken = self->status == MC__READY;
    self->status = MC__READY;
    self->blocked_on = NULL;
    return was_woken;
}

void mc__rest(void)
{
    struct mc__thread *self = mc__self();
    take_step(MC__IN_REST);
    unsigned others = could_run() & ~bit(mc__me);
    if (self->rests > 0) {
        self->must_run_first = self->runnable_since & (uint8_t)~self->ran_since;
    }
    self->rests = self->rests == 0 ? 1 : 2;
    self->runnable_since = (uint8_t)others;
    self->ran_since = 0;
    self->status = MC__SPINNING;
    reschedule(true);
    self->status = MC__READY;
}

static void thread_entry(void)
{
    struct mc__thread *self = mc__self();
    self->fn(self->arg);
    MC__TRACE("ends");
    self->status = MC__ENDED;
    reschedule(true);
    abort();
}

int mc_thread(void (*fn)(void *), void *arg)
{
    if (mc__thread_count == MC__THREADS) {
        mc_fail("model too big: more than %d threads", MC__THREADS);
    }
    int id = mc__thread_count++;
    struct mc__thread *thread = &mc__threads[id];
    *thread = (struct mc__thread){ .fn = fn, .arg = arg, .status = MC__READY };
    thread->spurious_left = spurious_failures;
    if (mc__me != MC__ALONE) {
        thread->now = mc__self()->now;
        mc__tick();
    }
    thread->now.clock[id] = 1;
    thread->stack_pointer = prepare(id, thread_entry);
    mc__frames_start(id);
    return id;
}

int mc_self(void)
{
    return mc__me;
}

// One execution.

static void alone_entry(void)
{
    alone_fn();
    end_execution(MC__RUNNING);
}

static void run_alone(void (*fn)(void))
{
    alone_fn = fn;
    mc__me = MC__ALONE;
    mc__switch(&main_stack_pointer, prepare(MC__THREADS, alone_entry));
    mc__me = MC__ALONE;
}

enum mc__outcome mc__run_execution(const struct mc_model *model, int bound)
{
    mc__history_reset();
    mc__shadow_reset();
    mc__world_reset();
    mc__state_reset();
    mc__path_rewind(mc__choices_repeated());
    mc__trace_reset();
    mc__thread_count = 0;
    preemptions = 0;
    preemption_bound = bound;
    spurious_failures = model->never_spurious ? 0 : 1;
    steps = 0;
    max_steps = model->max_steps > 0 ? (uint64_t)model->max_steps : MC__MAX_STEPS;
    outcome = MC__RUNNING;
    inside_model = true;
    run_alone(model->setup);
    if (outcome == MC__RUNNING && mc__thread_count == 0) {
        outcome = MC__FINISHED;
    }
    if (outcome == MC__RUNNING) {
        reschedule(true);
        mc__me = MC__ALONE;
    }
    if (outcome == MC__FINISHED && model->check != NULL) {
        run_alone(model->check);
        outcome = outcome == MC__FAILED ? MC__FAILED : MC__FINISHED;
    }
    inside_model = false;
    return outcome;
}

static void on_crash(int signal, siginfo_t *info, void *context)
{
    (void)context;
    if (!inside_model) {
        static const char text[] = "model checker: crashed outside of a model\n";
        fputs(text, stderr);
        _Exit(2);
    }
    if (signal == SIGFPE) {
        mc_fail("crash: arithmetic exception");
    }
    mc_fail("crash: signal %d at address %p", signal, info->si_addr);
}

void mc__sched_init(void)
{
    static char handler_stack[64 * 1024];
    stack_t stack = { .ss_sp = handler_stack, .ss_size = sizeof handler_stack };
    struct sigaction action = { .sa_sigaction = on_crash,
                                .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };
    static const int signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP };
    sigaltstack(&stack, NULL);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        sigaction(signals[i], &action, NULL);
    }
    mc__frames_init();
}
