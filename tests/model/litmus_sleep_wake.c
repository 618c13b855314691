// litmus_sleep_wake.c - the sleep/wake pair of sched/park.c on the hardware at hand.
//
// The model checker says what C11 allows; this program shows that the danger is real on the
// machine it runs on, and that the fence is enough there. Two threads, each pinned to a CPU of its
// own, run the two sides of the protocol once per cell:
//
//     making ready (weft__put)                 going to sleep (weft__sleep_begin)
//     push onto the inbox (CAS, release)       state = PARKED (relaxed)
//     fence                                    fence
//     look at the state (relaxed)              look at the inbox (relaxed)
//
// A wake-up is lost when neither sees the other: the producer does not kick, the carrier sleeps.
// With both fences that must never happen; without them it must, or the test has tested nothing.
// On x86-64 the CAS is a full barrier by itself, so there the sleeper's fence is the one that
// matters and the producer's costs the more.
//
// The threads walk through an array of cells, each on cache lines of its own, and meet at a
// barrier before each round. One side is faster by nature, so after each round a small delay per
// cell is moved towards the side that came first: most cells are then really contested.
//
// The short form takes four million samples per variant, or as many as it can get in a few seconds
// on a busy machine; the nightly form takes 200 million, however long that takes.
//
//     litmus_sleep_wake [--nightly]     exit 0, 1 (failed) or 77 (needs two CPUs)
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CELLS = 256, LINE_PAIR = 128, MOST_DELAY = 2000, EXIT_SKIPPED = 77 };
enum { SHORT_SAMPLES = 4000000, SHORT_SECONDS = 4, NIGHTLY_SAMPLES = 200000000 };
enum { RUNNING, PARKED };

struct cell {
    _Alignas(LINE_PAIR) _Atomic(void *) inbox;
    _Alignas(LINE_PAIR) _Atomic int state;
    _Alignas(LINE_PAIR) bool producer_saw_parked;
    _Alignas(LINE_PAIR) bool sleeper_saw_node;
};

static struct cell cells[CELLS];
static _Alignas(LINE_PAIR) atomic_long arrivals;
static int cpus[2];
static int
    sleeper_delay; // turns of an empty loop per cell; negative: the producer's. Between rounds

static bool is_over; // the main thread's before a meeting, both threads' after it

struct variant {
    const char *name;
    bool has_fences;
};

struct amount {
    long rounds;
    double seconds; // 0: no limit
};

struct counts {
    long rounds, both, kicked, noticed, lost;
};

static void die(const char *what)
{
    perror(what);
    exit(2);
}

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        die("sched_setaffinity");
    }
}

static bool find_two_cpus(void)
{
    cpu_set_t set;
    int found = 0;
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        die("sched_getaffinity");
    }
    for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++) {
        if (CPU_ISSET(cpu, &set)) {
            cpus[found++] = cpu;
        }
    }
    return found == 2;
}

static void meet(long *meetings)
{
    ++*meetings;
    atomic_fetch_add_explicit(&arrivals, 1, memory_order_acq_rel);
    while (atomic_load_explicit(&arrivals, memory_order_acquire) < 2 * *meetings) {
    }
}

static inline void delay(int turns)
{
    for (int i = 0; i < turns; i++) {
        __asm__ volatile("");
    }
}

static inline __attribute__((always_inline)) void produce(bool has_fence)
{
    static int node;
    int turns = -sleeper_delay;
    for (int i = 0; i < CELLS; i++) {
        struct cell *cell = &cells[i];
        delay(turns);
        void *top = NULL;
        atomic_compare_exchange_strong_explicit(&cell->inbox, &top, &node, memory_order_release,
                                                memory_order_relaxed);
        if (has_fence) {
            atomic_thread_fence(memory_order_seq_cst);
        }
        cell->producer_saw_parked = atomic_load_explicit(&cell->state, memory_order_relaxed) ==
                                    PARKED;
    }
}

