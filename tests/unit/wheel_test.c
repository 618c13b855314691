// wheel_test.c - the timer wheel against a naive model, at its edges, and stepped by its own clock.
#include <stdlib.h>
#include <string.h>

#include "sched/wheel.h"
#include "support/test.h"

#define TICK WEFT__WHEEL_TICK_NS
#define LATEST (WEFT_FOREVER - 1)

/// The first moment at which a timer may be popped: `when` rounded up to a tick.
static weft_time expiry(weft_time when)
{
    weft_time rest = when % TICK;
    if (rest == 0) {
        return when;
    }
    return when > LATEST - (TICK - rest) ? LATEST : when + (TICK - rest);
}

static weft_time plus(weft_time time, weft_time delta)
{
    return delta > LATEST - time ? LATEST : time + delta;
}

static weft_time minus(weft_time time, weft_time delta)
{
    return delta > time ? 0 : time - delta;
}

// ---------------------------------------------------------------------------------------------
// The shape of a wheel, as wheel.c promises it.

static size_t check_list(const struct weft__timer_list *list, const struct weft__wheel *wheel,
                         bool due)
{
    size_t count = 0;
    struct weft__timer *const *link = &list->head;
    for (; *link != NULL; link = &(*link)->next) {
        CHECK((*link)->link == link);
        CHECK_EQ((*link)->when <= wheel->elapsed, due);
        count++;
    }
    CHECK(list->tail == link);
    return count;
}

static size_t check_slot(const struct weft__wheel *wheel, unsigned level, unsigned digit)
{
    const struct weft__wheel_slot *slot = &wheel->slots[level * WEFT__WHEEL_SLOTS + digit];
    unsigned shift = WEFT__WHEEL_TICK_BITS + level * WEFT__WHEEL_SLOT_BITS;
    for (struct weft__timer *timer = slot->timers.head; timer != NULL; timer = timer->next) {
        uint64_t at = timer->when - 1;
        CHECK_EQ(at >> shift & (WEFT__WHEEL_SLOTS - 1), digit);
        CHECK_EQ((at ^ wheel->elapsed) >> shift >> WEFT__WHEEL_SLOT_BITS, 0);
        CHECK(level == 0 || (at ^ wheel->elapsed) >> shift != 0);
        CHECK_EQ(slot->any | at, slot->any);
        CHECK_EQ(slot->all & at, slot->all);
    }
    CHECK_EQ(wheel->occupied[level] >> digit & 1, slot->timers.head != NULL);
    CHECK(slot->timers.head != NULL || (slot->any == 0 && slot->all == UINT64_MAX));
    return check_list(&slot->timers, wheel, false);
}

static void check_wheel(const struct weft__wheel *wheel)
{
    size_t count = check_list(&wheel->due, wheel, true);
    for (unsigned level = 0; level < WEFT__WHEEL_LEVELS; level++) {
        for (unsigned digit = 0; digit < WEFT__WHEEL_SLOTS; digit++) {
            count += check_slot(wheel, level, digit);
        }
        CHECK_EQ(wheel->levels >> level & 1, wheel->occupied[level] != 0);
    }
    CHECK_EQ(wheel->armed, count);
}

// ---------------------------------------------------------------------------------------------
// Random operations on a wheel and on a model that searches an array.

#define MODEL_TIMERS 24

enum model_state { IDLE, WAITING, DUE };

struct model_timer {
    struct weft__timer timer;
    enum model_state state;
    weft_time when;
    uint64_t order; // WAITING: of arming; DUE: of popping
};

struct model {
    struct weft__wheel wheel;
    uint64_t random;
    weft_time now, elapsed;
    unsigned smallest; // jumps are at most 2^(64 - smallest) long
    uint64_t order;
    struct model_timer timers[MODEL_TIMERS];
};

static uint64_t below(struct model *model, uint64_t limit)
{
    return test_random(&model->random) % limit;
}

/// Any magnitude is as likely as any other.
static weft_time random_delta(struct model *model)
{
    uint64_t shift = model->smallest + below(model, 64 - model->smallest);
    return test_random(&model->random) >> shift;
}

static weft_time random_when(struct model *model)
{
    weft_time delta = random_delta(model);
    weft_time when = below(model, 4) != 0 ? plus(model->now, delta) : minus(model->now, delta);
    if (below(model, 2) == 0) { // on the edge of a slot of some level, or beside it
        uint64_t shift = below(model, 64);
        when = when >> shift << shift;
        when = below(model, 2) != 0 ? plus(when, below(model, 2)) : minus(when, 1);
    }
    return when;
}

