// driver_test.c - the contract of sched/driver.h, on each driver: kicks, timeouts, descriptors.
//
// What the kernel forbids or runs out of is in probe_test.c.
#include "support/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/sys.h"
#include "io/io.h"

/// A wait that lasts this long has lost its kick.
#define LOST_NS (20 * WEFT_S)

static const struct weft__driver *driver(void)
{
#ifdef WEFT_HAVE_URING
    if (test_driver() == TEST_DRIVER_URING) {
        return &weft__uring_driver;
    }
#endif
    return &weft__epoll_driver;
}

static void *open_driver(void)
{
    const struct weft__driver_config config = { 0 };
    void *state = NULL;
    CHECK_OK(driver()->open(&state, &config));
    CHECK(state != NULL);
    return state;
}

/// Waits and says whether it was until the end.
static bool timed_out(void *state, weft_time until)
{
    driver()->wait(state, until);
    return weft__clock_ns() >= until;
}

static bool soon_kicked(void *state)
{
    return !timed_out(state, weft__clock_ns() + LOST_NS);
}

static pthread_t start(void *(*body)(void *), void *arg)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, body, arg), 0);
    return thread;
}

static void spin(uint64_t rounds)
{
    for (volatile uint64_t i = 0; i < rounds; i++) {
    }
}

// Kicks.

TEST_DRIVERS(kick_before_wait_ends_it_once)
{
    void *state = open_driver();
    for (int i = 0; i < 100; i++) {
        for (int kicks = 0; kicks <= i % 3; kicks++) {
            driver()->kick(state, NULL);
        }
        CHECK(soon_kicked(state));
    }
    CHECK(timed_out(state, weft__clock_ns() + 5 * WEFT_MS));
    driver()->close(state);
}

TEST_DRIVERS(any_queue_size_will_do)
{
    const unsigned entries[] = { 1, 2, 3, 1000, 1000000 };
    for (size_t i = 0; i < WEFT__ARRAY_LEN(entries); i++) {
        const struct weft__driver_config config = { .entries = entries[i] };
        void *state;
        CHECK_OK(driver()->open(&state, &config));
        driver()->kick(state, NULL);
        CHECK(soon_kicked(state));
        driver()->close(state);
    }
}

TEST_DRIVERS(kick_survives_poll)
{
    void *state = open_driver();
    for (int i = 0; i < 100; i++) {
        driver()->kick(state, state);
        for (int polls = 0; polls < i % 4; polls++) {
            CHECK_EQ(driver()->poll(state), 0);
        }
        CHECK(soon_kicked(state));
    }
    CHECK(timed_out(state, weft__clock_ns() + 5 * WEFT_MS));
    driver()->close(state);
}

struct kicker {
    void *state;
    uint64_t seed;
    weft_time delay_ns;
    _Atomic uint64_t turn; // odd: the waiter is about to wait; even: it was kicked
    uint64_t rounds;
};

static void *kick_each_turn(void *arg)
{
    struct kicker *kicker = arg;
    for (uint64_t i = 0; i < kicker->rounds; i++) {
        while (atomic_load(&kicker->turn) != 2 * i + 1) {
            sched_yield();
        }
        // Before, while and after the waiter falls asleep.
        weft_time delay_ns = test_random(&kicker->seed) % 40000 + kicker->delay_ns;
        for (weft_time start_ns = weft__clock_ns(); weft__clock_ns() - start_ns < delay_ns;) {
        }
        atomic_store(&kicker->turn, 2 * i + 2);
        driver()->kick(kicker->state, NULL);
    }
    return NULL;
}

