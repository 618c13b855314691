// weft_select.c - weft's side of the select rows: receiving from the first of 2 or 8 channels.
#include <errno.h>

#include "weft_chan.h"

enum { BATCH = 1000, MOST = 8 };

static weft_chan *chans[MOST], *back;
static uint64_t items[MOST];
static size_t used;

static int make(weft_chan **chan, size_t capacity)
{
    return weft_chan_create(chan, sizeof(uint64_t), capacity);
}

static int open_all(size_t count, size_t capacity)
{
    int rc = 0;
    used = count;
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = make(&chans[i], capacity);
    }
    return rc;
}

static void close_all(void)
{
    for (size_t i = 0; i < used; i++) {
        weft_chan_destroy(chans[i]);
    }
}

static void make_cases(struct weft_case *cases)
{
    for (size_t i = 0; i < used; i++) {
        cases[i] = weft_case_recv(chans[i], &items[i]);
    }
}

/// All channels have items, of which each select takes one.
static int ready(uint64_t count, size_t channels)
{
    int rc = open_all(channels, BATCH);
    if (rc < 0) {
        return rc;
    }
    struct weft_case cases[MOST];
    make_cases(cases);
    chan_begin();
    for (uint64_t done = 0; done < count && rc >= 0; done += BATCH) {
        for (uint64_t i = 0; i < BATCH && rc >= 0; i++) {
            rc = weft_chan_send(chans[i % channels], &i, WEFT_FOREVER);
        }
        double t = chan_clock();
        for (uint64_t i = 0; i < BATCH && rc >= 0; i++) {
            rc = weft_select(cases, channels, WEFT_FOREVER);
        }
        chan_add(t);
    }
    chan_end((count + BATCH - 1) / BATCH * BATCH);
    close_all();
    return rc < 0 ? rc : 0;
}

static int play_ready_2(uint64_t count)
{
    return ready(count, 2);
}

static int play_ready_8(uint64_t count)
{
    return ready(count, 8);
}

/// Waits for the next item on any channel, and answers.
static int answer(void *arg)
{
    struct weft_case cases[MOST];
    (void)arg;
    make_cases(cases);
    for (;;) {
        int chosen = weft_select(cases, used, WEFT_FOREVER);
        if (chosen < 0 || cases[chosen].result < 0) {
            return chosen < 0 ? chosen : 0;
        }
        int rc = weft_chan_send(back, &items[chosen], WEFT_FOREVER);
        if (rc < 0) {
            return rc;
        }
    }
}

static int ask(uint64_t count)
{
    int rc = 0;
    chan_begin();
    for (uint64_t i = 0; i < count && rc == 0; i++) {
        uint64_t item;
        rc = weft_chan_send(chans[i % used], &i, WEFT_FOREVER);
        rc = rc < 0 ? rc : weft_chan_recv(&item, back, WEFT_FOREVER);
    }
    chan_end(count);
    return rc;
}

static int round_trip(uint64_t count, size_t channels)
{
    weft_task *task = NULL;
    int rc = open_all(channels, 1);
    rc = rc < 0 ? rc : make(&back, 1);
    rc = rc < 0 ? rc : chan_spawn(&task, answer, NULL);
    if (rc < 0) {
        return rc;
    }
    rc = ask(count);
    weft_chan_close(chans[0]);
    int joined = chan_join(&task, 1);
    close_all();
    weft_chan_destroy(back);
    return rc < 0 ? rc : joined;
}

static int play_2(uint64_t count)
{
    return round_trip(count, 2);
}

static int play_8(uint64_t count)
{
    return round_trip(count, 8);
}

const struct chan_workload chan_selects[] = {
    { "select-2", play_2 },
    { "select-8", play_8 },
    { "select-ready-2", play_ready_2 },
    { "select-ready-8", play_ready_8 },
    { NULL, NULL },
};