static weft_time whole_ticks(weft_time now)
{
    return now >= LATEST ? LATEST : now - now % TICK;
}

static void model_init(struct model *model, uint64_t seed)
{
    memset(model, 0, sizeof *model);
    model->random = seed;
    model->smallest = (unsigned)below(model, 56);
    model->now = test_random(&model->random) >> below(model, 64);
    model->elapsed = whole_ticks(model->now);
    weft__wheel_init(&model->wheel, model->now);
}

static void model_add(struct model *model, struct model_timer *timer, weft_time when)
{
    weft__wheel_add(&model->wheel, &timer->timer, when);
    timer->when = when;
    timer->order = model->order++;
    timer->state = when <= model->elapsed ? DUE : WAITING;
}

static void model_toggle(struct model *model)
{
    struct model_timer *timer = &model->timers[below(model, MODEL_TIMERS)];
    CHECK_EQ(weft__timer_armed(&timer->timer), timer->state != IDLE);
    if (timer->state == IDLE) {
        model_add(model, timer, random_when(model));
        return;
    }
    weft__wheel_remove(&model->wheel, &timer->timer);
    timer->state = IDLE;
    if (below(model, 2) != 0) {
        model_add(model, timer, random_when(model));
    }
}

/// The first in `state`, by expiry (if it is WAITING) and order; NULL if there is none by `limit`.
static struct model_timer *model_first(struct model *model, enum model_state state, weft_time limit)
{
    struct model_timer *first = NULL;
    weft_time first_at = 0;
    for (struct model_timer *timer = model->timers; timer < model->timers + MODEL_TIMERS; timer++) {
        weft_time at = state == WAITING ? expiry(timer->when) : 0;
        if (timer->state != state || at > limit) {
            continue;
        }
        if (first == NULL || at < first_at || (at == first_at && timer->order < first->order)) {
            first = timer;
            first_at = at;
        }
    }
    return first;
}

static struct model_timer *model_pop(struct model *model)
{
    weft_time over = whole_ticks(model->now);
    for (;;) {
        struct model_timer *timer = model_first(model, WAITING, over);
        if (timer == NULL) {
            break;
        }
        timer->state = DUE;
        timer->order = model->order++;
    }
    model->elapsed = over;
    return model_first(model, DUE, LATEST);
}

static void model_check_next(struct model *model)
{
    weft_time next = weft__wheel_next(&model->wheel);
    const struct model_timer *waiting = model_first(model, WAITING, LATEST);
    if (model_first(model, DUE, LATEST) != NULL) {
        CHECK_LE(next, model->now);
    } else if (waiting != NULL) {
        CHECK_LE(next, expiry(waiting->when));
        CHECK_GT(next, model->elapsed);
    } else {
        CHECK_EQ(next, WEFT_FOREVER);
    }
}

/// Pops what is due; `meddling` of 100 pops are followed by an operation, as a callback might do.
static void model_fire(struct model *model, uint64_t meddling)
{
    for (int limit = 4 * MODEL_TIMERS; limit > 0; limit--) {
        struct model_timer *expected = model_pop(model);
        struct weft__timer *timer = weft__wheel_pop(&model->wheel, model->now);
        CHECK(timer == (expected != NULL ? &expected->timer : NULL));
        if (timer == NULL) {
            return;
        }
        CHECK_LE(timer->when, model->now);
        CHECK_EQ(timer->when, expected->when);
        CHECK(!weft__timer_armed(timer));
        expected->state = IDLE;
        if (below(model, 100) < meddling) {
            model_toggle(model);
        }
    }
}

static void model_advance(struct model *model)
{
    weft_time next = weft__wheel_next(&model->wheel);
    switch (below(model, 4)) {
    case 0: model->now = plus(model->now, below(model, 2 * TICK)); break;
    case 1: model->now = plus(model->now, random_delta(model)); break;
    default: // to the moment the wheel asks for, or beside it
        if (next > model->now && next <= LATEST) {
            weft_time before = minus(next, below(model, 2));
            model->now = before > model->now ? before : model->now;
        }
        break;
    }
}

