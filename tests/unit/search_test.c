// search_test.c - who is sent to whom: carriers without threads, in clusters of every shape
// (sched/search.c, sched/steal.c). What threads make of it is in cluster_stress.c.
#include "support/test.h"

#include <stdlib.h>
#include <string.h>
#include <weft.h>

#include "sched/crew.h"
#include "sched/park.h"
#include "sched/steal.h"

enum { MOST_CLUSTERS = 8, TASKS = 24 };

static struct weft__crew crew;
static int kicks;
static struct weft__task tasks[TASKS];

static void count_kick(void *state, void *from)
{
    (void)state;
    (void)from;
    kicks++;
}

static const struct weft__driver driver = { .name = "none", .kick = count_kick };

struct layout {
    const char *name;
    int clusters;
    int sizes[MOST_CLUSTERS];
};

static const struct layout layouts[] = {
    { "2x8", 2, { 8, 8 } },          { "8x16", 8, { 16, 16, 16, 16, 16, 16, 16, 16 } },
    { "odd", 5, { 1, 5, 2, 1, 9 } }, { "one of 65", 1, { 65 } },
    { "63 and 66", 2, { 63, 66 } },  { "one of 1024", 1, { 1024 } },
};

/// All carriers are awake.
static void make_crew(const struct layout *layout, bool freely, bool globally)
{
    static struct weft__seat seats[WEFT__MOST_CARRIERS];
    int count = 0;
    for (int i = 0; i < layout->clusters; i++) {
        for (int k = 0; k < layout->sizes[i]; k++) {
            seats[count++] = (struct weft__seat){ .cpu = -1, .cluster = i, .node = -1 };
        }
    }
    memset(&crew, 0, sizeof crew);
    crew.capacity = count;
    atomic_init(&crew.started, count);
    atomic_init(&crew.active, count);
    crew.steals_globally = globally;
    crew.carriers = aligned_alloc(WEFT__LINE_PAIR, (size_t)count * sizeof *crew.carriers);
    crew.clusters = calloc((size_t)count, sizeof *crew.clusters);
    CHECK(crew.carriers != NULL && crew.clusters != NULL);
    memset(crew.carriers, 0, (size_t)count * sizeof *crew.carriers);
    for (int i = 0; i < count; i++) {
        crew.carriers[i].number = i;
        crew.carriers[i].crew = &crew;
        crew.carriers[i].driver = &driver;
    }
    weft__crew_seat(&crew, seats);
    CHECK_EQ(crew.cluster_count, layout->clusters);
    CHECK_OK(weft__steal_init(&crew, freely));
    kicks = 0;
}

static void free_crew(void)
{
    weft__steal_fini(&crew);
    free(crew.clusters);
    free(crew.carriers);
}

static struct weft__carrier *carrier(int number)
{
    return &crew.carriers[number];
}

static void fall_asleep(int number)
{
    CHECK(weft__sleep_begin(carrier(number)));
}

static bool is_sent(int number)
{
    return (atomic_load(&carrier(number)->state) & WEFT__CARRIER_SEARCHING) != 0;
}

/// The only carrier that was sent, to `victim`; -1: nobody was.
static int who_is_sent(int victim)
{
    int found = -1;
    for (int i = 0; i < crew.capacity; i++) {
        if (is_sent(i)) {
            CHECK_EQ(found, -1);
            CHECK_EQ((int)(atomic_load(&carrier(i)->state) >> WEFT__CARRIER_SHIFT), victim);
            found = i;
        }
    }
    return found;
}

/// The carrier wakes up and finds out where it was sent to.
static struct weft__carrier *arrive(int number)
{
    weft__sleep_end(carrier(number));
    return weft__search_sent(carrier(number));
}

static uint64_t searches(bool stopped)
{
    uint64_t sum = stopped ? atomic_load(&crew.foreign_counts.searches_stopped)
                           : atomic_load(&crew.foreign_counts.searches_started);
    for (int i = 0; i < crew.capacity; i++) {
        sum += stopped ? atomic_load(&carrier(i)->counts.searches_stopped)
                       : atomic_load(&carrier(i)->counts.searches_started);
    }
    return sum;
}

