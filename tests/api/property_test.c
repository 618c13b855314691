// Random programs in the simulator: whatever they do, the promises hold for every seed.
#include "support/test.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <weft.h>

/// The wheel's tick and the default quantum (weft/time.h, weft/runtime.h).
#define TICK_NS UINT64_C(65536)
#define QUANTUM_NS (50 * WEFT_US)

enum { MAX_CHILDREN = 5, MAX_DEPTH = 3 };

/// One task of a random program. Its storage is its parent's, so a child that outlived the scope it
/// was born in would be seen, by ASan if not by the counts.
struct member {
    uint64_t random;
    int depth;
    struct family *family; // whose scope it lives in; NULL for the first
    int result;            // what it is going to return; set when it ends
    bool began;
    bool ended;
};

struct family {
    struct member children[MAX_CHILDREN];
    weft_task *handles[MAX_CHILDREN];
    int count;
    int alive; // began and not ended; one OS thread, so plain
};

static uint64_t below(struct member *self, uint64_t limit)
{
    return test_random(&self->random) % limit;
}

static int run_member(void *arg);

static void check_sleep(struct member *self)
{
    weft_time when = weft_after(below(self, 3 * WEFT_MS));
    int rc = weft_sleep_until(when);
    weft_time now = weft_now();
    if (rc == 0) {
        CHECK_GE(now, when); // promise 6: never early
    } else {
        CHECK_EQ(rc, -ECANCELED);
        CHECK_EQ(weft_cancelled(), -ECANCELED);
    }
}

static void fired(void *arg)
{
    weft_time *when = arg;
    CHECK_NE(*when, 0);
    CHECK_GE(weft_now(), *when);
    *when = 0;
}

static void check_timer(struct member *self)
{
    struct weft_timer timer;
    weft_time when;
    CHECK_OK(weft_timer_init_on(&timer, weft_runtime_current(),
                                (int)below(self, (uint64_t)weft_carrier_count()), fired, &when));
    when = weft_after(below(self, WEFT_MS) + 1);
    weft_timer_set(&timer, when);
    (void)weft_sleep(below(self, 2 * WEFT_MS));
    int called_off = weft_timer_stop(&timer);
    CHECK_EQ(called_off, when != 0);
}

static void add_child(struct member *self, struct family *family, struct weft_scope *scope)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    int i = family->count;
    if (i == MAX_CHILDREN || self->depth == 0) {
        return;
    }
    attr.place = below(self, 2) == 0 ? WEFT_PLACE_SPREAD : WEFT_PLACE_CURRENT;
    family->children[i] = (struct member){
        .random = test_random(&self->random),
        .depth = self->depth - 1,
        .family = family,
    };
    int rc = weft_scope_spawn_task(&family->handles[i], scope, run_member, &family->children[i],
                                   &attr);
    CHECK(rc == 0 || rc == -ECANCELED);
    CHECK_EQ(rc == 0, family->handles[i] != NULL);
    CHECK(rc == 0 || weft_scope_cause(scope) != 0);
    family->count += rc == 0;
}

static void act(struct member *self, struct family *family, struct weft_scope *scope)
{
    switch (below(self, 10)) {
    case 0:
    case 1:
    case 2:
    case 3: add_child(self, family, scope); break;
    case 4:
    case 5: check_sleep(self); break;
    case 6: check_timer(self); break;
    case 7: (void)weft_yield(); break;
    case 8: (void)weft_checkpoint(); break;
    default:
        if (below(self, 3) == 0 && family->count > 0) {
            weft_task_cancel(family->handles[below(self, (uint64_t)family->count)]);
        } else if (below(self, 6) == 0) {
            weft_scope_cancel(scope);
            CHECK_EQ(weft_cancelled(), -ECANCELED);
        }
    }
}

/// Joining each child by its handle gives what it returned.
static void check_results(struct family *family)
{
    for (int i = 0; i < family->count; i++) {
        int result = 12345;
        CHECK(weft_task_done(family->handles[i]));
        CHECK_OK(weft_join(&result, family->handles[i], 0));
        CHECK_EQ(result, family->children[i].result);
        CHECK(family->children[i].began && family->children[i].ended);
    }
}

static void check_verdict(int policy, int verdict, const struct family *family, int cause)
{
    int failed = 0;
    int succeeded = 0;
    for (int i = 0; i < family->count; i++) {
        failed += family->children[i].result < 0;
        succeeded += family->children[i].result >= 0;
    }
    switch (policy) {
    case WEFT_SCOPE_ALL:
        CHECK_EQ(verdict, cause);
        CHECK(failed == 0 || cause < 0);
        break;
    case WEFT_SCOPE_FIRST:
        CHECK(verdict != 0 || succeeded > 0);
        CHECK(cause != WEFT_CAUSE_WON || verdict == 0);
        CHECK(family->count != 0 || cause != 0 || verdict == -ECHILD);
        break;
    default: CHECK(cause != 0 ? verdict == cause : verdict == failed);
    }
}

static void live(struct member *self)
{
    static const int policies[] = { WEFT_SCOPE_ALL, WEFT_SCOPE_FIRST, WEFT_SCOPE_COLLECT };
    struct family family = { .count = 0 };
    struct weft_scope scope;
    int policy = policies[below(self, 3)];
    int flags = policy | (below(self, 8) == 0 ? WEFT_SCOPE_SHIELD : 0);
    weft_time deadline = below(self, 3) == 0 ? weft_after(below(self, 4 * WEFT_MS)) : WEFT_FOREVER;
    CHECK_OK(weft_scope_init(&scope, flags, deadline));
    for (uint64_t actions = below(self, 12); actions > 0; actions--) {
        act(self, &family, &scope);
    }
    int verdict = weft_scope_join(&scope);
    CHECK_EQ(family.alive, 0); // promise 5: a scope never leaks a child
    check_results(&family);
    check_verdict(policy, verdict, &family, weft_scope_cause(&scope));
    if (weft_scope_cause(&scope) == -ETIMEDOUT) {
        CHECK_GE(weft_now(), deadline);
    }
}

