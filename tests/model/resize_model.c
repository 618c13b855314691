// resize_model.c - a carrier is told that it has to leave, or to stay (runtime/resize.c, Z1 and Z5;
// sched/size_watch.h, V2 and V3).
//
// Threads outside resize; a carrier opens its inbox and sleeps when it finds nothing. One that was told and
// sleeps on sleeps for ever. Whatever the order, in the end it does what the last one has said. The message
// is one node, used again and again: who sends it while its carrier still reads it is a data race. Somebody
// who watches the size learns of each carrier by being told, or by the number, and his memory goes as soon
// as he has stopped to watch.
//
// Sources: runtime/resize.c sched/size_watch.c sched/park.c sched/inbox.c
// Headers: base/lock.h
// With: stage.c stage_lock.c
// Flags: -DWEFT_TINY=1
#include <string.h>

#include "io/descriptors.h"
#include "mc.h"
#include "runtime/runtime.h"
#include "sched/park.h"
#include "sched/retire.h"
#include "sched/size_watch.h"
#include "stage.h"

enum { CARRIERS = 2, TID = 7 };

static struct weft__runtime runtime;
static struct weft__carrier carriers[CARRIERS];
static struct weft__carrier *const other = &carriers[1]; // comes and goes
static struct weft__size_watch watch;
static _Atomic int resizers; // that have not ended
static int seen_size;        // the watcher's, when he had begun to watch
static bool was_told;        // plain: of `other`, under the watch's own rules

struct weft__carrier *weft__carrier_self(void)
{
    return NULL;
}

int weft__runtime_refuses(const struct weft__crew *crew, const struct weft__carrier *self)
{
    (void)crew;
    (void)self;
    return 0;
}

weft_time weft__wheel_next(const struct weft__wheel *wheel)
{
    (void)wheel;
    return WEFT_FOREVER;
}

void weft__wheel_take(struct weft__wheel *wheel, bool (*wanted)(struct weft__timer *timer),
                      struct weft__timer **aside)
{
    (void)wheel;
    (void)wanted;
    (void)aside;
}

void weft__retire_begin(struct weft__carrier *carrier)
{
    mc_assert(!carrier->leaving);
    carrier->leaving = true;
}

void weft__uses_move(struct weft__carrier *carrier)
{
    mc_assert(carrier->leaving);
}

void weft__lookout_wake(struct weft__lookout *lookout)
{
    (void)lookout;
}

void weft__log(const struct weft__log *log, enum weft_log_level level, const char *module,
               const char *format, ...)
{
    (void)log;
    (void)level;
    (void)module;
    (void)format;
}

/// What a new carrier has when others may look at it.
int weft__carrier_start(struct weft__runtime *which, int number)
{
    which->crew.carriers[number].tid = TID;
    return 0;
}

int weft__resident_start(struct weft__carrier *carrier)
{
    (void)carrier;
    return 0;
}

static void stop(struct weft__request *request, struct weft__carrier *carrier)
{
    (void)request;
    carrier->stop = true;
}

static void open_inbox(struct weft__carrier *carrier)
{
    struct weft__node *node = weft__inbox_take(&carrier->inbox);
    if (node == NULL) {
        weft__sleep(carrier);
    }
    while (node != NULL) {
        struct weft__node *next = node->next;
        struct weft__request *request = weft__container_of(node, struct weft__request, node);
        request->fn(request, carrier);
        node = next;
    }
}

static void run_until_it_leaves(void *arg)
{
    struct weft__carrier *carrier = arg;
    while (!carrier->leaving) {
        open_inbox(carrier);
    }
}

static void run_until_stopped(void *arg)
{
    struct weft__carrier *carrier = arg;
    while (!carrier->stop) {
        open_inbox(carrier);
    }
}

static void resize(void *arg)
{
    int rc = weft_runtime_resize(&runtime, (int)(intptr_t)arg);
    mc_assert(rc == 0);
}

/// The last one stops the carrier, which finds that after all that it was told.
static void resize_and_stop(void *arg)
{
    resize(arg);
    if (atomic_fetch_sub_explicit(&resizers, 1, memory_order_acq_rel) == 1) {
        weft__put(other, &other->control.node, NULL);
    }
}

static void told(struct weft__size_watch *which, struct weft__carrier *carrier)
{
    mc_assert(which == &watch && carrier == other);
    was_told = true;
}