/// Where the next sleeper after `victim` is expected, round the end of its cluster.
static int nearest(int victim)
{
    const struct weft__cluster *own = &crew.clusters[carrier(victim)->cluster];
    return own->count == 1 ? -1 : own->first + (victim - own->first + 1) % own->count;
}

static void check_nearest(int victim, bool globally)
{
    for (int i = 0; i < crew.capacity; i++) {
        if (i != victim) {
            fall_asleep(i);
        }
    }
    weft__search_ask(carrier(victim), carrier(victim));
    int sent = who_is_sent(victim);
    int expected = nearest(victim);
    if (expected < 0 && globally && crew.capacity > 1) {
        int next = (carrier(victim)->cluster + 1) % crew.cluster_count;
        CHECK_EQ(carrier(sent)->cluster, next);
    } else {
        CHECK_EQ(sent, expected);
    }
    CHECK_EQ(kicks, sent >= 0);
    if (sent >= 0) {
        CHECK(arrive(sent) == carrier(victim));
        weft__search_stop(carrier(victim), carrier(sent));
        CHECK_EQ(kicks, 1); // nothing is wanted any more
    }
    CHECK_EQ(searches(false), searches(true));
}

TEST(who_sleeps_next_to_the_victim_is_sent)
{
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        for (int variant = 0; variant < 4; variant++) {
            bool globally = variant % 2 == 0;
            make_crew(&layouts[i], variant / 2 == 0, globally);
            int count = crew.capacity;
            free_crew();
            int step = count / 16 + 1;
            for (int victim = 0; victim < count; victim += step) {
                make_crew(&layouts[i], variant / 2 == 0, globally);
                check_nearest(victim, globally);
                free_crew();
            }
        }
    }
}

TEST(one_sleeper_is_found_among_a_thousand)
{
    make_crew(&layouts[5], false, true);
    fall_asleep(3);
    weft__search_ask(carrier(1000), carrier(1000));
    CHECK_EQ(who_is_sent(1000), 3);
    CHECK(arrive(3) == carrier(1000));
    fall_asleep(64);
    fall_asleep(63);
    fall_asleep(1023);
    weft__search_ask(carrier(512), carrier(512)); // a search goes on: nobody is sent
    CHECK_EQ(who_is_sent(512), -1);
    weft__search_stop(carrier(1000), carrier(3));
    CHECK_EQ(who_is_sent(512), 1023);
    free_crew();
}

TEST(each_cluster_has_one_searcher_and_no_request_is_lost)
{
    make_crew(&layouts[0], false, true);
    for (int i = 2; i < 16; i += i == 7 ? 3 : 1) {
        fall_asleep(i);
    }
    weft__search_ask(carrier(0), carrier(0)); // carriers 0, 1, 8 and 9 are awake
    weft__search_ask(carrier(1), carrier(1));
    weft__search_ask(carrier(0), carrier(0));
    CHECK_EQ(kicks, 1);
    weft__search_ask(carrier(8), carrier(8));
    weft__search_ask(carrier(9), carrier(9));
    CHECK_EQ(kicks, 2);
    CHECK(is_sent(2));
    CHECK(is_sent(10));
    CHECK(arrive(2) == carrier(0));
    weft__search_stop(carrier(0), carrier(2)); // carrier 1 has been waiting for that
    CHECK_EQ(kicks, 3);
    CHECK(is_sent(3));
    CHECK(arrive(3) == carrier(1));
    CHECK(arrive(10) == carrier(8));
    weft__search_stop(carrier(8), carrier(10));
    CHECK_EQ(kicks, 4);
    CHECK(arrive(11) == carrier(9));
    weft__search_stop(carrier(9), carrier(11));
    weft__search_stop(carrier(1), carrier(3));
    CHECK_EQ(kicks, 4);
    CHECK_EQ(searches(false), 4);
    CHECK_EQ(searches(true), 4);
    free_crew();
}