static void model_run(uint64_t seed)
{
    struct model *model = malloc(sizeof *model);
    CHECK(model != NULL);
    model_init(model, seed);
    uint64_t meddling = below(model, 100);
    for (int step = 0; step < 200; step++) {
        if (below(model, 3) != 0) {
            model_toggle(model);
        } else {
            model_advance(model);
            model_fire(model, meddling);
        }
        model_check_next(model);
        if (step % 8 == 0) {
            check_wheel(&model->wheel);
        }
    }
    model->now = LATEST;
    model_fire(model, 0);
    CHECK_EQ(model->wheel.armed, 0);
    CHECK_EQ(weft__wheel_next(&model->wheel), WEFT_FOREVER);
    check_wheel(&model->wheel);
    free(model);
}

TEST(wheel_agrees_with_the_model)
{
    uint64_t state = test_seed();
    for (uint64_t round = test_scaled(4000); round > 0; round--) {
        model_run(test_random(&state));
    }
}

// ---------------------------------------------------------------------------------------------
// Edges.

static struct weft__wheel wheel;

static void add_all(struct weft__timer *timers, const weft_time *whens, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        weft__wheel_add(&wheel, &timers[i], whens[i]);
    }
}

/// One timer: nothing a moment before it expires, the timer at that moment, then nothing.
static void check_one(weft_time start, weft_time when)
{
    struct weft__timer timer = { 0 };
    weft__wheel_init(&wheel, start);
    weft__wheel_add(&wheel, &timer, when);
    check_wheel(&wheel);

    weft_time at = expiry(when);
    if (at > start) {
        CHECK_EQ(weft__wheel_next(&wheel), at); // alone in its slot, so exact
        CHECK(weft__wheel_pop(&wheel, start) == NULL);
        CHECK(weft__wheel_pop(&wheel, at - 1) == NULL);
        CHECK_EQ(weft__wheel_next(&wheel), at);
        check_wheel(&wheel);
    } else {
        CHECK_LE(weft__wheel_next(&wheel), start);
        at = start;
    }
    CHECK(weft__timer_armed(&timer));
    CHECK(weft__wheel_pop(&wheel, at) == &timer);
    CHECK(!weft__timer_armed(&timer));
    CHECK(weft__wheel_pop(&wheel, at) == NULL);
    CHECK_EQ(weft__wheel_next(&wheel), WEFT_FOREVER);
    check_wheel(&wheel);
}

TEST(wheel_edges)
{
    const weft_time starts[] = {
        0,      1,           TICK - 1,          TICK,       TICK * 63 + 5, 1234567890123456789,
        LATEST, LATEST - 99, LATEST - TICK - 1, TICK << 40,
    };
    for (size_t s = 0; s < WEFT__ARRAY_LEN(starts); s++) {
        for (unsigned bit = 0; bit < 64; bit++) {
            weft_time edge = UINT64_C(1) << bit;
            const weft_time whens[] = {
                edge - 1,
                edge,
                edge + 1,
                LATEST - (edge - 1),
                minus(LATEST, edge),
                minus(LATEST, edge + 1),
                plus(starts[s], edge - 1),
                plus(starts[s], edge),
                plus(starts[s], edge + 1),
                minus(starts[s], edge),
                plus(starts[s] >> bit << bit, edge),
            };
            for (size_t w = 0; w < WEFT__ARRAY_LEN(whens); w++) {
                check_one(starts[s], whens[w]);
            }
        }
    }
}

TEST(wheel_empty)
{
    weft__wheel_init(&wheel, 77);
    CHECK_EQ(weft__wheel_next(&wheel), WEFT_FOREVER);
    CHECK(weft__wheel_pop(&wheel, 77) == NULL);
    CHECK(weft__wheel_pop(&wheel, LATEST / 2) == NULL);
    CHECK(weft__wheel_pop(&wheel, WEFT_FOREVER) == NULL);
    CHECK_EQ(weft__wheel_next(&wheel), WEFT_FOREVER);
    check_wheel(&wheel);
}

TEST(wheel_works_at_the_end_of_time)
{
    struct weft__timer timers[3] = { 0 };
    weft__wheel_init(&wheel, LATEST - 4 * TICK);
    add_all(timers, (const weft_time[]){ LATEST, LATEST - 1, LATEST - TICK }, 3);
    weft_time next = weft__wheel_next(&wheel);
    CHECK_LE(next, expiry(LATEST - TICK));
    CHECK(weft__wheel_pop(&wheel, expiry(LATEST - TICK) - 1) == NULL);
    CHECK(weft__wheel_pop(&wheel, expiry(LATEST - TICK)) == &timers[2]);
    CHECK_EQ(weft__wheel_next(&wheel), LATEST);
    CHECK(weft__wheel_pop(&wheel, LATEST - 1) == NULL);
    CHECK(weft__wheel_pop(&wheel, LATEST) == &timers[0]);
    CHECK(weft__wheel_pop(&wheel, LATEST) == &timers[1]);

    weft__wheel_add(&wheel, &timers[0], LATEST);
    weft__wheel_add(&wheel, &timers[1], 5);
    CHECK(weft__wheel_pop(&wheel, WEFT_FOREVER) == &timers[0]);
    CHECK(weft__wheel_pop(&wheel, WEFT_FOREVER) == &timers[1]);
    check_wheel(&wheel);
}

