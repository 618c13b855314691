// contend.c - the contenders that are part of weft-bench itself: weft and the floors.
#include "contend.h"

#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "contender.h"
#include "floor/net.h"
#include "floor/switch.h"
#include "floor/wake.h"
#include "handoff/handoff.h"
#include "weft_bench.h"
#include "weft_chan.h"
#include "weft_sched.h"

static const struct contender_bench benches[] = {
    { "switch", weft_switch },
    { "yield-2", weft_yield_2 },
    { "yield-1000", weft_yield_1000 },
    { "yield-10000", weft_yield_10000 },
    { "spawn-one", weft_spawn_one },
    { "spawn-1000", weft_spawn_1000 },
    { "million", weft_million },
    { "million-futures", weft_million_futures },
    { "timers-one", weft_timers_one },
    { "timers-among", weft_timers_among },
    { "timers-fire", weft_timers_fire },
    { "wake/uring", weft_wake_uring },
    { "wake/epoll", weft_wake_epoll },
    { "wake-spin/uring", weft_wake_spin },
    { "floor/switch", floor_switch_plain_run },
    { "floor/switch-fpu", floor_switch_fpu_run },
    { NULL, NULL },
};

int contend(const char *name, const char *count)
{
    if (strncmp(name, "floor/", 6) == 0 && wake_serve(name + 6, count)) {
        return 0;
    }
    if (strncmp(name, "sched/", 6) == 0) {
        return contender_main(name, count, weft_sched_benches);
    }
    if (strncmp(name, "sched-futures/", 14) == 0) {
        return contender_main(name, count, weft_sched_future_benches);
    }
    if (strncmp(name, "chan/", 5) == 0 || strncmp(name, "sync/", 5) == 0) {
        return weft_chan_contend(name, count);
    }
    return contender_main(name, count, benches);
}

static int serve_floor(const char *name, enum serve_mode mode, const char *address)
{
    int (*loop)(enum serve_mode, int) = NULL;
    if (strcmp(name, "floor-epoll") == 0) {
        loop = floor_net_epoll;
#if WEFT_HAVE_URING
    } else if (strcmp(name, "floor-uring") == 0) {
        loop = floor_net_uring;
#endif
    }
    if (loop == NULL) {
        return -ENOENT;
    }
    int listener = serve_listen(address);
    return listener < 0 ? listener : loop(mode, listener);
}

int contend_serve(const char *name, const char *mode, const char *address)
{
    if (strcmp(mode, HANDOFF_MODE) == 0) {
        int rc = handoff_serve(name, address);
        return rc < 0 ? serve_skip(rc) : 0;
    }
    int chosen = serve_mode_parse(mode);
    if (chosen < 0) {
        return serve_skip(EINVAL);
    }
    int rc = serve_floor(name, (enum serve_mode)chosen, address);
    if (rc == -ENOENT) {
        rc = weft_net_serve(name, (enum serve_mode)chosen, address);
    }
    return rc < 0 ? serve_skip(rc) : 0;
}
