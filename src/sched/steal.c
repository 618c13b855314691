// steal.c - what may move, where it goes, and where it comes back to.
//
//   H1  While a task runs, its home is the carrier that runs it: its timers and operations are armed
//       there, and every layer above asks task->home. So whoever takes a task re-homes it.
//   H2  A virtual thread that has not started stays with whoever takes it, for life: its origin moves
//       along. What has started and may move (futures, migratable threads) keeps its origin and goes
//       back there with the next wake or yield.
//   H3  A task with timers or operations in flight is bound to the carrier that holds them: it is not
//       offered, and it does not go back either, until there are none.
//   H4  A started virtual thread that is not migratable is never offered; nor is what was placed on a
//       carrier by the program (WEFT_PLACE_CARRIER).
//   H5  The first task on offer is the owner's own next work: nobody is woken for it. Help is asked
//       for when there are two, or when a step ends and leaves one behind.
//   H6  A task on a scheduler of the program's has a home that serves it (guest.h): that stays.
//   H7  Who wakes a task that may move, and finds its home stuck, sends it elsewhere, under the rules of
//       H2. Whether a carrier is stuck is a guess: both answers are right. If all are, there may be a
//       spare one, which takes only what can come back.
//   H8  What the ring of `offer` has no room for waits in `spill`, a list under a lock. It is younger than
//       all in the ring: the owner fills the ring from it when that is empty, and thieves look into it
//       when they find the ring empty. So whoever has more than a ringful can still be helped while he
//       runs one task for long. While the owner moves some, they are in neither; he announces them
//       again afterwards, as whoever offers tasks does (search.c, S1).
//   H9  A thief looks in its own cluster first, where what it takes is in the cache already.
//
// in_flight is written by the task, and by its home when a timer fires. A waker that finds 0 there
// acquires what the home did to the timer, because the task may run elsewhere next.
// Checked by: tests/model/steal_model.c, bound_model.c (H3), tests/stress/steal_stress.c.
#include "sched/steal.h"

#include "base/alloc.h"
#include "sched/clock.h"
#include "sched/crew.h"
#include "sched/relay.h"
#include "task/trace.h"

#define ENOUGH_TO_SHARE 2
#define FIRST_INTERVAL 64

void weft__task_return(struct weft__task *task)
{
    if (weft__unlikely(task->home != task->origin) && weft__task_may_move(task)) {
        task->home = task->origin;
    }
}

void weft__task_rehome(struct weft__task *task, struct weft__carrier *carrier)
{
    task->home = carrier; // H1
    if (!task->started && !carrier->aside) {
        task->origin = carrier; // H2
    }
}

void weft__task_evade(struct weft__task *task, struct weft__carrier *self)
{
    struct weft__crew *crew = task->crew;
    struct weft__carrier *stuck = task->home;
    if (!weft__task_may_move(task)) {
        return;
    }
    int count = weft__crew_active(crew);
    for (int i = 0; i < count; i++) {
        // The waker itself first, if it is one of us: it is certainly awake.
        int first = self != NULL && self->crew == crew ? self->number : stuck->number + 1;
        struct weft__carrier *carrier = &crew->carriers[(first + i) % count];
        bool near = crew->steals_globally || carrier->cluster == stuck->cluster;
        if (near && weft__tally_get(&carrier->stuck) == 0) {
            weft__task_rehome(task, carrier); // as if that had stolen it
            weft__tally_shared(&crew->rescued);
            return;
        }
    }
    struct weft__carrier *spare = crew->spare;
    if (spare != NULL && weft__spare_takes(task) && weft__tally_get(&spare->stuck) == 0) {
        weft__task_rehome(task, spare);
        weft__tally_shared(&crew->rescued);
    }
}

/// H8. The work-stealing policy has one such list for all.
static void spill(struct weft__carrier *carrier, struct weft__node *node)
{
    struct weft__fifo one = { 0 };
    if (carrier->freely) {
        weft__free_overflow(carrier, node);
        weft__search_ask(carrier, carrier);
    } else {
        weft__fifo_push(&one, node);
        weft__inject_push(&carrier->spill, &one);
    }
}

/// Puts a task on offer that may move. Returns how many there are.
static uint32_t offer(struct weft__carrier *carrier, struct weft__node *node)
{
    carrier->offering = true;
    uint32_t on_offer = weft__inject_count(&carrier->spill) == 0
                            ? weft__offer_push(&carrier->offer, node)
                            : 0;
    if (on_offer == 0) {
        spill(carrier, node);
    }
    return on_offer != 0 ? on_offer : WEFT__OFFER_SLOTS;
}

