// weft_sched_futures.c - Tokio's four shapes with futures, which is what Tokio's tasks are.
//
// Tokio allocates each task with its future in it. weft allocates the task, and the future is the program's:
// here they stand in one array, which the next round uses again. So there is one allocation for each, in both.
// What Tokio allocates for each channel besides is part of the same struct.
#include <errno.h>
#include <stdlib.h>

#include "weft_sched.h"

/// One that was started; the first member of each.
struct one {
    struct weft_machine machine;
    struct sched_round *round;
    int yields;
};

static struct one *of(struct weft_future *future)
{
    return (struct one *)(void *)future;
}

static void one_ended(struct weft_future *future)
{
    sched_one_less(of(future)->round); // it may be used again
}

static int start(struct one *one, struct sched_round *round, weft_poll_fn poll)
{
    weft_machine_init(&one->machine, poll);
    one->round = round;
    one->yields = 0;
    return weft_go_future(&one->machine.future, one_ended);
}

/// Starts so many, of so many bytes each, and waits until `ends` have ended. Returns how many there were.
static int each(struct sched_round *round, int count, size_t bytes, weft_poll_fn poll, int ends)
{
    if (round->storage == NULL) {
        round->storage = malloc((size_t)count * bytes);
    }
    int rc = round->storage != NULL ? 0 : -ENOMEM;
    sched_expect(round, ends);
    for (int i = 0; i < count && rc == 0; i++) {
        rc = start((void *)((char *)round->storage + (size_t)i * bytes), round, poll);
    }
    if (rc == 0) {
        rc = sched_wait_for_all(round);
    }
    return rc < 0 ? rc : count; // after an error the process ends
}

// spawn-many.

static enum weft_poll leave(struct weft_future *future, weft_waker *waker)
{
    (void)future;
    (void)waker;
    return WEFT_READY;
}

static int spawn_many(struct sched_round *round)
{
    return each(round, SCHED_SPAWNED, sizeof(struct one), leave, SCHED_SPAWNED);
}

// yield-many: who wakes himself goes to the end of the queue.

static enum weft_poll yield_on(struct weft_future *future, weft_waker *waker)
{
    if (of(future)->yields++ < SCHED_YIELDS) {
        weft_waker_wake_by_ref(waker);
        return WEFT_PENDING;
    }
    return WEFT_READY;
}

static int yield_many(struct sched_round *round)
{
    int rc = each(round, SCHED_YIELDERS, sizeof(struct one), yield_on, SCHED_YIELDERS);
    return rc < 0 ? rc : rc * SCHED_YIELDS;
}

// ping-pong: the table is the one's who serves, and the other one is on it.

struct table {
    struct one server, other;
    struct weft_oneshot there, back;
    struct weft_sync_future server_waits, other_waits;
    int ping, pong;
    int ball, answered; // what the server, and the other one, have in hand
};

static enum weft_poll answer(struct weft_future *future, weft_waker *waker)
{
    struct table *table = (struct table *)(void *)((char *)future - offsetof(struct table, other));
    struct weft_machine *machine = &table->other.machine;
    WEFT_MACHINE_BEGIN(machine);
    weft_oneshot_recv_future(&table->other_waits, &table->answered, &table->there);
    WEFT_MACHINE_AWAIT(machine, &table->other_waits.future, waker);
    if (table->other_waits.future.result < 0) {
        WEFT_MACHINE_RETURN(machine, table->other_waits.future.result);
    }
    WEFT_MACHINE_END(machine, weft_oneshot_send(&table->back, &table->answered));
}

static int begin_game(struct table *table)
{
    table->ball = 1;
    weft_oneshot_init(&table->there, &table->ping, sizeof table->ping);
    weft_oneshot_init(&table->back, &table->pong, sizeof table->pong);
    int rc = start(&table->other, table->server.round, answer);
    return rc < 0 ? rc : weft_oneshot_send(&table->there, &table->ball);
}

static enum weft_poll serve_ball(struct weft_future *future, weft_waker *waker)
{
    struct table *table = (struct table *)(void *)future;
    struct weft_machine *machine = &table->server.machine;
    WEFT_MACHINE_BEGIN(machine);
    int rc = begin_game(table);
    if (rc < 0) {
        sched_failed(table->server.round, rc);
        WEFT_MACHINE_RETURN(machine, rc);
    }
    weft_oneshot_recv_future(&table->server_waits, &table->ball, &table->back);
    WEFT_MACHINE_AWAIT(machine, &table->server_waits.future, waker);
    if (table->server_waits.future.result < 0) {
        sched_failed(table->server.round, (int)table->server_waits.future.result);
    }
    WEFT_MACHINE_END(machine, table->server_waits.future.result);
}

static int ping_pong(struct sched_round *round)
{
    return each(round, SCHED_PINGS, sizeof(struct table), serve_ball, 2 * SCHED_PINGS);
}

// chained-spawn.

static enum weft_poll link_on(struct weft_future *future, weft_waker *waker)
{
    struct sched_round *round = of(future)->round;
    (void)waker;
    if (--round->links > 0) {
        int rc = start(of(future) + 1, round, link_on); // which has the round from now on
        if (rc < 0) {
            sched_failed(round, rc);
        }
    }
    return WEFT_READY;
}

static int chained_spawn(struct sched_round *round)
{
    if (round->storage == NULL) {
        round->storage = malloc(SCHED_CHAIN * sizeof(struct one));
    }
    sched_expect(round, SCHED_CHAIN);
    round->links = SCHED_CHAIN;
    int rc = round->storage != NULL ? start(round->storage, round, link_on) : -ENOMEM;
    if (rc == 0) {
        rc = sched_wait_for_all(round);
    }
    return rc < 0 ? rc : SCHED_CHAIN;
}

#define SHAPE(shape)                                                                               \
    SCHED_BENCH(shape, 1, STEALING)                                                                \
    SCHED_BENCH(shape, 2, STEALING)                                                                \
    SCHED_BENCH(shape, 1, PLAIN)                                                                   \
    SCHED_BENCH(shape, 2, PLAIN)

SHAPE(spawn_many)
SHAPE(yield_many)
SHAPE(ping_pong)
SHAPE(chained_spawn)

#define NAMES(shape, name)                                                                         \
    { "sched-futures/" name "/stealing-1", shape##_1_STEALING },                                   \
        { "sched-futures/" name "/stealing-2", shape##_2_STEALING },                               \
        { "sched-futures/" name "/plain-1", shape##_1_PLAIN },                                     \
    {                                                                                              \
        "sched-futures/" name "/plain-2", shape##_2_PLAIN                                          \
    }

const struct contender_bench weft_sched_future_benches[] = {
    NAMES(spawn_many, "spawn-many"),
    NAMES(yield_many, "yield-many"),
    NAMES(ping_pong, "ping-pong"),
    NAMES(chained_spawn, "chained-spawn"),
    { NULL, NULL },
};
