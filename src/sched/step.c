// step.c - a carrier is a step function: inbox, tasks for one quantum, timers, flush, poll.
#include "base/relax.h"
#include "base/sys.h"
#include "sched/annex.h"
#include "sched/guest.h"
#include "sched/park.h"
#include "sched/poller.h"
#include "sched/relay.h"
#include "sched/retire.h"
#include "sched/steal.h"

/// The clock is read once per so many tasks.
#define TASKS_PER_LOOK WEFT__SIZED(16, 2)
/// Under the work-stealing policy timers and I/O have their turn after so many.
#define TASKS_PER_POLL 128
#define LONGEST_SETTLING_NS (1 * WEFT_S)

weft_time weft__carrier_now(struct weft__carrier *carrier)
{
    if (weft__unlikely(carrier->sim != NULL)) {
        weft__sim_spend(carrier->sim, weft__rng_below(&carrier->sim->rng, 64));
        carrier->coarse_now = carrier->sim->now;
    } else {
        carrier->coarse_now = weft__clock_ns();
    }
    return carrier->coarse_now;
}

void weft__carrier_open_inbox(struct weft__carrier *carrier)
{
    weft__tally_set(&carrier->counts.placed_seen, weft__tally_get(&carrier->placed));
    struct weft__node *node = weft__likely(carrier->annex == NULL)
                                  ? weft__inbox_take(&carrier->inbox)
                                  : weft__annex_take_inbox(carrier->annex);
    uint64_t taken = 0;
    for (; node != NULL; taken++) {
        struct weft__node *next = node->next;
        if (node->kind == WEFT__NODE_TASK && weft__likely(!carrier->shares)) {
            weft__fifo_push(&carrier->local, node);
        } else if (node->kind == WEFT__NODE_TASK) {
            weft__share(carrier, weft__container_of(node, struct weft__task, node));
        } else {
            struct weft__request *request = weft__container_of(node, struct weft__request, node);
            request->fn(request, carrier); // its storage may be gone afterwards
        }
        node = next;
    }
    if (taken > 0) {
        weft__tally(&carrier->counts.inbox_nodes, taken);
        weft__tally_most(&carrier->counts.inbox_most, taken);
    }
}

/// How many tasks may run before the loop gets its turn. In the simulator it is drawn, and the step
/// ends with it: a yield lets other carriers in.
static inline unsigned relay_length(struct weft__carrier *carrier)
{
    if (weft__unlikely(carrier->leaving || carrier->aside)) {
        return 1; // retire.c, R1; and who goes home from the spare one is looked at as well
    }
    if (weft__unlikely(carrier->sim != NULL)) {
        return 1 + weft__rng_below(&carrier->sim->rng, 4);
    }
    if (weft__unlikely(carrier->freely) && carrier->worker.interval < TASKS_PER_LOOK) {
        return carrier->worker.interval;
    }
    return TASKS_PER_LOOK;
}

/// Runs a task, and whoever it hands over to, until one comes back. Returns how many ran.
static inline unsigned run_relay(struct weft__carrier *carrier, struct weft__task *task)
{
    struct weft__runner *runner = &carrier->runner;
    unsigned most = relay_length(carrier);
    carrier->relay_left = most - 1;
    weft__carrier_turn_to(carrier, task);
    if (weft__likely(task->kind == &weft__kind_thread)) {
        int cancelled = weft__thread_enter(task, runner);
        (void)weft__context_resume(&runner->context, &task->context, cancelled, runner->control);
        task = carrier->current; // the one that came back
        weft__thread_left(task, runner);
    } else {
        (void)weft__word_clear_notified(task);
        weft__future_poll(task);
    }
    bool ready = weft__task_settle(task, runner);
    carrier->current = NULL;
    weft__carrier_bury(carrier);
    if (ready &&
        weft__likely(weft__task_is_at(task, carrier) && !(carrier->shares && task->movable))) {
        weft__fifo_push(&carrier->local, &task->node);
        carrier->offers_turn = false; // who yields lets those on offer go first
    } else if (ready && carrier->freely && weft__task_is_at(task, carrier)) {
        weft__free_yielded(carrier, task);
    } else if (ready) {
        task->sched->ops->on_continue(task->sched, task);
    }
    return most - carrier->relay_left;
}

void weft__carrier_run(struct weft__carrier *carrier, struct weft__task *task)
{
    (void)run_relay(carrier, task);
}

