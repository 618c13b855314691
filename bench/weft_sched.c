// weft_sched.c - the scheduler: Tokio's four shapes, a load that is created on one carrier, and what
// stealing costs when there is nothing to steal.
//
// `/stealing-N` is the work-stealing policy on N carriers, `/steal-N` locality with stealing, `/plain-N`
// locality. What is measured is CPU time on one carrier; on two it is wall time, and CPU time besides.
#include <stdlib.h>

#include "weft_sched.h"

enum { COUPLES = 50 };

struct couple {
    struct sched_round *round;
    struct weft_notify ours, theirs;
};

void sched_one_less(struct sched_round *round)
{
    if (atomic_fetch_sub_explicit(&round->left, 1, memory_order_acq_rel) == 1) {
        weft_event_set(&round->over);
    }
}

void sched_expect(struct sched_round *round, int64_t count)
{
    weft_event_clear(&round->over);
    atomic_store_explicit(&round->left, count, memory_order_relaxed);
}

int sched_wait_for_all(struct sched_round *round)
{
    int rc = weft_event_wait(&round->over, WEFT_FOREVER);
    return rc < 0 ? rc : atomic_load_explicit(&round->error, memory_order_relaxed);
}

void sched_failed(struct sched_round *round, int error)
{
    atomic_store_explicit(&round->error, error, memory_order_relaxed);
    weft_event_set(&round->over);
}

// spawn-many: one task starts many that do nothing.

static int leave(void *arg)
{
    sched_one_less(arg);
    return 0;
}

static int spawn_many(struct sched_round *round)
{
    sched_expect(round, SCHED_SPAWNED);
    for (int i = 0; i < SCHED_SPAWNED; i++) {
        int rc = weft_go(leave, round);
        if (rc < 0) {
            return rc;
        }
    }
    int rc = sched_wait_for_all(round);
    return rc < 0 ? rc : SCHED_SPAWNED;
}

// yield-many: many that yield, a thousand times each.

static int yield_on(void *arg)
{
    for (int i = 0; i < SCHED_YIELDS; i++) {
        weft_yield();
    }
    sched_one_less(arg);
    return 0;
}

static int yield_many(struct sched_round *round)
{
    sched_expect(round, SCHED_YIELDERS);
    for (int i = 0; i < SCHED_YIELDERS; i++) {
        int rc = weft_go(yield_on, round);
        if (rc < 0) {
            return rc;
        }
    }
    int rc = sched_wait_for_all(round);
    return rc < 0 ? rc : SCHED_YIELDERS * SCHED_YIELDS;
}

// ping-pong: a thousand tasks, each starts another, sends it something and waits for the answer.

struct table {
    struct sched_round *round;
    struct weft_oneshot there, back;
    int ping, pong;
};

static int answer(void *arg)
{
    struct table *table = arg;
    int ball;
    int rc = weft_oneshot_recv(&ball, &table->there, WEFT_FOREVER);
    return rc < 0 ? rc : weft_oneshot_send(&table->back, &ball);
}

static int serve_ball(void *arg)
{
    struct table table = { .round = arg };
    int ball = 1;
    weft_oneshot_init(&table.there, &table.ping, sizeof table.ping);
    weft_oneshot_init(&table.back, &table.pong, sizeof table.pong);
    int rc = weft_go(answer, &table);
    rc = rc < 0 ? rc : weft_oneshot_send(&table.there, &ball);
    rc = rc < 0 ? rc : weft_oneshot_recv(&ball, &table.back, WEFT_FOREVER);
    // Who has the answer knows that the other one is through with the table.
    rc = rc < 0 ? rc : weft_oneshot_fini(&table.back);
    rc = rc < 0 ? rc : weft_oneshot_fini(&table.there);
    if (rc < 0) {
        sched_failed(arg, rc);
    }
    sched_one_less(arg);
    return rc;
}

static int ping_pong(struct sched_round *round)
{
    sched_expect(round, SCHED_PINGS);
    for (int i = 0; i < SCHED_PINGS; i++) {
        int rc = weft_go(serve_ball, round);
        if (rc < 0) {
            return rc;
        }
    }
    int rc = sched_wait_for_all(round);
    return rc < 0 ? rc : SCHED_PINGS;
}

// chained-spawn: each task starts the next one.

static int link_on(void *arg)
{
    struct sched_round *round = arg;
    if (--round->links == 0) {
        weft_event_set(&round->over);
        return 0;
    }
    int rc = weft_go(link_on, round); // which has it from now on
    if (rc < 0) {
        sched_failed(round, rc);
    }
    return rc;
}

static int chained_spawn(struct sched_round *round)
{
    sched_expect(round, 0);
    round->links = SCHED_CHAIN;
    int rc = weft_go(link_on, round);
    if (rc == 0) {
        rc = sched_wait_for_all(round);
    }
    return rc < 0 ? rc : SCHED_CHAIN;
}

// skew: all on one carrier, each computes for some microseconds.