static inline __attribute__((always_inline)) void fall_asleep(bool has_fence)
{
    int turns = sleeper_delay;
    for (int i = 0; i < CELLS; i++) {
        struct cell *cell = &cells[i];
        delay(turns);
        atomic_store_explicit(&cell->state, PARKED, memory_order_relaxed);
        if (has_fence) {
            atomic_thread_fence(memory_order_seq_cst);
        }
        cell->sleeper_saw_node = atomic_load_explicit(&cell->inbox, memory_order_relaxed) != NULL;
    }
}

static void *producer(void *arg)
{
    const struct variant *variant = arg;
    long meetings = 0;
    pin(cpus[1]);
    for (meet(&meetings); !is_over; meet(&meetings)) {
        if (variant->has_fences) {
            produce(true);
        } else {
            produce(false);
        }
        meet(&meetings);
    }
    return NULL;
}

static void clear_cells(void)
{
    for (int i = 0; i < CELLS; i++) {
        atomic_store_explicit(&cells[i].inbox, NULL, memory_order_relaxed);
        atomic_store_explicit(&cells[i].state, RUNNING, memory_order_relaxed);
    }
}

static void count_cells(struct counts *counts)
{
    long balance = 0;
    for (int i = 0; i < CELLS; i++) {
        bool kicked = cells[i].producer_saw_parked, noticed = cells[i].sleeper_saw_node;
        counts->both += kicked && noticed;
        counts->kicked += kicked && !noticed;
        counts->noticed += !kicked && noticed;
        counts->lost += !kicked && !noticed;
        balance += kicked - noticed;
    }
    if (balance > 0 && sleeper_delay < MOST_DELAY) {
        sleeper_delay++;
    } else if (balance < 0 && sleeper_delay > -MOST_DELAY) {
        sleeper_delay--;
    }
}

static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static bool is_enough(const struct amount *amount, long rounds, double start)
{
    return rounds >= amount->rounds ||
           (amount->seconds > 0 && rounds % 64 == 0 && now_seconds() - start > amount->seconds);
}

static void run_variant(const struct variant *variant, const struct amount *amount,
                        struct counts *counts)
{
    pthread_t thread;
    long meetings = 0;
    double start = now_seconds();
    atomic_store(&arrivals, 0);
    is_over = false;
    if (pthread_create(&thread, NULL, producer, (void *)variant) != 0) {
        die("pthread_create");
    }
    pin(cpus[0]);
    for (;;) {
        clear_cells();
        is_over = is_enough(amount, counts->rounds, start);
        meet(&meetings);
        if (is_over) {
            break;
        }
        if (variant->has_fences) {
            fall_asleep(true);
        } else {
            fall_asleep(false);
        }
        meet(&meetings);
        count_cells(counts);
        counts->rounds++;
    }
    pthread_join(thread, NULL);
}

static bool report(int number, const struct variant *variant, const struct counts *counts,
                   double seconds)
{
    double samples = (double)counts->rounds * CELLS;
    bool good = variant->has_fences ? counts->lost == 0 : counts->lost > 0;
    printf("%s %d - %s # %ld wake-ups lost of %.1f million (%.4f %%); %ld kicked, %ld noticed, "
           "%ld both; %.1f s\n",
           good ? "ok" : "not ok", number, variant->name, counts->lost, samples / 1e6,
           100.0 * (double)counts->lost / samples, counts->kicked, counts->noticed, counts->both,
           seconds);
    return good;
}

int main(int count, char **arguments)
{
    bool nightly = count > 1 && strcmp(arguments[1], "--nightly") == 0;
    if (!find_two_cpus()) {
        puts("needs two CPUs");
        return EXIT_SKIPPED;
    }
    const struct amount amount = {
        .rounds = (nightly ? NIGHTLY_SAMPLES : SHORT_SAMPLES) / CELLS + 1,
        .seconds = nightly ? 0 : SHORT_SECONDS,
    };
    const struct variant variants[] = {
        { "without fences wake-ups are lost", false },
        { "with fences none is lost", true },
    };
    int failed = 0;
    for (int i = 0; i < 2; i++) {
        struct counts counts = { 0 };
        double start = now_seconds();
        run_variant(&variants[i], &amount, &counts);
        failed += !report(i + 1, &variants[i], &counts, now_seconds() - start);
    }
    printf("%d passed, %d failed, 0 skipped\n", 2 - failed, failed);
    return failed > 0;
}