static void count_step(struct weft__carrier *carrier)
{
    struct weft__carrier_counts *counts = &carrier->counts;
    uint64_t ready = carrier->local.count;
    weft__tally(&counts->steps, 1);
    weft__tally_set(&counts->ready, ready);
    weft__tally(&counts->ready_sum, ready);
    weft__tally_most(&counts->ready_most, ready);
#ifndef WEFT_MODEL // each look at the lane is one more moment to explore
    if (weft__unlikely(carrier->shares)) {
        uint64_t offered = weft__carrier_offered(carrier);
        weft__tally(&counts->offered_sum, offered);
        weft__tally_most(&counts->offered_most, offered);
    }
#endif
}

static inline bool has_ready(struct weft__carrier *carrier)
{
    return carrier->local.head != NULL ||
           (weft__unlikely(carrier->shares) && weft__shared_ready(carrier));
}

static inline struct weft__node *next_ready(struct weft__carrier *carrier)
{
    return weft__likely(!carrier->offering) ? weft__fifo_pop(&carrier->local)
                                            : weft__next_shared(carrier);
}

static void run_tasks(struct weft__carrier *carrier)
{
    // coarse_now may have been read by a task, too: one that uses up its slice ends the quantum.
    weft_time start = carrier->coarse_now; // a sum might lie past the end of (virtual) time
    unsigned ran = 0;
    unsigned total = 0; // counted for the work-stealing policy only
    while (has_ready(carrier) && carrier->coarse_now - start < carrier->quantum_ns &&
           total < TASKS_PER_POLL) {
        struct weft__node *node = next_ready(carrier);
        if (weft__unlikely(node == NULL)) {
            break; // a thief was faster
        }
        struct weft__task *task = weft__container_of(node, struct weft__task, node);
        bool leaves = carrier->leaving || (weft__unlikely(carrier->aside) && task->homeward);
        if (weft__unlikely(leaves) && weft__retire_sends(carrier, task)) {
            continue;
        }
        weft__prefetch_ready(carrier);
        unsigned more = run_relay(carrier, task);
        weft__tally(&carrier->counts.runs, more);
        ran += more;
        if (weft__unlikely(carrier->sim != NULL)) {
            return;
        }
        if (ran >= TASKS_PER_LOOK ||
            (weft__unlikely(carrier->freely) && ran >= carrier->worker.interval)) {
            weft_time before = carrier->coarse_now;
            (void)weft__carrier_now(carrier);
            if (weft__unlikely(carrier->freely)) {
                weft__free_look(carrier, ran, carrier->coarse_now - before);
                total += ran;
            }
            ran = 0;
        }
    }
}

static void fire_timers(struct weft__carrier *carrier)
{
    if (weft__unlikely(carrier->annex != NULL)) {
        int fired = weft__annex_fire(carrier->annex, weft__carrier_now(carrier));
        weft__tally(&carrier->counts.timers, (uint64_t)fired);
        weft__carrier_polled(carrier, weft__annex_poll(carrier->annex));
    }
    if (carrier->wheel.armed == 0) {
        return;
    }
    weft_time now = weft__carrier_now(carrier);
    // Bounded by what was armed before: a function that sets its timer for the past must not keep
    // the carrier here for ever.
    for (size_t left = carrier->wheel.armed; left > 0; left--) {
        struct weft__timer *timer = weft__wheel_pop(&carrier->wheel, now);
        if (timer == NULL) {
            return;
        }
        weft__tally(&carrier->counts.timers, 1);
        timer->fire(timer);
    }
}

/// Flushing may put something on the list again; that is for the next step.
static void flush(struct weft__carrier *carrier)
{
    struct weft__flush *all = carrier->flushes;
    carrier->flushes = NULL;
    if (all != NULL) {
        all->link = &all;
    }
    while (all != NULL) {
        struct weft__flush *first = all;
        weft__carrier_flush_not(first);
        first->fn(first, carrier);
    }
}

bool weft__carrier_has_work(struct weft__carrier *carrier)
{
    return has_ready(carrier) || carrier->flushes != NULL || !weft__inbox_empty(&carrier->inbox);
}