TEST(wheel_is_not_early_for_a_clock_that_runs_backwards)
{
    struct weft__timer timer = { 0 };
    weft__wheel_init(&wheel, 0);
    weft__wheel_add(&wheel, &timer, 10 * TICK);
    struct weft__timer other = { 0 };
    weft__wheel_add(&wheel, &other, 9 * TICK);
    CHECK(weft__wheel_pop(&wheel, 10 * TICK) == &other);
    CHECK(weft__wheel_pop(&wheel, 10 * TICK - 1) == NULL);
    CHECK(weft__wheel_pop(&wheel, 0) == NULL);
    CHECK(weft__wheel_pop(&wheel, 10 * TICK) == &timer);
}

// ---------------------------------------------------------------------------------------------
// Order, and what a callback may do.

TEST(wheel_pops_ticks_in_order_and_each_first_in_first_out)
{
    enum { COUNT = 60 };
    struct weft__timer timers[COUNT] = { 0 };
    weft__wheel_init(&wheel, 0);
    for (int i = 0; i < COUNT; i++) { // five ticks, a year apart
        weft_time tick = (weft_time)(COUNT - i) % 5;
        weft__wheel_add(&wheel, &timers[i], tick * 365 * 86400 * WEFT_S + 1 + (weft_time)i % 7);
    }
    const struct weft__timer *last = weft__wheel_pop(&wheel, LATEST);
    for (int i = 1; i < COUNT; i++) {
        const struct weft__timer *timer = weft__wheel_pop(&wheel, LATEST);
        CHECK(timer != NULL);
        CHECK_GE(expiry(timer->when), expiry(last->when));
        CHECK(timer > last || expiry(timer->when) != expiry(last->when));
        last = timer;
    }
    CHECK(weft__wheel_pop(&wheel, LATEST) == NULL);
}

TEST(wheel_removes_from_any_place)
{
    struct weft__timer timers[4];
    for (unsigned kept = 0; kept < 16; kept++) {
        for (int due = 0; due < 2; due++) {
            memset(timers, 0, sizeof timers);
            weft__wheel_init(&wheel, 3 * TICK);
            weft_time when = due ? TICK : TICK << 20;
            add_all(timers, (const weft_time[]){ when, when, when, when }, 4);
            for (unsigned i = 0; i < 4; i++) {
                if ((kept >> i & 1) == 0) {
                    weft__wheel_remove(&wheel, &timers[i]);
                    CHECK(!weft__timer_armed(&timers[i]));
                    check_wheel(&wheel);
                }
            }
            for (unsigned i = 0; i < 4; i++) {
                if ((kept >> i & 1) != 0) {
                    CHECK(weft__wheel_pop(&wheel, TICK << 20) == &timers[i]);
                }
            }
            CHECK(weft__wheel_pop(&wheel, LATEST) == NULL);
            check_wheel(&wheel);
        }
    }
}

TEST(wheel_lets_a_callback_change_the_due)
{
    struct weft__timer timers[5] = { 0 };
    weft__wheel_init(&wheel, 0);
    add_all(timers, (const weft_time[]){ TICK, TICK, 2 * TICK, 2 * TICK, 3 * TICK }, 5);
    weft_time now = 2 * TICK;
    CHECK(weft__wheel_pop(&wheel, now) == &timers[0]);
    weft__wheel_remove(&wheel, &timers[1]);            // the next one
    weft__wheel_remove(&wheel, &timers[3]);            // the last one
    weft__wheel_remove(&wheel, &timers[2]);            // moved to a time
    weft__wheel_add(&wheel, &timers[2], 9 * TICK);     // that is far off
    weft__wheel_add(&wheel, &timers[3], 1);            // moved, and due again
    weft__wheel_add(&wheel, &timers[0], now);          // itself, at once
    weft__wheel_add(&wheel, &timers[1], 3 * TICK - 1); // into a slot that is not yet due
    check_wheel(&wheel);
    CHECK(weft__wheel_pop(&wheel, now) == &timers[3]);
    CHECK(weft__wheel_pop(&wheel, now) == &timers[0]);
    CHECK(weft__wheel_pop(&wheel, now) == NULL);
    CHECK(weft__wheel_pop(&wheel, 9 * TICK) == &timers[4]);
    CHECK(weft__wheel_pop(&wheel, 9 * TICK) == &timers[1]);
    CHECK(weft__wheel_pop(&wheel, 9 * TICK) == &timers[2]);
    check_wheel(&wheel);
}

