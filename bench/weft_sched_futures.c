// weft_sched_futures.c - Tokio's four shapes with futures, which is what Tokio's tasks are.
//
// The storage of a future is the program's and must live until its task has ended. Each is malloc'ed where
// it is spawned, as Tokio does, and freed by the main thread, which joins all of them when the last has
// said that it is through. Only in a chain, where Tokio's memory is used again at once, that would keep a
// thousand control blocks: there a scope says when all have ended, and their storage is one piece. What
// Tokio allocates for each channel besides is part of the same struct here.
#include <errno.h>
#include <stdlib.h>

#include "weft_sched.h"

/// One that was spawned; the first member of each.
struct one {
    struct weft_machine machine;
    struct sched_round *round;
    weft_task *task;
    int yields;
};

static int spawn(struct one *one, struct sched_round *round, weft_poll_fn poll)
{
    weft_machine_init(&one->machine, poll);
    one->round = round;
    one->yields = 0;
    return weft_spawn_future(&one->task, &one->machine.future, NULL);
}

static int join(struct one *one)
{
    return weft_join(NULL, one->task, WEFT_FOREVER);
}

/// Starts so many, of so many bytes each, and waits until all have ended. Returns how many there were.
static int each(struct sched_round *round, int count, size_t bytes, weft_poll_fn poll,
                int (*end)(struct one *one))
{
    struct one **all = malloc((size_t)count * sizeof(struct one *));
    int rc = all != NULL ? 0 : -ENOMEM;
    sched_expect(round, count);
    for (int i = 0; i < count && rc == 0; i++) {
        all[i] = malloc(bytes);
        rc = all[i] != NULL ? spawn(all[i], round, poll) : -ENOMEM;
    }
    if (rc == 0) {
        rc = sched_wait_for_all(round);
    }
    for (int i = 0; i < count && rc == 0; i++) {
        rc = end(all[i]);
        free(all[i]);
    }
    free(all);
    return rc < 0 ? rc : count; // after an error the process ends
}

// spawn-many.

static enum weft_poll leave(struct weft_future *future, weft_waker *waker)
{
    (void)waker;
    sched_one_less(((struct one *)(void *)future)->round);
    return WEFT_READY;
}

static int spawn_many(struct sched_round *round)
{
    return each(round, SCHED_SPAWNED, sizeof(struct one), leave, join);
}

// yield-many: who wakes himself goes to the end of the queue.

static enum weft_poll yield_on(struct weft_future *future, weft_waker *waker)
{
    struct one *one = (struct one *)(void *)future;
    if (one->yields++ < SCHED_YIELDS) {
        weft_waker_wake_by_ref(waker);
        return WEFT_PENDING;
    }
    sched_one_less(one->round);
    return WEFT_READY;
}

static int yield_many(struct sched_round *round)
{
    int rc = each(round, SCHED_YIELDERS, sizeof(struct one), yield_on, join);
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
    int rc = spawn(&table->other, table->server.round, answer);
    return rc < 0 ? rc : weft_oneshot_send(&table->there, &table->ball);
}

static enum weft_poll serve_ball(struct weft_future *future, weft_waker *waker)
{
    struct table *table = (struct table *)(void *)future;
    struct weft_machine *machine = &table->server.machine;
    WEFT_MACHINE_BEGIN(machine);
    int rc = begin_game(table);
    if (rc < 0) {
        sched_one_less(table->server.round);
        WEFT_MACHINE_RETURN(machine, rc);
    }
    weft_oneshot_recv_future(&table->server_waits, &table->ball, &table->back);
    WEFT_MACHINE_AWAIT(machine, &table->server_waits.future, waker);
    sched_one_less(table->server.round);
    WEFT_MACHINE_END(machine, table->server_waits.future.result);
}

static int end_game(struct one *one)
{
    struct table *table = (struct table *)(void *)one;
    int result;
    int rc = weft_join(&result, one->task, WEFT_FOREVER);
    rc = rc < 0 ? rc : result;
    return rc < 0 ? rc : join(&table->other);
}

static int ping_pong(struct sched_round *round)
{
    return each(round, SCHED_PINGS, sizeof(struct table), serve_ball, end_game);
}

// chained-spawn: in a scope, which knows when all have ended, with storage for all of them at once.

struct link {
    struct weft_future future;
    struct chain *chain;
};

struct chain {
    struct weft_scope scope;
    int used;
    struct link links[SCHED_CHAIN];
};

static enum weft_poll link_on(struct weft_future *future, weft_waker *waker);

static int spawn_link(struct chain *chain)
{
    struct link *link = &chain->links[chain->used++];
    weft_future_init(&link->future, link_on, NULL);
    link->chain = chain;
    return weft_scope_spawn_future(NULL, &chain->scope, &link->future, NULL);
}

static enum weft_poll link_on(struct weft_future *future, weft_waker *waker)
{
    struct chain *chain = ((struct link *)(void *)future)->chain;
    (void)waker;
    future->result = chain->used < SCHED_CHAIN ? spawn_link(chain) : 0;
    return WEFT_READY;
}

static int chained_spawn(struct sched_round *round)
{
    (void)round;
    struct chain *chain = malloc(sizeof *chain);
    if (chain == NULL) {
        return -ENOMEM;
    }
    chain->used = 0;
    int rc = weft_scope_init(&chain->scope, WEFT_SCOPE_ALL, WEFT_FOREVER);
    if (rc == 0) {
        (void)spawn_link(chain); // the scope fails with it
        rc = weft_scope_join(&chain->scope);
    }
    free(chain);
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
