// weft_chan_bounded.c - bounded channels and rendezvous.
#include <errno.h>
#include <stdatomic.h>

#include "weft_chan.h"

enum { BATCH = 1000, SIDE = 4, FLOW_CAPACITY = 64 };

static weft_chan *there, *back;
static _Atomic int senders;
static uint64_t per_task;

static int make(weft_chan **chan, size_t capacity)
{
    return weft_chan_create(chan, sizeof(uint64_t), capacity);
}

/// `count` sends and receives, a batch of each in turn, of which one side is measured.
static int batches(uint64_t count, bool sends)
{
    int rc = make(&there, BATCH);
    if (rc < 0) {
        return rc;
    }
    chan_begin();
    for (uint64_t done = 0; done < count && rc == 0; done += BATCH) {
        uint64_t item;
        double t = chan_clock();
        for (uint64_t i = 0; i < BATCH; i++) {
            rc |= weft_chan_send(there, &i, WEFT_FOREVER);
        }
        if (sends) {
            chan_add(t);
        }
        t = chan_clock();
        for (uint64_t i = 0; i < BATCH; i++) {
            rc |= weft_chan_recv(&item, there, WEFT_FOREVER);
        }
        if (!sends) {
            chan_add(t);
        }
    }
    chan_end((count + BATCH - 1) / BATCH * BATCH);
    weft_chan_destroy(there);
    return rc;
}

static int play_send(uint64_t count)
{
    return batches(count, true);
}

static int play_recv(uint64_t count)
{
    return batches(count, false);
}

static int echo(void *arg)
{
    uint64_t item;
    (void)arg;
    while (weft_chan_recv(&item, there, WEFT_FOREVER) == 0) {
        int rc = weft_chan_send(back, &item, WEFT_FOREVER);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int ping(uint64_t count)
{
    int rc = 0;
    chan_begin();
    for (uint64_t i = 0; i < count && rc == 0; i++) {
        uint64_t item;
        rc = weft_chan_send(there, &i, WEFT_FOREVER);
        rc = rc < 0 ? rc : weft_chan_recv(&item, back, WEFT_FOREVER);
    }
    chan_end(count);
    return rc;
}

static int play_round_trip(uint64_t count)
{
    weft_task *task;
    int rc = make(&there, 1);
    rc = rc < 0 ? rc : make(&back, 1);
    rc = rc < 0 ? rc : chan_spawn(&task, echo, NULL);
    if (rc < 0) {
        return rc;
    }
    rc = ping(count);
    weft_chan_close(there);
    int joined = chan_join(&task, 1);
    weft_chan_destroy(there);
    weft_chan_destroy(back);
    return rc < 0 ? rc : joined;
}

static int send_all(void *arg)
{
    int rc = 0;
    (void)arg;
    for (uint64_t i = 0; i < per_task && rc == 0; i++) {
        rc = weft_chan_send(there, &i, WEFT_FOREVER);
    }
    if (atomic_fetch_sub(&senders, 1) == 1) {
        weft_chan_close(there);
    }
    return rc;
}

static int receive_all(void *arg)
{
    uint64_t item;
    (void)arg;
    while (weft_chan_recv(&item, there, WEFT_FOREVER) == 0) {
    }
    return 0;
}

/// So many on each side.
static int flow(uint64_t count, size_t capacity, int side)
{
    weft_task *tasks[2 * SIDE] = { NULL };
    int rc = make(&there, capacity);
    if (rc < 0) {
        return rc;
    }
    atomic_store(&senders, side);
    per_task = count / (uint64_t)side;
    chan_begin();
    for (int i = 0; i < side && rc == 0; i++) {
        rc = chan_spawn(&tasks[i], receive_all, NULL);
        rc = rc < 0 ? rc : chan_spawn_here(&tasks[side + i], send_all, NULL);
    }
    int joined = chan_join(tasks, 2 * side);
    chan_end(per_task * (uint64_t)side);
    weft_chan_destroy(there);
    return rc < 0 ? rc : joined;
}

static int play_stream(uint64_t count)
{
    return flow(count, FLOW_CAPACITY, 1);
}

static int play_4x4(uint64_t count)
{
    return flow(count, FLOW_CAPACITY, SIDE);
}

static int play_rendezvous(uint64_t count)
{
    return flow(count, 0, 1);
}

const struct chan_workload chan_bounded[] = {
    { "send", play_send },
    { "recv", play_recv },
    { "round-trip", play_round_trip },
    { "stream", play_stream },
    { "4x4", play_4x4 },
    { "rendezvous", play_rendezvous },
    { NULL, NULL },
};