TEST_DRIVERS(kick_during_wait_ends_it)
{
    struct kicker kicker = { open_driver(), test_seed(), 0, 0, test_scaled(2000) };
    pthread_t thread = start(kick_each_turn, &kicker);
    for (uint64_t i = 0; i < kicker.rounds; i++) {
        atomic_store(&kicker.turn, 2 * i + 1);
        CHECK(soon_kicked(kicker.state));
        // A token of the turn before may end this wait early, but then the next one brings this.
        while (atomic_load(&kicker.turn) != 2 * i + 2) {
            CHECK(soon_kicked(kicker.state));
        }
    }
    pthread_join(thread, NULL);
    driver()->close(kicker.state);
}

// The protocol that carriers use: announce first, look second, on both sides. Read-modify-writes
// stand in for the fences, which thread sanitizers do not understand.
struct mailbox {
    void *state;
    _Atomic uint64_t posted;
    _Atomic uint32_t parked;
    _Atomic uint32_t kicks;
};

static void post(struct mailbox *box, void *from)
{
    atomic_fetch_add(&box->posted, 1);
    if (atomic_exchange(&box->parked, 0) != 0) {
        atomic_fetch_add_explicit(&box->kicks, 1, memory_order_relaxed);
        driver()->kick(box->state, from);
    }
}

static void await_post(struct mailbox *box, uint64_t count)
{
    while (atomic_load(&box->posted) < count) {
        atomic_exchange(&box->parked, 1);
        if (atomic_fetch_add(&box->posted, 0) < count) {
            CHECK(soon_kicked(box->state));
        }
        atomic_exchange(&box->parked, 0);
        driver()->poll(box->state);
    }
}

struct producer {
    struct mailbox *box;
    uint64_t seed, count;
};

static void *produce(void *arg)
{
    struct producer *producer = arg;
    for (uint64_t i = 0; i < producer->count; i++) {
        spin(test_random(&producer->seed) % 4000);
        post(producer->box, NULL);
    }
    return NULL;
}

TEST_DRIVERS(no_wakeup_is_lost_from_many_threads)
{
    enum { PRODUCERS = 4 };
    struct mailbox box = { .state = open_driver() };
    struct producer producers[PRODUCERS];
    pthread_t threads[PRODUCERS];
    uint64_t seed = test_seed(), each = test_scaled(20000);
    for (int i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct producer){ &box, test_random(&seed), each };
        threads[i] = start(produce, &producers[i]);
    }
    for (uint64_t seen = 0; seen < PRODUCERS * each;) {
        await_post(&box, seen + 1);
        seen = atomic_load(&box.posted);
    }
    for (int i = 0; i < PRODUCERS; i++) {
        pthread_join(threads[i], NULL);
    }
    driver()->close(box.state);
}

struct player {
    struct mailbox *mine, *other;
    pthread_barrier_t *ready;
    uint64_t seed, rounds;
    bool first;
};

static void *play(void *arg)
{
    struct player *player = arg;
    void *state = player->mine->state = open_driver(); // on the thread that will wait
    pthread_barrier_wait(player->ready);
    for (uint64_t i = 1; i <= player->rounds; i++) {
        spin(test_random(&player->seed) % 1000);
        if (player->first) {
            post(player->other, state);
        }
        await_post(player->mine, i);
        if (!player->first) {
            post(player->other, state);
        }
    }
    pthread_barrier_wait(player->ready); // nobody kicks any more
    driver()->close(state);
    return NULL;
}

TEST_DRIVERS(no_wakeup_is_lost_between_two_carriers)
{
    struct mailbox boxes[2] = { 0 };
    pthread_barrier_t ready;
    pthread_barrier_init(&ready, NULL, 2);
    uint64_t seed = test_seed(), rounds = test_scaled(10000);
    struct player players[2] = {
        { &boxes[0], &boxes[1], &ready, test_random(&seed), rounds, true },
        { &boxes[1], &boxes[0], &ready, test_random(&seed), rounds, false },
    };
    pthread_t threads[2] = { start(play, &players[0]), start(play, &players[1]) };
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ(boxes[i].posted, rounds);
    }
}

// Without the parked flag: every kick counts, whatever the other threads do.
struct storm {
    void *state;
    _Atomic uint64_t last[4];
    uint64_t kicks;
    _Atomic unsigned next_slot;
};