TEST(other_clusters_help_if_they_may)
{
    for (int globally = 0; globally < 2; globally++) {
        make_crew(&layouts[1], false, globally != 0);
        fall_asleep(70); // of the cluster that begins with 64
        weft__search_ask(carrier(17), carrier(17));
        CHECK_EQ(who_is_sent(17), globally ? 70 : -1);
        CHECK_EQ(weft__search_wanted(carrier(80)), globally != 0);
        CHECK(weft__search_wanted(carrier(16))); // who was awake does not go to sleep over it
        CHECK(globally || !weft__sleep_begin(carrier(16)));
        free_crew();
    }
}

TEST(half_of_each_cluster_may_search)
{
    make_crew(&layouts[2], true, true); // 1, 5, 2, 1 and 9 carriers
    for (int i = 0; i < crew.cluster_count; i++) {
        const struct weft__cluster *own = &crew.clusters[i];
        for (int k = 0; k < own->count; k++) {
            CHECK_EQ(weft__search_start(carrier(own->first + k)), k < (own->count + 1) / 2);
        }
    }
    free_crew();
}

/// Carrier 2 sleeps because somebody in its cluster searches; what is wanted is in another one.
TEST(the_last_searcher_thinks_of_other_clusters)
{
    make_crew(&(struct layout){ "1 and 2", 2, { 1, 2 } }, true, true);
    CHECK(weft__search_start(carrier(1)));
    CHECK(weft__search_take(carrier(1)) == NULL);
    weft__search_ask(carrier(0), carrier(0)); // nobody sleeps
    CHECK_EQ(kicks, 0);
    fall_asleep(2); // one is searching already
    weft__search_stop(carrier(1), carrier(1));
    CHECK_EQ(who_is_sent(0), 2);
    free_crew();
}

// Chains of thieves.

static int near_steals, far_steals;

static void note_steal(void *ctx, const struct weft_trace_event *event)
{
    (void)ctx;
    if (event->kind == WEFT_TRACE_STEAL) {
        CHECK(event->directed);
        bool near = carrier(event->source)->cluster == carrier(event->thief)->cluster;
        near_steals += near;
        far_steals += !near;
    }
}

static void offer_tasks(int number)
{
    memset(tasks, 0, sizeof tasks);
    for (int i = 0; i < TASKS; i++) {
        tasks[i].movable = true;
        tasks[i].crew = &crew;
        tasks[i].home = tasks[i].origin = carrier(number);
        tasks[i].node.kind = WEFT__NODE_TASK;
        weft__share(carrier(number), &tasks[i]);
    }
}

/// Whoever was sent gets its turn, until nobody is.
static void let_thieves_work(void)
{
    for (int i = 0; i < crew.capacity; i++) {
        if (is_sent(i)) {
            weft__sleep_end(carrier(i));
            weft__steal_sent(carrier(i));
            i = -1;
        }
    }
}

TEST(who_was_helped_has_helpers_sent_on)
{
    if (WEFT__OFFER_SLOTS < TASKS) {
        SKIP("the offers of a tiny build are too small for six");
    }
    for (int variant = 0; variant < 4; variant++) {
        bool globally = variant % 2 == 0;
        make_crew(&(struct layout){ "3 and 3", 2, { 3, 3 } }, variant / 2 != 0, globally);
        near_steals = far_steals = 0;
        weft_trace_set(note_steal, NULL);
        for (int i = 1; i < 6; i++) {
            fall_asleep(i);
        }
        offer_tasks(0);
        let_thieves_work();
        weft_trace_set(NULL, NULL);
        int with_tasks = 0;
        uint64_t stolen = 0;
        for (int i = 0; i < 6; i++) {
            bool has = weft__carrier_has_work(carrier(i));
            with_tasks += has;
            CHECK(globally || i < 3 || !has);
            stolen += atomic_load(&carrier(i)->counts.stolen_sent);
        }
        CHECK_EQ(with_tasks, globally ? 6 : 3); // one request has woken all, one after the other
        CHECK_EQ(stolen, near_steals + far_steals);
        CHECK_EQ(far_steals > 0, globally);
        CHECK_EQ(searches(false), searches(true));
        free_crew();
    }
}
