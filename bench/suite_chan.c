// suite_chan.c - the rows of `chan`.
#include "suite_rows.h"

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

const struct row suite_chan_rows[] = {
    ROW("chan", "chan-send", "send into a channel that has room", send_one, MILLION, 1),
    ROW("chan", "chan-recv", "receive from a channel that has items", recv_one, MILLION, 1),
    ROW("chan", "chan-round-trip", "an item there and back, by two channels of 1", round_trip,
        MILLION / 4, 1),
    ROW("chan", "chan-stream", "1 sends, 1 receives, capacity 64", stream, MILLION, 1),
    ROW("chan", "chan-4x4", "4 send, 4 receive, capacity 64", many, MILLION, 1),
    ROW("chan", "chan-rendezvous", "1 sends, 1 receives, capacity 0", rendezvous, MILLION / 4, 1),
    ROW("chan", "chan-unbounded-send", "send into an unbounded channel", unbounded_send, MILLION,
        1),
    ROW("chan", "chan-unbounded-recv", "receive from an unbounded channel", unbounded_recv, MILLION,
        1),
    ROW("chan", "chan-unbounded-4x1", "4 send without bound, 1 receives", unbounded_many, MILLION,
        1),
    ROW("chan", "chan-oneshot", "make a oneshot, send, receive, end it", oneshot, MILLION, 1),
    ROW("chan", "chan-call", "ask a task by channel, get the answer by oneshot", call, MILLION / 4,
        1),
    ROW("chan", "chan-broadcast-x4", "4 receive each item, per delivery", broadcast, MILLION, 1),
    ROW("chan", "chan-watch-set", "set a value nobody waits for", watch_set, MILLION, 1),
    ROW("chan", "chan-watch-get", "copy the latest value", watch_get, MILLION, 1),
    ROW("chan", "chan-watch-x4", "set a value, 4 that wait for it say they have it", watch,
        MILLION / 20, 1),
    ROW("chan", "chan-round-trip-2", "round trip, two CPUs", round_trip_2, MILLION / 50, 2),
    ROW("chan", "chan-stream-2", "stream, two CPUs", stream_2, MILLION / 4, 2),
    ROW("chan", "chan-4x4-2", "4x4, two CPUs", many_2, MILLION / 4, 2),
    ROW("chan", "chan-rendezvous-2", "rendezvous, two CPUs", rendezvous_2, MILLION / 50, 2),
    ROW("chan", "chan-unbounded-4x1-2", "unbounded 4x1, two CPUs", unbounded_many_2, MILLION / 4,
        2),
    ROW("chan", "chan-call-2", "call, two CPUs", call_2, MILLION / 50, 2),
    ROW("chan", "chan-broadcast-x4-2", "broadcast, two CPUs", broadcast_2, MILLION / 4, 2),
    ROW("chan", "chan-watch-x4-2", "watch, two CPUs", watch_2, MILLION / 50, 2),
    { NULL, NULL, NULL, NULL, 0, 0, 0, 0, false, NULL, 0, 0 },
};