/// Like weft__share(), without asking anybody. Returns how many are on offer, 0: it is in `local`.
static uint32_t queue(struct weft__carrier *carrier, struct weft__task *task)
{
    if (!weft__task_may_move(task)) {
        weft__fifo_push(&carrier->local, &task->node);
        return 0;
    }
    return offer(carrier, &task->node);
}

void weft__share(struct weft__carrier *carrier, struct weft__task *task)
{
    if (carrier->freely) {
        weft__free_yielded(carrier, task);
    } else if (queue(carrier, task) >= ENOUGH_TO_SHARE) {
        weft__search_ask(carrier, carrier);
    }
}

/// Fills the empty ring from what did not fit into it (H8).
static void refill(struct weft__carrier *carrier)
{
    struct weft__fifo batch = { 0 };
    (void)weft__inject_take(&carrier->spill, &batch, WEFT__OFFER_SLOTS / 2);
    for (struct weft__node *node; (node = weft__fifo_pop(&batch)) != NULL;) {
        if (weft__offer_push(&carrier->offer, node) == 0) {
            weft__fifo_push(&carrier->local, node);
        }
    }
    if (weft__carrier_offered(carrier) >= ENOUGH_TO_SHARE) {
        weft__search_ask(carrier, carrier);
    }
}

/// As weft__prefetch_ready(): all of the next one, and the first line of the second next.
static void prefetch_offered(struct weft__carrier *carrier)
{
    struct weft__node *next = weft__offer_peek(&carrier->offer, 0);
    if (next != NULL) {
        const struct weft__task *task = weft__container_of(next, struct weft__task, node);
#if !WEFT__TSAN // a thief may have it by now: then it is a wrong guess, about memory that stays a task's
        if (weft__likely(task->kind == &weft__kind_thread)) {
            weft__context_prefetch_cold(&task->context);
        } else {
            weft__context_prefetch(&task->context);
        }
#endif
        __builtin_prefetch((const char *)task + WEFT__LINE, 1);
        __builtin_prefetch((const char *)task + 2 * WEFT__LINE, 1);
        __builtin_prefetch(weft__offer_peek(&carrier->offer, 1), 1);
    }
}

static struct weft__node *pick(struct weft__carrier *carrier)
{
    if (carrier->freely) {
        struct weft__node *free = weft__free_pick(carrier);
        prefetch_offered(carrier);
        return free;
    }
    struct weft__node *node = weft__offer_pop(&carrier->offer);
    if (node == NULL && weft__inject_count(&carrier->spill) > 0) {
        refill(carrier);
        node = weft__offer_pop(&carrier->offer);
    }
    // Thieves may have emptied the ring once more: what is left in `spill` is still ours to look after.
    carrier->offering = node != NULL || weft__inject_count(&carrier->spill) > 0;
    return node;
}

struct weft__node *weft__next_shared(struct weft__carrier *carrier)
{
    carrier->offers_turn = !carrier->offers_turn;
    struct weft__node *node = NULL;
    if (carrier->offers_turn) {
        node = pick(carrier);
    }
    if (node == NULL) {
        node = weft__fifo_pop(&carrier->local);
    }
    if (node == NULL && !carrier->offers_turn) {
        node = pick(carrier);
    }
    if (node == NULL && carrier->freely && weft__free_take_injected(carrier) > 0) {
        node = pick(carrier);
    }
    return node;
}

struct weft__task *weft__relay_next_offered(struct weft__carrier *carrier)
{
    if (weft__unlikely(carrier->annex != NULL)) {
        return NULL; // it is the loop's, whatever it is: nobody else gets at what is in `local`
    }
    struct weft__node *node = carrier->relay_left > 0 ? pick(carrier) : NULL;
    if (node == NULL) {
        return NULL;
    }
    struct weft__task *task = weft__container_of(node, struct weft__task, node);
    if (task->kind != &weft__kind_thread) {
        weft__fifo_push(&carrier->local, node); // the loop's
        return NULL;
    }
    carrier->relay_left--;
    return task;
}

/// For whoever traces it.
struct robbery {
    const struct weft__carrier *victim;
    uint64_t depth;
    bool directed;
};