/// What a carrier that shares does at the end of a step: asks for help with what it leaves behind, or
/// looks for something to do. True: there is work.
static bool share_or_steal(struct weft__carrier *carrier, bool busy)
{
    if (weft__unlikely(carrier->aside)) {
        return busy;
    }
    if (weft__carrier_offered(carrier) > 0) {
        weft__search_ask(carrier, carrier);
    }
    return busy ||
           (!carrier->stop && !carrier->polls && !carrier->leaving && weft__steal_idly(carrier));
}

bool weft__step(struct weft__carrier *carrier)
{
    if (weft__unlikely(carrier->shares)) {
        weft__steal_sent(carrier);
    }
    weft__carrier_open_inbox(carrier);
    count_step(carrier);
    run_tasks(carrier);
    if (weft__unlikely(weft__tally_get(&carrier->stuck) != 0)) {
        weft__tally_set(&carrier->stuck, 0); // here we are
        atomic_store_explicit(&carrier->announced, NULL, memory_order_relaxed);
    }
    fire_timers(carrier);
    flush(carrier);
    if (weft__carrier_has_work(carrier) || weft__unlikely(carrier->sim != NULL)) {
        weft__carrier_polled(carrier, carrier->driver->poll(carrier->driver_state));
    }
    bool busy = weft__carrier_has_work(carrier);
    busy = weft__likely(!carrier->shares) ? busy : share_or_steal(carrier, busy);
    if (weft__unlikely(carrier->annex != NULL) && !busy) {
        busy = weft__annex_watch(carrier->annex) || weft__carrier_has_work(carrier);
    }
    return busy;
}

/// Stays awake for a while, because waking a sleeping thread costs tens of microseconds. True:
/// something came in.
static bool spin(struct weft__carrier *carrier)
{
    weft_time start = weft__carrier_now(carrier);
    weft_time until = start + carrier->spin_ns;
    weft_time next = weft__carrier_expiry(carrier);
    weft_time now;
    bool found = false;
    weft__tally_set(&carrier->counts.ready, 0);
    do {
        for (int i = 0; i < 32 && !found; i++) {
            found = !weft__inbox_empty(&carrier->inbox) ||
                    (weft__unlikely(carrier->shares) && !carrier->aside &&
                     weft__search_wanted(carrier));
            weft__cpu_relax();
        }
        int events = found ? 0 : carrier->driver->poll(carrier->driver_state);
        if (events > 0) {
            weft__carrier_polled(carrier, events);
            found = true;
        }
        now = weft__carrier_now(carrier);
    } while (!found && now < until && now < next);
    weft__tally(&carrier->counts.spin_ns, now - start);
    return found;
}

void weft__carrier_hurry(struct weft__carrier *carrier)
{
    for (struct weft__flush *each = carrier->drains; each != NULL; each = each->next) {
        each->fn(each, carrier);
    }
}

/// A carrier that was told to stop waits for what was closed and is not yet free: its operations were
/// cancelled and end soon. A peer that never acknowledges bytes sent without a copy is not waited for.
static void settle(struct weft__carrier *carrier)
{
    weft_time limit = weft__carrier_now(carrier) + LONGEST_SETTLING_NS;
    weft__carrier_hurry(carrier);
    while (carrier->lingering > 0 && weft__carrier_now(carrier) < limit) {
        if (!weft__step(carrier)) {
            weft_time next = weft__carrier_expiry(carrier);
            carrier->driver->wait(carrier->driver_state, next < limit ? next : limit);
        }
    }
}

void weft__carrier_rest(struct weft__carrier *carrier)
{
    if (carrier->spin_ns == 0 || !spin(carrier)) {
        weft__sleep(carrier);
        if (weft__unlikely(carrier->lookout != NULL)) {
            weft__lookout_wake(carrier->lookout);
        }
        (void)weft__carrier_now(carrier);
    }
}

void weft__carrier_loop(struct weft__carrier *carrier)
{
    (void)weft__carrier_now(carrier); // dumps count from coarse_now
    while (!carrier->stop) {
        bool busy = weft__step(carrier);
        if (weft__unlikely(atomic_load_explicit(&carrier->poller, memory_order_relaxed) != NULL)) {
            busy = weft__poller_turn(carrier) || busy;
        }
        if (!busy && !carrier->stop) {
            weft__carrier_rest(carrier);
        }
    }
    settle(carrier);
    if (weft__unlikely(carrier->shares)) {
        weft__steal_leave(carrier);
    }
}
