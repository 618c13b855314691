// policy_stealing.c - the work-stealing policy: a ready task runs on whatever carrier comes first.
//
// What may move (steal.c, H3 and H4) goes where it was made ready, not home; all else is as under the
// locality policy, so a started virtual thread that is not migratable still comes home through the
// inbox.
//
//     made ready here  --->  lifo slot  --evicted, or 3 in a row-->  offer (ring)  --full: half-->  inject
//     yielded          ------------------------------------------->  offer                            |
//     made ready outside  ---------------------------------------------------------------------->  inject
//
//   F1  The slot holds what was made ready last: its data is still in the cache. It is the owner's
//       alone, and nobody is woken for it. So that it cannot starve the ring, three in a row from the
//       slot are followed by one from the ring, if there is one.
//   F2  Whatever goes into the ring or into `inject` is announced (weft__search_ask), and who takes a
//       carrier's wanted bit looks at its ring and then at `inject`. What he leaves there he announces
//       again. So the proof in search.c covers `inject`, too, and nobody has to look again by the clock.
//   F3  A busy carrier looks at `inject` after so many tasks that about a millisecond has passed,
//       8 at least and 255 at most, and takes its share of what is there in one batch.
//   F4  At most half of a cluster's carriers search on their own account. Who is one too many sleeps;
//       the last searcher who stops sends another one if something is still wanted (search.c, S3, S6).
//   F5  Where tasks may not leave their cluster, each cluster has an `inject` of its own, and what was
//       made ready in another one goes home.
//   F6  If all carriers of such a cluster leave (retire.c), nobody looks at its `inject` any more: the last
//       ones to leave, and whoever pushes there and sees it afterwards, hand on what is in it. Both sides have a
//       fence between: the push before its look at who is left, that change before the look at the queue.
//
// Checked by: tests/model/steal_model.c, rescue_model.c (F6), tests/stress/steal_stress.c.
#include "sched/policy_stealing.h"

#include "sched/crew.h"
#include "sched/steal.h"

#define LIFO_IN_A_ROW 3u
#define LEAST_INTERVAL 8u
#define MOST_INTERVAL 255u
#define BATCH_AT_MOST (WEFT__OFFER_SLOTS / 2)

void weft__free_desert(struct weft__carrier *carrier, struct weft__carrier *self)
{
    struct weft__crew *crew = carrier->crew;
    atomic_thread_fence(memory_order_seq_cst); // F6
    if (crew->steals_globally || weft__crew_cluster(crew, carrier->cluster).count > 0) {
        return;
    }
    struct weft__fifo batch = { 0 };
    if (weft__inject_take(carrier->worker.inject, &batch, SIZE_MAX) > 0) {
        weft__inject_push(crew->carriers[0].worker.inject, &batch);
        weft__search_ask(&crew->carriers[0], self);
    }
}

/// The older half of the ring makes room; if a thief is at it, only the node itself goes.
void weft__free_overflow(struct weft__carrier *carrier, struct weft__node *node)
{
    struct weft__fifo batch = { 0 };
    (void)weft__offer_steal(&carrier->offer, &batch);
    weft__fifo_push(&batch, node);
    weft__tally(&carrier->counts.overflows, 1);
    weft__inject_push(carrier->worker.inject, &batch);
    if (weft__unlikely(carrier->leaving)) {
        weft__free_desert(carrier, carrier);
    }
}

/// To the end of the ring; what others may take is announced (F2).
static void append(struct weft__carrier *carrier, struct weft__node *node)
{
    if (weft__offer_push(&carrier->offer, node) == 0) {
        weft__free_overflow(carrier, node);
    }
    weft__search_ask(carrier, carrier);
}

void weft__free_ready(struct weft__carrier *carrier, struct weft__task *task)
{
    struct weft__node *evicted = carrier->worker.lifo;
    task->home = carrier;
    if (weft__unlikely(carrier->annex != NULL)) {
        append(carrier, &task->node); // nobody could take it out of the slot if we get stuck
        return;
    }
    carrier->worker.lifo = &task->node;
    if (evicted != NULL) {
        append(carrier, evicted);
    }
}

void weft__free_evict(struct weft__carrier *carrier)
{
    struct weft__node *node = carrier->worker.lifo;
    if (node != NULL) {
        carrier->worker.lifo = NULL;
        append(carrier, node);
    }
}

void weft__free_yielded(struct weft__carrier *carrier, struct weft__task *task)
{
    if (weft__task_may_move(task)) {
        task->home = carrier;
        append(carrier, &task->node);
    } else {
        weft__fifo_push(&carrier->local, &task->node);
    }
}

void weft__free_inject(struct weft__task *task)
{
    struct weft__fifo batch = { 0 };
    weft__fifo_push(&batch, &task->node);
    struct weft__carrier *home = task->home; // it may run as soon as it is in
    weft__inject_push(home->worker.inject, &batch);
    weft__search_ask(home, NULL);
    weft__free_desert(home, NULL);
}

struct weft__node *weft__free_pick(struct weft__carrier *carrier)
{
    struct weft__worker *worker = &carrier->worker;
    struct weft__node *node = worker->lifo;
    if (node != NULL) {
        worker->lifo = NULL;
        if (worker->lifo_run++ < LIFO_IN_A_ROW || weft__offer_count(&carrier->offer) == 0) { // F1
            weft__tally(&carrier->counts.lifo_hits, 1);
            return node;
        }
        append(carrier, node);
    }
    worker->lifo_run = 0;
    return weft__offer_pop(&carrier->offer);
}

bool weft__free_has_ready(struct weft__carrier *carrier)
{
    return carrier->worker.lifo != NULL ||
           (weft__inject_count(carrier->worker.inject) > 0 && !carrier->leaving);
}

/// How many carriers take from the same queue.
static size_t sharers(const struct weft__carrier *carrier)
{
    const struct weft__crew *crew = carrier->crew;
    int count = crew->steals_globally ? weft__crew_active(crew)
                                      : weft__crew_cluster(crew, carrier->cluster).count;
    return count > 0 ? (size_t)count : 1;
}

size_t weft__free_take_injected(struct weft__carrier *carrier)
{
    struct weft__inject *inject = carrier->worker.inject;
    size_t share = weft__inject_count(inject);
    if (share == 0 || carrier->leaving) {
        return 0;
    }
    struct weft__fifo batch = { 0 };
    share = share / sharers(carrier) + 1;
    size_t taken = weft__inject_take(inject, &batch, share < BATCH_AT_MOST ? share : BATCH_AT_MOST);
    weft__steal_receive(carrier, &batch);
    if (taken > 0) {
        weft__tally(&carrier->counts.batches, 1);
        weft__tally(&carrier->counts.injected, taken);
    }
    return taken;
}

void weft__free_look(struct weft__carrier *carrier, unsigned ran, weft_time elapsed_ns)
{
    struct weft__worker *worker = &carrier->worker;
    // A tenth of the new value: one long task does not change the pace.
    uint64_t each = elapsed_ns / ran;
    worker->average_ns += (int64_t)(each - (uint64_t)worker->average_ns) / 10;
    uint64_t average = worker->average_ns > 0 ? (uint64_t)worker->average_ns : 1;
    uint64_t interval = WEFT_MS / average;
    worker->interval = interval < LEAST_INTERVAL  ? LEAST_INTERVAL
                       : interval > MOST_INTERVAL ? MOST_INTERVAL
                                                  : (unsigned)interval;
    worker->since_look += ran;
    if (worker->since_look >= worker->interval) { // F3
        worker->since_look = 0;
        (void)weft__free_take_injected(carrier);
    }
}