/// Takes in tasks, which stay on offer: others may be idle, too. `from` is NULL if nobody was robbed.
static void receive(struct weft__carrier *carrier, struct weft__fifo *loot,
                    const struct robbery *from)
{
    for (struct weft__node *node; (node = weft__fifo_pop(loot)) != NULL;) {
        struct weft__task *task = weft__container_of(node, struct weft__task, node);
        if (task->home != carrier) { // or it was never away: nothing but its first line is touched
            weft__task_rehome(task, carrier);
        }
        if (weft__traced() && from != NULL) {
            weft__trace_steal(task, from->victim, carrier, from->depth, from->directed);
        }
        (void)offer(carrier, node); // it was on offer, so it may move
    }
}

void weft__steal_receive(struct weft__carrier *carrier, struct weft__fifo *loot)
{
    receive(carrier, loot, NULL);
}

/// Returns how many tasks were taken, 0 if the victim has none, -EBUSY or -EAGAIN. After -EBUSY the
/// other thief asks for help if it leaves something behind.
static int rob(struct weft__carrier *carrier, struct weft__carrier *victim, bool directed)
{
    struct weft__fifo loot = { 0 };
    struct robbery from = { victim, weft__carrier_offered(victim), directed };
    int count = victim != carrier ? weft__offer_steal(&victim->offer, &loot) : 0;
    if (count == 0 && victim != carrier) {
        size_t half = (weft__inject_count(&victim->spill) + 1) / 2; // H8
        size_t most = half < WEFT__OFFER_SLOTS / 2 ? half : WEFT__OFFER_SLOTS / 2;
        count = (int)weft__inject_take(&victim->spill, &loot, most);
    }
    receive(carrier, &loot, &from);
    return count;
}

/// After a robbery: who has more than he is about to run asks for help.
static void pass_on(struct weft__carrier *carrier, struct weft__carrier *victim, int taken)
{
    if (taken > 0) {
        // A thief that met us has taken the owner's request and relies on us. We are out of the lane
        // now, and only then look at what is left.
        atomic_thread_fence(memory_order_seq_cst);
    }
    if (taken == -EAGAIN || (taken > 0 && weft__carrier_offered(victim) > 0)) {
        weft__search_ask(victim, carrier);
    }
    bool more = taken > 0 && weft__carrier_offered(carrier) >= ENOUGH_TO_SHARE;
    if (more || (carrier->freely && weft__inject_count(carrier->worker.inject) > 0)) {
        weft__search_ask(carrier, carrier);
    }
}

static void tally(_Atomic uint64_t *counter, int taken)
{
    if (taken > 0) {
        weft__tally(counter, (uint64_t)taken);
    }
}

void weft__steal_sent(struct weft__carrier *carrier)
{
    if (weft__unlikely(carrier->leaving)) {
        weft__steal_leave(carrier);
        return;
    }
    struct weft__carrier *victim = weft__search_sent(carrier);
    if (weft__likely(victim == NULL)) {
        return;
    }
    int taken = rob(carrier, victim, true);
    tally(&carrier->counts.stolen_sent, taken);
    if (taken == 0 && carrier->freely) {
        (void)weft__free_take_injected(carrier); // policy_stealing.c, F2
    }
    weft__search_stop(victim, carrier);
    pass_on(carrier, victim, taken);
}

void weft__steal_for(struct weft__carrier *carrier, struct weft__carrier *victim)
{
    int taken = rob(carrier, victim, true);
    tally(&carrier->counts.stolen_sent, taken);
    pass_on(carrier, victim, taken);
}

/// In the simulator the seed draws.
static struct weft__rng *rng_of(struct weft__carrier *carrier)
{
    return carrier->sim != NULL ? &carrier->sim->rng : &carrier->random;
}

/// H9: the carriers that this one may rob, those of its own cluster and then everybody. False: there
/// are no more.
static bool next_area(const struct weft__carrier *carrier, struct weft__cluster *area)
{
    const struct weft__crew *crew = carrier->crew;
    if (area->count == 0) {
        *area = weft__crew_cluster(crew, carrier->cluster);
        if (area->count > 0) {
            return true;
        }
    }
    int active = weft__crew_active(crew);
    bool wider = crew->steals_globally && area->count < active;
    *area = (struct weft__cluster){ .first = 0, .count = active };
    return wider;
}