static void *storm_kicks(void *arg)
{
    struct storm *storm = arg;
    _Atomic uint64_t *last = &storm->last[atomic_fetch_add(&storm->next_slot, 1)];
    for (uint64_t i = 1; i <= storm->kicks; i++) {
        atomic_store_explicit(last, i, memory_order_relaxed); // published by the kick alone
        driver()->kick(storm->state, NULL);
    }
    return NULL;
}

static bool storm_is_over(struct storm *storm)
{
    for (int i = 0; i < 4; i++) {
        if (atomic_load_explicit(&storm->last[i], memory_order_relaxed) < storm->kicks) {
            return false;
        }
    }
    return true;
}

TEST_DRIVERS(kick_storm_loses_none_and_overflows_nothing)
{
    struct storm storm = { .state = open_driver(), .kicks = test_scaled(20000) };
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        threads[i] = start(storm_kicks, &storm);
    }
    while (!storm_is_over(&storm)) {
        CHECK(soon_kicked(storm.state));
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    // Nobody waited meanwhile: all these kicks are one token.
    for (int i = 0; i < 100000; i++) {
        driver()->kick(storm.state, NULL);
    }
    CHECK(soon_kicked(storm.state));
    driver()->wait(storm.state, weft__clock_ns() + WEFT_MS); // a stale one may be left
    CHECK(timed_out(storm.state, weft__clock_ns() + 5 * WEFT_MS));
    driver()->close(storm.state);
}

// Time.

static int by_value(const void *a, const void *b)
{
    const weft_time *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

TEST_DRIVERS(timeout_is_never_early_and_seldom_late)
{
    enum { WAITS = 201 };
    weft_time late[WAITS];
    uint64_t seed = test_seed();
    void *state = open_driver();
    for (int i = 0; i < WAITS; i++) {
        weft_time until = weft__clock_ns() + test_random(&seed) % (2 * WEFT_MS);
        CHECK_EQ(driver()->wait(state, until), 0);
        weft_time now = weft__clock_ns();
        CHECK_GE(now, until);
        late[i] = now - until;
    }
    qsort(late, WAITS, sizeof late[0], by_value);
    CHECK_LT(late[WAITS / 2], 50 * WEFT_MS);
    driver()->close(state);
}

TEST_DRIVERS(long_timeout_is_as_exact_as_a_short_one)
{
    void *state = open_driver();
    weft_time until = weft__clock_ns() + 300 * WEFT_MS;
    CHECK(timed_out(state, until));
    CHECK_LT(weft__clock_ns() - until, WEFT_S);
    driver()->close(state);
}

TEST_DRIVERS(timeout_in_the_past_returns_at_once)
{
    void *state = open_driver();
    weft_time start_ns = weft__clock_ns();
    const weft_time past[] = { 0, 1, WEFT_S, start_ns - 1, start_ns };
    for (size_t i = 0; i < WEFT__ARRAY_LEN(past); i++) {
        CHECK_EQ(driver()->wait(state, past[i]), 0);
    }
    CHECK_LT(weft__clock_ns() - start_ns, WEFT_S);
    driver()->close(state);
}

static weft_time own_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (weft_time)t.tv_sec * WEFT_S + (weft_time)t.tv_nsec;
}