static int run_member(void *arg)
{
    struct member *self = arg;
    self->began = true;
    if (self->family != NULL) {
        self->family->alive++;
    }
    live(self);
    self->result = below(self, 3) == 0 ? -(int)(1 + below(self, 100)) : (int)below(self, 100);
    self->ended = true;
    if (self->family != NULL) {
        self->family->alive--;
    }
    return self->result;
}

static int start(void *arg)
{
    return run_member(arg);
}

TEST(random_programs_keep_the_promises)
{
    uint64_t random = test_seed();
    for (uint64_t i = test_scaled(800); i > 0; i--) {
        uint64_t seed = test_random(&random);
        struct weft_sim_options options = { .seed = seed, .carriers = 1 + (int)(seed % 6) };
        struct weft_sim_result result;
        struct member first = { .random = seed, .depth = MAX_DEPTH };
        options.limit_ns = 3600 * WEFT_S;
        options.limit_steps = 10000000;
        dprintf(2, "seed %" PRIu64 ", %d carriers\n", seed, options.carriers);
        int rc = weft_sim_run(&result, start, &first, &options);
        CHECK(first.ended);
        CHECK_EQ(rc, first.result);
        CHECK_EQ(result.result, first.result);
        uint64_t hash = result.trace_hash;
        if (i % 8 == 0) {
            first = (struct member){ .random = seed, .depth = MAX_DEPTH };
            CHECK_EQ(weft_sim_run(&result, start, &first, &options), rc);
            CHECK_EQ(result.trace_hash, hash);
        }
    }
}

// Promise 6, the other half: on the simulated clock nothing is late by more than one tick plus one
// quantum.

struct lateness {
    uint64_t random;
    weft_time worst;
};

static void note(struct lateness *late, weft_time when)
{
    weft_time now = weft_now();
    CHECK_GE(now, when);
    late->worst = now - when > late->worst ? now - when : late->worst;
}

static int sleep_often(void *arg)
{
    struct lateness *late = arg;
    for (int i = 0; i < 50; i++) {
        uint64_t range = UINT64_C(1) << (8 + test_random(&late->random) % 32);
        weft_time when = weft_after(test_random(&late->random) % range);
        CHECK_OK(weft_sleep_until(when));
        note(late, when);
    }
    return 0;
}

/// Takes whole time slices, and gives the carrier back where it is asked to.
static int compute(void *arg)
{
    struct lateness *late = arg;
    for (int i = 0; i < 20000; i++) {
        CHECK_OK(weft_checkpoint());
        for (int k = 0; k < 32; k++) {
            (void)weft_now();
        }
    }
    late->worst = 0;
    return 0;
}

static int yield_often(void *arg)
{
    struct lateness *late = arg;
    for (int i = 0; i < 5000; i++) {
        CHECK_OK(weft_yield());
    }
    late->worst = 0;
    return 0;
}

struct punctual {
    struct lateness all;
    weft_fn disturb; // two of these run along
};

static int be_punctual(void *arg)
{
    struct punctual *punctual = arg;
    struct lateness *all = &punctual->all;
    struct lateness late[8];
    struct weft_scope scope;
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER));
    weft_scope_set_attr(&scope, &attr);
    for (int i = 0; i < 8; i++) {
        late[i] = (struct lateness){ test_random(&all->random), 0 };
        CHECK_OK(weft_scope_spawn(&scope, i < 6 ? sleep_often : punctual->disturb, &late[i]));
    }
    CHECK_OK(weft_scope_join(&scope));
    for (int i = 0; i < 8; i++) {
        all->worst = late[i].worst > all->worst ? late[i].worst : all->worst;
    }
    return 0;
}

static weft_time worst_lateness(weft_fn disturb, int carriers)
{
    uint64_t random = test_seed();
    weft_time worst = 0;
    for (uint64_t i = test_scaled(200); i > 0; i--) {
        uint64_t seed = test_random(&random);
        struct weft_sim_options options = { .seed = seed, .carriers = 1 + (int)(seed % carriers) };
        struct punctual punctual = { { seed, 0 }, disturb };
        CHECK_OK(weft_sim_run(NULL, be_punctual, &punctual, &options));
        worst = punctual.all.worst > worst ? punctual.all.worst : worst;
    }
    dprintf(2, "worst lateness: %" PRIu64 " ns\n", worst);
    return worst;
}

/// With one carrier when others are busy: simulated carriers share one clock, so the quantum of one
/// delays the others, too.
TEST(promise_6_late_by_at_most_a_tick_and_a_quantum)
{
    CHECK_LE(worst_lateness(yield_often, 1), TICK_NS + QUANTUM_NS);
    CHECK_LE(worst_lateness(sleep_often, 4), TICK_NS + QUANTUM_NS);
}

/// Two tasks that use up their time slices stand before the one that wakes; and the slice during
/// which its time came was only just beginning.
TEST(tasks_that_compute_delay_others_by_their_slices)
{
    CHECK_LE(worst_lateness(compute, 1), TICK_NS + 4 * QUANTUM_NS);
}
