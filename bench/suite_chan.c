// suite_chan.c - the rows of `chan`.
//
// weft must be ahead of the peers in each. A row on one CPU counts CPU time. A row on two counts the
// time that passes, and runs weft twice: `weft` leaves its tasks where they were spawned, on one of
// two carriers, which is how it keeps tasks together that talk to each other; `weft-spread` has the
// senders on one carrier and the receivers on the other, whatever that costs.
#include <stddef.h>

#include "suite.h"

#define MILLION 1000000
#define END                                                                                        \
    {                                                                                              \
        NULL, NULL, NULL, 0, NULL                                                                  \
    }
#define ONE(bench)                                                                                 \
    {                                                                                              \
        { "weft", NULL, bench, 0, NULL }, { "go", "go", bench, 1, NULL },                          \
            { "tokio", "tokio", bench, 1, NULL },                                                  \
            { "tokio-1-worker", "tokio", bench "/1-worker", 1, NULL }, END,                        \
    }
#define TWO(bench)                                                                                 \
    {                                                                                              \
        { "weft", NULL, bench "/2", 0, NULL }, { "weft-spread", NULL, bench "/spread", 0, NULL },  \
            { "go", "go", bench "/2", 1, NULL },                                                   \
            { "tokio-2-workers", "tokio", bench "/2-workers", 1, NULL }, END,                      \
    }

static const struct contender send_one[] = ONE("chan/send");
static const struct contender recv_one[] = ONE("chan/recv");
static const struct contender round_trip[] = ONE("chan/round-trip");
static const struct contender stream[] = ONE("chan/stream");
static const struct contender many[] = ONE("chan/4x4");
static const struct contender rendezvous[] = ONE("chan/rendezvous");
static const struct contender unbounded_send[] = ONE("chan/unbounded-send");
static const struct contender unbounded_recv[] = ONE("chan/unbounded-recv");
static const struct contender unbounded_many[] = ONE("chan/unbounded-4x1");
static const struct contender oneshot[] = ONE("chan/oneshot");
static const struct contender call[] = ONE("chan/call");
static const struct contender broadcast[] = ONE("chan/broadcast-x4");
static const struct contender watch_set[] = ONE("chan/watch-set");
static const struct contender watch_get[] = ONE("chan/watch-get");
static const struct contender watch[] = ONE("chan/watch-x4");
static const struct contender round_trip_2[] = TWO("chan/round-trip");
static const struct contender stream_2[] = TWO("chan/stream");
static const struct contender many_2[] = TWO("chan/4x4");
static const struct contender rendezvous_2[] = TWO("chan/rendezvous");
static const struct contender unbounded_many_2[] = TWO("chan/unbounded-4x1");
static const struct contender call_2[] = TWO("chan/call");
static const struct contender broadcast_2[] = TWO("chan/broadcast-x4");
static const struct contender watch_2[] = TWO("chan/watch-x4");

#define ROW(name, what, contenders, count, cpus)                                                   \
    {                                                                                              \
        "chan", name, what, contenders, count, (count) / 10, 0, cpus, false, NULL, 0, 0            \
    }

const struct row suite_chan_rows[] = {
    ROW("chan-send", "send into a channel that has room", send_one, MILLION, 1),
    ROW("chan-recv", "receive from a channel that has items", recv_one, MILLION, 1),
    ROW("chan-round-trip", "an item there and back, by two channels of 1", round_trip, MILLION / 4,
        1),
    ROW("chan-stream", "1 sends, 1 receives, capacity 64", stream, MILLION, 1),
    ROW("chan-4x4", "4 send, 4 receive, capacity 64", many, MILLION, 1),
    ROW("chan-rendezvous", "1 sends, 1 receives, capacity 0", rendezvous, MILLION / 4, 1),
    ROW("chan-unbounded-send", "send into an unbounded channel", unbounded_send, MILLION, 1),
    ROW("chan-unbounded-recv", "receive from an unbounded channel", unbounded_recv, MILLION, 1),
    ROW("chan-unbounded-4x1", "4 send without bound, 1 receives", unbounded_many, MILLION, 1),
    ROW("chan-oneshot", "make a oneshot, send, receive, end it", oneshot, MILLION, 1),
    ROW("chan-call", "ask a task by channel, get the answer by oneshot", call, MILLION / 4, 1),
    ROW("chan-broadcast-x4", "4 receive each item, per delivery", broadcast, MILLION, 1),
    ROW("chan-watch-set", "set a value nobody waits for", watch_set, MILLION, 1),
    ROW("chan-watch-get", "copy the latest value", watch_get, MILLION, 1),
    ROW("chan-watch-x4", "set a value, 4 that wait for it say they have it", watch, MILLION / 20,
        1),
    ROW("chan-round-trip-2", "round trip, two CPUs", round_trip_2, MILLION / 50, 2),
    ROW("chan-stream-2", "stream, two CPUs", stream_2, MILLION / 4, 2),
    ROW("chan-4x4-2", "4x4, two CPUs", many_2, MILLION / 4, 2),
    ROW("chan-rendezvous-2", "rendezvous, two CPUs", rendezvous_2, MILLION / 50, 2),
    ROW("chan-unbounded-4x1-2", "unbounded 4x1, two CPUs", unbounded_many_2, MILLION / 4, 2),
    ROW("chan-call-2", "call, two CPUs", call_2, MILLION / 50, 2),
    ROW("chan-broadcast-x4-2", "broadcast, two CPUs", broadcast_2, MILLION / 4, 2),
    ROW("chan-watch-x4-2", "watch, two CPUs", watch_2, MILLION / 50, 2),
    { NULL, NULL, NULL, NULL, 0, 0, 0, 0, false, NULL, 0, 0 },
};