TEST_DRIVERS(far_timeouts_sleep_until_the_kick)
{
    const weft_time far[] = {
        WEFT_FOREVER,
        WEFT_FOREVER - 1,
        (weft_time)INT64_MAX + 1,
        INT64_MAX,
        INT64_MAX - WEFT_S,
        (weft_time)INT32_MAX * WEFT_S,
        weft__clock_ns() + 3600 * WEFT_S,
    };
    struct kicker kicker = { open_driver(), test_seed(), 10 * WEFT_MS, 0, WEFT__ARRAY_LEN(far) };
    pthread_t thread = start(kick_each_turn, &kicker);
    for (size_t i = 0; i < WEFT__ARRAY_LEN(far); i++) {
        weft_time cpu_ns = own_cpu_ns();
        atomic_store(&kicker.turn, 2 * i + 1);
        CHECK_EQ(driver()->wait(kicker.state, far[i]), 0);
        CHECK_EQ(atomic_load(&kicker.turn), 2 * i + 2);
        CHECK_LT(own_cpu_ns() - cpu_ns, 5 * WEFT_MS); // it slept
    }
    pthread_join(thread, NULL);
    driver()->close(kicker.state);
}

static void on_alarm(int signal)
{
    (void)signal;
}

TEST_DRIVERS(signals_end_no_wait_early)
{
    struct sigaction action = { .sa_handler = on_alarm }; // without SA_RESTART
    struct itimerval every_ms = { { 0, 1000 }, { 0, 1000 } };
    void *state = open_driver();
    CHECK_EQ(sigaction(SIGALRM, &action, NULL), 0);
    CHECK_EQ(setitimer(ITIMER_REAL, &every_ms, NULL), 0);
    CHECK(timed_out(state, weft__clock_ns() + 50 * WEFT_MS));
    driver()->kick(state, NULL);
    CHECK(soon_kicked(state));
    driver()->close(state);
}

// Descriptors and memory.

static int count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    CHECK(dir != NULL);
    int count = 0;
    while (readdir(dir) != NULL) {
        count++;
    }
    closedir(dir);
    return count;
}

TEST_DRIVERS(open_and_close_leak_no_descriptor)
{
    int before = count_descriptors();
    for (int i = 0; i < 100; i++) {
        void *state = open_driver();
        driver()->kick(state, NULL); // left pending
        CHECK_GT(count_descriptors(), before);
        driver()->close(state);
        CHECK_EQ(count_descriptors(), before);
    }
}

TEST_DRIVERS(descriptors_are_closed_on_exec)
{
    enum { LIMIT = 1024 };
    bool inherited[LIMIT];
    for (int fd = 0; fd < LIMIT; fd++) {
        inherited[fd] = fcntl(fd, F_GETFD) >= 0;
    }
    void *state = open_driver();
    int own = 0;
    for (int fd = 0; fd < LIMIT; fd++) {
        int flags = fcntl(fd, F_GETFD);
        if (flags >= 0 && !inherited[fd]) {
            CHECK((flags & FD_CLOEXEC) != 0);
            own++;
        }
    }
    CHECK_GE(own, 2);
    driver()->close(state);
}

struct budget {
    int left, live;
};

static void *budget_alloc(void *ctx, size_t size_bytes, size_t align)
{
    struct budget *budget = ctx;
    if (budget->left == 0) {
        return NULL;
    }
    budget->left--;
    budget->live++;
    return aligned_alloc(align, (size_bytes + align - 1) / align * align);
}

static void budget_free(void *ctx, void *memory, size_t size_bytes)
{
    struct budget *budget = ctx;
    (void)size_bytes;
    budget->live--;
    free(memory);
}

TEST_DRIVERS(failed_allocation_leaves_nothing_behind)
{
    struct budget budget = { 0 };
    const struct weft_allocator allocator = { budget_alloc, budget_free, &budget };
    const struct weft__driver_config config = { .allocator = &allocator, .entries = 8 };
    int descriptors = count_descriptors();
    int rc = -ENOMEM;
    for (int allowed = 0; rc < 0; allowed++) {
        void *state = &budget;
        budget.left = allowed;
        rc = driver()->open(&state, &config);
        if (rc == 0) {
            driver()->close(state);
            CHECK_GT(allowed, 0);
        } else {
            CHECK_EQ(rc, -ENOMEM);
            CHECK(state == NULL);
        }
        CHECK_EQ(budget.live, 0);
        CHECK_EQ(count_descriptors(), descriptors);
    }
}