static void watch_for_a_while(void *unused)
{
    (void)unused;
    watch.told = told;
    weft__size_watch_add(&runtime.crew, &watch);
    seen_size = weft__crew_active(&runtime.crew);
    while (!weft__size_watch_remove(&runtime.crew, &watch)) {
        mc_relax();
    }
    mc_forbid(&watch, sizeof watch);
}

/// Until the size that it saw is no longer right.
static void watch_until_told(void *unused)
{
    (void)unused;
    watch.told = told;
    weft__size_watch_add(&runtime.crew, &watch);
    seen_size = weft__crew_active(&runtime.crew);
}

static void reset(void)
{
    struct weft__crew *crew = &runtime.crew;
    memset(&runtime, 0, sizeof runtime);
    memset(&watch, 0, sizeof watch);
    runtime.options.max_carriers = CARRIERS;
    crew->carriers = carriers;
    crew->capacity = CARRIERS;
    atomic_init(&crew->started, CARRIERS);
    atomic_init(&crew->active, CARRIERS);
    for (int i = 0; i < CARRIERS; i++) {
        struct weft__carrier *carrier = &carriers[i];
        memset(carrier, 0, offsetof(struct weft__carrier, wheel));
        carrier->number = i;
        carrier->crew = crew;
        carrier->driver = &stage_driver;
        carrier->driver_state = &carrier->driver_state;
        carrier->control = (struct weft__request){ .node.kind = WEFT__NODE_REQUEST, .fn = stop };
        carrier->resized = (struct weft__request){ .node.kind = WEFT__NODE_REQUEST,
                                                   .fn = weft__carrier_resized };
    }
    atomic_init(&resizers, 0);
    seen_size = 0;
    was_told = false;
    mc_name(&crew->active, sizeof crew->active, "active");
    mc_name(&other->told, sizeof other->told, "told");
    mc_name(&other->state, sizeof other->state, "state");
    mc_name(&other->inbox, sizeof other->inbox, "inbox");
    mc_name(&other->resized, sizeof other->resized, "message");
    mc_name(&runtime.resizing, sizeof runtime.resizing, "resizing");
    mc_name(&crew->watching, sizeof crew->watching, "watching");
}

static void told_to_leave(void)
{
    reset();
    mc_thread(run_until_it_leaves, other);
    mc_thread(resize, (void *)1);
}

static void two_resize(void)
{
    reset();
    atomic_init(&resizers, 2);
    mc_thread(run_until_stopped, other);
    mc_thread(resize_and_stop, (void *)1);
    mc_thread(resize_and_stop, (void *)2);
}

/// Somebody looks at all carriers that have started, as a dump does.
static void look_at_all(void *unused)
{
    (void)unused;
    int count = weft__crew_started(&runtime.crew);
    for (int i = 1; i < count; i++) {
        mc_assert(carriers[i].tid == TID);
    }
}

static void grown(void)
{
    reset();
    atomic_init(&runtime.crew.started, 1);
    atomic_init(&runtime.crew.active, 1);
    other->tid = 0;
    mc_thread(resize, (void *)2);
    mc_thread(look_at_all, NULL);
}

static void watched(void)
{
    reset();
    mc_thread(run_until_it_leaves, other);
    mc_thread(resize, (void *)1);
    mc_thread(watch_until_told, NULL);
}

static void watched_briefly(void)
{
    reset();
    mc_thread(run_until_it_leaves, other);
    mc_thread(resize, (void *)1);
    mc_thread(watch_for_a_while, NULL);
}

static void check_size(void)
{
    mc_assert(other->leaving == (atomic_load(&runtime.crew.active) == 1)); // Z1
}

static void check_watched(void)
{
    mc_assert(was_told || seen_size == 1); // V3
}

const struct mc_model mc_models[] = {
    { .name = "resize_told_to_leave", .setup = told_to_leave, .check = check_size },
    { .name = "resize_two", .setup = two_resize, .check = check_size, .max_bound = 1 },
    { .name = "resize_grown", .setup = grown },
    { .name = "resize_watched", .setup = watched, .check = check_watched, .max_bound = 2 },
    { .name = "resize_watched_briefly", .setup = watched_briefly, .max_bound = 2 },
    { .name = NULL },
};