static struct weft__carrier *draw(struct weft__carrier *carrier, const struct weft__cluster *area)
{
    uint32_t drawn = weft__rng_below(rng_of(carrier), (uint32_t)area->count);
    return &carrier->crew->carriers[area->first + (int)drawn];
}

static struct weft__carrier *busier_of_two(struct weft__carrier *carrier,
                                           const struct weft__cluster *area)
{
    struct weft__carrier *one = draw(carrier, area);
    struct weft__carrier *other = draw(carrier, area);
    uint64_t ones = weft__carrier_offered(one);
    uint64_t others = weft__carrier_offered(other);
    if (ones == 0 && others == 0) {
        return NULL;
    }
    return ones >= others ? one : other;
}

/// Robs the first of the area who has something, beginning anywhere; stores who that was.
static int rob_anyone(struct weft__carrier *carrier, const struct weft__cluster *area,
                      struct weft__carrier **victim)
{
    int from = (int)weft__rng_below(rng_of(carrier), (uint32_t)area->count);
    int taken = 0;
    for (int i = 0; i < area->count && taken == 0; i++) {
        *victim = &carrier->crew->carriers[area->first + (from + i) % area->count];
        taken = rob(carrier, *victim, false);
    }
    return taken;
}

/// Under the work-stealing policy: whoever asked for help, then everyone, then the common queue.
static bool search_freely(struct weft__carrier *carrier)
{
    if (!weft__search_start(carrier)) {
        return false;
    }
    struct weft__carrier *victim = weft__search_take(carrier);
    int taken = victim != NULL ? rob(carrier, victim, false) : 0;
    struct weft__cluster area = { 0 };
    while (taken == 0 && next_area(carrier, &area)) {
        taken = rob_anyone(carrier, &area, &victim);
    }
    tally(&carrier->counts.stolen_idly, taken);
    bool found = taken > 0 || weft__free_take_injected(carrier) > 0;
    weft__search_stop(carrier, carrier);
    pass_on(carrier, victim, taken);
    return found;
}

bool weft__steal_idly(struct weft__carrier *carrier)
{
    if (carrier->freely) {
        return search_freely(carrier);
    }
    struct weft__carrier *victim = weft__search_take(carrier);
    struct weft__cluster area = { 0 };
    while (victim == NULL && next_area(carrier, &area)) {
        victim = busier_of_two(carrier, &area);
    }
    if (victim == NULL) {
        return false;
    }
    int taken = rob(carrier, victim, false);
    tally(&carrier->counts.stolen_idly, taken);
    pass_on(carrier, victim, taken);
    return taken > 0;
}

void weft__steal_leave(struct weft__carrier *carrier)
{
    struct weft__carrier *victim = weft__search_sent(carrier);
    if (victim != NULL) {
        weft__search_stop(victim, carrier);
        weft__search_ask(victim, carrier); // we took its bit
    }
}

static size_t help_size(const struct weft__crew *crew)
{
    return (size_t)crew->capacity * sizeof *crew->help; // there are at most so many clusters
}

int weft__steal_init(struct weft__crew *crew, bool freely)
{
    crew->help = weft__alloc(crew->allocator, help_size(crew), _Alignof(struct weft__help));
    if (crew->help == NULL) {
        return -ENOMEM;
    }
    for (int i = 0; i < crew->capacity; i++) {
        struct weft__carrier *carrier = &crew->carriers[i];
        carrier->shares = true;
        carrier->freely = freely && !carrier->aside; // that one takes nothing on its own account
        carrier->offering = carrier->freely;
        carrier->worker.interval = FIRST_INTERVAL;
        carrier->worker.average_ns = WEFT_MS / FIRST_INTERVAL;
        carrier->random.state = (uint64_t)i;
    }
    weft__steal_seat(crew);
    return 0;
}

void weft__steal_seat(struct weft__crew *crew)
{
    for (int i = 0; i < crew->capacity; i++) {
        struct weft__carrier *carrier = &crew->carriers[i];
        struct weft__help *help = &crew->help[carrier->cluster];
        // policy_stealing.c, F5
        carrier->worker.inject = crew->steals_globally ? &crew->inject : &help->inject;
    }
}

void weft__steal_fini(struct weft__crew *crew)
{
    if (crew->help != NULL) {
        weft__free(crew->allocator, crew->help, help_size(crew));
        crew->help = NULL;
    }
}