TEST(wheel_keeps_nobody_waiting_for_a_timer_that_re_arms_itself)
{
    struct weft__timer greedy = { 0 };
    struct weft__timer other = { 0 };
    weft__wheel_init(&wheel, 0);
    weft__wheel_add(&wheel, &greedy, 0);
    weft__wheel_add(&wheel, &other, 100 * TICK);
    for (weft_time now = 0; now < 100 * TICK; now += TICK) {
        CHECK(weft__wheel_pop(&wheel, now) == &greedy);
        weft__wheel_add(&wheel, &greedy, now);
    }
    CHECK(weft__wheel_pop(&wheel, 100 * TICK) == &greedy);
    weft__wheel_add(&wheel, &greedy, 100 * TICK);
    CHECK(weft__wheel_pop(&wheel, 100 * TICK) == &other);
}

// ---------------------------------------------------------------------------------------------
// A carrier that sleeps until weft__wheel_next().

/// Drains the wheel that way. Each expiry is met to the tick, and between two of them there are no
/// more idle wake-ups than cascades.
static void check_stepping(size_t count, weft_time now)
{
    size_t idle = 0;
    size_t idle_limit = count * (WEFT__WHEEL_LEVELS - 1);
    while (count > 0) {
        weft_time next = weft__wheel_next(&wheel);
        CHECK_NE(next, WEFT_FOREVER);
        CHECK(next > now || wheel.due.head != NULL);
        now = next > now ? next : now;
        bool popped = false;
        struct weft__timer *timer;
        while ((timer = weft__wheel_pop(&wheel, now)) != NULL) {
            CHECK_EQ(expiry(timer->when), now);
            popped = true;
            count--;
        }
        idle += !popped;
    }
    CHECK_LE(idle, idle_limit);
    CHECK_EQ(weft__wheel_next(&wheel), WEFT_FOREVER);
}

static void random_stepping(uint64_t seed)
{
    enum { COUNT = 100 };
    static struct weft__timer timers[COUNT];
    uint64_t state = seed;
    unsigned spread = (unsigned)(test_random(&state) % 64);
    weft_time start = test_random(&state) >> test_random(&state) % 64;
    size_t armed = 0;
    memset(timers, 0, sizeof timers);
    weft__wheel_init(&wheel, start);
    for (int i = 0; i < COUNT; i++) {
        weft_time delta = test_random(&state) >> spread >> test_random(&state) % (64 - spread);
        weft__wheel_add(&wheel, &timers[i], plus(expiry(start), plus(delta, 1)));
        armed++;
    }
    for (int i = 0; i < COUNT; i += 3) { // what leaves a slot must not make it stall
        weft__wheel_remove(&wheel, &timers[i]);
        armed--;
    }
    check_stepping(armed, start);
}

TEST(wheel_steps_by_its_own_clock)
{
    uint64_t state = test_seed();
    for (uint64_t round = test_scaled(4000); round > 0; round--) {
        random_stepping(test_random(&state));
    }
}

TEST(wheel_wakes_once_for_timers_of_one_tick)
{
    enum { COUNT = 1000 };
    static struct weft__timer timers[COUNT];
    weft__wheel_init(&wheel, 12345);
    for (weft_time i = 0; i < COUNT; i++) {
        weft__wheel_add(&wheel, &timers[i], (TICK << 33) + 1 + i);
    }
    CHECK_EQ(weft__wheel_next(&wheel), (TICK << 33) + TICK);
    for (size_t i = 0; i < COUNT; i++) {
        CHECK(weft__wheel_pop(&wheel, (TICK << 33) + TICK) == &timers[i]);
    }
    CHECK(weft__wheel_pop(&wheel, (TICK << 33) + TICK) == NULL);
    check_wheel(&wheel);
}