static int compute(void *arg)
{
    uint64_t x = CONTENDER_SEED;
    for (int i = 0; i < CONTENDER_SKEW_ROUNDS; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    if (x != 0) { // always
        sched_one_less(arg);
    }
    return 0;
}

static int skew(struct sched_round *round)
{
    sched_expect(round, SCHED_SKEWED);
    for (int i = 0; i < SCHED_SKEWED; i++) {
        int rc = weft_go(compute, round);
        if (rc < 0) {
            return rc;
        }
    }
    int rc = sched_wait_for_all(round);
    return rc < 0 ? rc : SCHED_SKEWED;
}

// idle: threads that have started and may not move, on the first carrier. Half of the turns are yields,
// half are wakes.

static int pass_on(void *arg)
{
    struct couple *couple = arg;
    for (int i = 0; i < SCHED_YIELDS; i++) {
        weft_notify_one(&couple->theirs);
        if (weft_notify_wait(&couple->ours, WEFT_FOREVER) < 0) {
            break;
        }
        weft_yield();
    }
    weft_notify_one(&couple->theirs);
    sched_one_less(couple->round);
    return 0;
}

static int pass_back(void *arg)
{
    struct couple *couple = arg;
    for (int i = 0; i < SCHED_YIELDS; i++) {
        if (weft_notify_wait(&couple->theirs, WEFT_FOREVER) < 0) {
            break;
        }
        weft_notify_one(&couple->ours);
        weft_yield();
    }
    sched_one_less(couple->round);
    return 0;
}

static int idle(struct sched_round *round)
{
    struct couple couples[COUPLES];
    struct weft_attr attr = WEFT_ATTR_INIT;
    int rc = 0;
    attr.place = WEFT_PLACE_CARRIER;
    sched_expect(round, 2 * COUPLES);
    for (int i = 0; i < COUPLES && rc == 0; i++) {
        couples[i].round = round;
        weft_notify_init(&couples[i].ours);
        weft_notify_init(&couples[i].theirs);
        rc = weft_spawn(NULL, pass_on, &couples[i], &attr);
        if (rc == 0) {
            rc = weft_spawn(NULL, pass_back, &couples[i], &attr);
        }
    }
    if (rc == 0) {
        rc = sched_wait_for_all(round);
    }
    for (int i = 0; i < COUPLES && rc == 0; i++) {
        rc = weft_notify_fini(&couples[i].ours);
        rc = rc == 0 ? weft_notify_fini(&couples[i].theirs) : rc;
    }
    return rc < 0 ? rc : 2 * COUPLES * SCHED_YIELDS;
}

static int sched_main(void *arg)
{
    struct sched_round *round = arg;
    uint64_t done = 0;
    weft_event_init(&round->over);
    int rc = round->once(round); // warm
    double t0 = contender_now_ns(), cpu0 = contender_cpu_ns();
    while (rc >= 0 && done < round->count) {
        rc = round->once(round);
        done += rc > 0 ? (uint64_t)rc : 0;
    }
    if (rc < 0) {
        return rc;
    }
    double cpu = (contender_cpu_ns() - cpu0) / (double)done;
    if (weft_carrier_count() == 1) {
        contender_add(round->out, "ns_per_op", cpu);
    } else {
        contender_add(round->out, "ns_per_op", (contender_now_ns() - t0) / (double)done);
        contender_add(round->out, "cpu_ns_per_op", cpu);
    }
    return weft_event_fini(&round->over);
}

int sched_run(struct contender_result *out, uint64_t count, int (*once)(struct sched_round *round),
              int carriers, enum sched_policy policy)
{
    struct sched_round round = { .out = out, .count = count, .once = once };
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = carriers;
    options.policy = policy == STEALING ? WEFT_POLICY_STEALING : WEFT_POLICY_LOCALITY;
    options.steal = policy == STEAL ? WEFT_STEAL_ON : WEFT_STEAL_OFF;
    int rc = weft_run(sched_main, &round, &options);
    free(round.storage);
    return rc;
}

#define SHAPE(shape)                                                                               \
    SCHED_BENCH(shape, 1, STEALING)                                                                \
    SCHED_BENCH(shape, 2, STEALING)                                                                \
    SCHED_BENCH(shape, 1, PLAIN)                                                                   \
    SCHED_BENCH(shape, 2, PLAIN)                                                                   \
    SCHED_BENCH(shape, 2, STEAL)

SHAPE(spawn_many)
SHAPE(yield_many)
SHAPE(ping_pong)
SHAPE(chained_spawn)
SHAPE(skew)
SHAPE(idle)

#define NAMES(shape, name)                                                                         \
    { "sched/" name "/stealing-1", shape##_1_STEALING },                                           \
        { "sched/" name "/stealing-2", shape##_2_STEALING },                                       \
        { "sched/" name "/plain-1", shape##_1_PLAIN },                                             \
        { "sched/" name "/plain-2", shape##_2_PLAIN },                                             \
    {                                                                                              \
        "sched/" name "/steal-2", shape##_2_STEAL                                                  \
    }

const struct contender_bench weft_sched_benches[] = {
    NAMES(spawn_many, "spawn-many"),
    NAMES(yield_many, "yield-many"),
    NAMES(ping_pong, "ping-pong"),
    NAMES(chained_spawn, "chained-spawn"),
    NAMES(skew, "skew"),
    NAMES(idle, "idle"),
    { NULL, NULL },
};
