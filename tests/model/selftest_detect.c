// selftest_detect.c - does the engine notice what goes wrong, and only that?
//
// One pair of tests per detector where a pair makes sense: the broken program must fail in the
// expected way, the sound one must pass.
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "mc.h"

static atomic_uint word, flag;
static atomic_int lock;
static uint64_t shared;
static unsigned char bytes[16];

static void reset(void)
{
    atomic_init(&word, 0);
    atomic_init(&flag, 0);
    atomic_init(&lock, 0);
    shared = 0;
    memset(bytes, 0, sizeof bytes);
    mc_name(&word, sizeof word, "word");
    mc_name(&flag, sizeof flag, "flag");
    mc_name(&lock, sizeof lock, "lock");
    mc_name(&shared, sizeof shared, "shared");
    mc_name(bytes, sizeof bytes, "bytes");
}

static void start(void (*first)(void *), void (*second)(void *), void (*third)(void *))
{
    reset();
    mc_thread(first, NULL);
    mc_thread(second, NULL);
    if (third != NULL) {
        mc_thread(third, NULL);
    }
}

#define MODEL(name, first, second, third)                                                          \
    static void name(void)                                                                         \
    {                                                                                              \
        start(first, second, third);                                                               \
    }

// Uses a value, or the compiler would leave out the read.
static void use(uint64_t value)
{
    volatile uint64_t used = value;
    (void)used;
}

#define LOAD(variable, order) atomic_load_explicit(&(variable), memory_order_##order)
#define STORE(variable, value, order)                                                              \
    atomic_store_explicit(&(variable), value, memory_order_##order)

// Races, to the byte, also by copies and between plain and atomic accesses.

static void write_shared(void *unused)
{
    (void)unused;
    shared = 1;
}

static void write_byte_0(void *unused)
{
    (void)unused;
    bytes[0] = 1;
}

static void write_byte_1(void *unused)
{
    (void)unused;
    bytes[1] = 1;
}

static void clear_bytes(void *unused)
{
    (void)unused;
    memset(bytes + 1, 0, (size_t)mc_choose(2) + 8);
}

static void clear_more_bytes(void *unused)
{
    (void)unused;
    memset(bytes, 0, (size_t)mc_choose(2) + 8);
}

static void copy_bytes(void *unused)
{
    (void)unused;
    unsigned char copy[sizeof bytes];
    memcpy(copy, bytes, (size_t)mc_choose(2) + 8);
    use(copy[0]);
}

static void store_word(void *unused)
{
    (void)unused;
    STORE(word, 1, release);
}

static void write_word_plainly(void *unused)
{
    (void)unused;
    memset((void *)&word, 0, sizeof word);
}

MODEL(race_write_write, write_shared, write_shared, NULL)
MODEL(race_neighbours, write_byte_0, write_byte_1, NULL)
MODEL(race_memset, write_byte_0, clear_more_bytes, NULL)
MODEL(race_memset_beside, write_byte_0, clear_bytes, NULL)
MODEL(race_memcpy, write_byte_0, copy_bytes, NULL)
MODEL(race_with_atomic, store_word, write_word_plainly, NULL)

// Memory that is initialised plainly, published, and used atomically from then on.

static void reinitialise(void *unused)
{
    (void)unused;
    STORE(word, 3, relaxed);
    word = 3; // makes the location known before it is recycled
    memset((void *)&word, 0, sizeof word);
    STORE(flag, 1, release);
}

static void use_recycled(void *unused)
{
    (void)unused;
    if (LOAD(flag, acquire) == 1) {
        mc_assert(LOAD(word, relaxed) == 0);
    }
}

MODEL(recycled, reinitialise, use_recycled, NULL)

// Two sizes at one address.

static void store_half(void *unused)
{
    (void)unused;
    __atomic_store_n((uint32_t *)&shared, 1, __ATOMIC_RELAXED);
}

static void load_whole(void *unused)
{
    (void)unused;
    use(__atomic_load_n(&shared, __ATOMIC_RELAXED));
}

MODEL(mixed_sizes, store_half, load_whole, NULL)

// Futexes: a lost wake-up is a deadlock.

static void sleep_without_look(void *unused)
{
    (void)unused;
    while (LOAD(flag, acquire) == 0) {
        mc_futex_wait(&word, 0);
    }
}

static void wake_without_change(void *unused)
{
    (void)unused;
    STORE(flag, 1, release);
    mc_futex_wake(&word, 1);
}

MODEL(futex_lost, sleep_without_look, wake_without_change, NULL)

static void sleep_on_flag(void *unused)
{
    (void)unused;
    while (LOAD(flag, acquire) == 0) {
        mc_futex_wait(&flag, 0);
    }
    use(shared);
}

static void wake_flag(void *unused)
{
    (void)unused;
    shared = 1;
    STORE(flag, 1, release);
    mc_futex_wake(&flag, 1);
}

MODEL(futex_good, sleep_on_flag, wake_flag, NULL)
MODEL(futex_one_for_two, sleep_on_flag, wake_flag, sleep_on_flag)

// The wake-up itself is an order: the sleeper may read what the waker wrote. A spurious return
// brings nothing along.
static void read_after_wake(void *unused)
{
    (void)unused;
    if (mc_futex_wait(&word, 0) == 0) {
        use(shared);
    }
}

static void write_and_wake(void *unused)
{
    (void)unused;
    shared = 1;
    STORE(word, 1, relaxed);
    mc_futex_wake(&word, 1);
}

MODEL(futex_orders, read_after_wake, write_and_wake, NULL)
MODEL(futex_spurious, read_after_wake, write_and_wake, NULL)

// Events keep a token, and order nothing.

static void wait_event(void *unused)
{
    (void)unused;
    while (!mc_event_wait(&flag)) {
    }
    if (LOAD(word, relaxed) == 1) {
        use(shared);
    }
}

static void set_event(void *unused)
{
    (void)unused;
    mc_event_set(&flag);
}

static void write_and_set_event(void *unused)
{
    (void)unused;
    shared = 1;
    STORE(word, 1, relaxed);
    mc_event_set(&flag);
}

static void no_event(void *unused)
{
    (void)unused;
}

MODEL(event_good, wait_event, set_event, NULL)
MODEL(event_orders_nothing, wait_event, write_and_set_event, NULL)
MODEL(event_missing, wait_event, no_event, NULL)

// Spin loops.

static void spin_on_flag(void *unused)
{
    (void)unused;
    while (LOAD(flag, acquire) == 0) {
        mc_relax();
    }
}

static void spin_then_read(void *unused)
{
    (void)unused;
    while (LOAD(flag, relaxed) == 0) {
        mc_relax();
    }
    mc_assert(LOAD(word, relaxed) == 1);
}

static void store_word_then_flag(void *unused)
{
    (void)unused;
    STORE(word, 1, relaxed);
    STORE(flag, 1, relaxed);
}

static void set_flag(void *unused)
{
    (void)unused;
    STORE(flag, 1, release);
}

MODEL(spin_good, spin_on_flag, set_flag, spin_on_flag)
MODEL(spin_forever, spin_on_flag, store_word, NULL)
MODEL(spin_reads_late, spin_then_read, store_word_then_flag, NULL)

// Two spinning threads must let the holder of the lock go on.
static void take_lock(void *unused)
{
    (void)unused;
    while (atomic_exchange_explicit(&lock, 1, memory_order_acquire) != 0) {
        mc_relax();
    }
    shared++;
    STORE(lock, 0, release);
}

static void check_three(void)
{
    mc_assert(shared == 3);
}

static void take_lock_weakly(void *unused)
{
    (void)unused;
    while (atomic_exchange_explicit(&lock, 1, memory_order_relaxed) != 0) {
        mc_relax();
    }
    shared++;
    STORE(lock, 0, release);
}

MODEL(spin_lock, take_lock, take_lock, take_lock)
MODEL(spin_lock_weak, take_lock, take_lock_weakly, NULL)

static void run_in_circles(void *unused)
{
    (void)unused;
    while (LOAD(flag, relaxed) == 0) {
        STORE(word, 1, relaxed);
    }
}

MODEL(circles, run_in_circles, no_event, NULL)

// Memory that dies: a frame that is left while another thread still uses it.

struct frame {
    atomic_uint done;
    int value;
};

static struct frame *published;

static void leave_frame(void *unused)
{
    (void)unused;
    struct frame frame = { .value = 1 };
    atomic_init(&frame.done, 0);
    __atomic_store_n(&published, &frame, __ATOMIC_RELEASE);
    while (LOAD(frame.done, acquire) == 0) {
        mc_relax();
    }
    mc_forbid(&frame, sizeof frame);
}

static void touch_last(void *unused)
{
    (void)unused;
    struct frame *frame;
    while ((frame = __atomic_load_n(&published, __ATOMIC_ACQUIRE)) == NULL) {
        mc_relax();
    }
    frame->value = 2;
    STORE(frame->done, 1, release);
}

static void touch_too_late(void *unused)
{
    (void)unused;
    struct frame *frame;
    while ((frame = __atomic_load_n(&published, __ATOMIC_ACQUIRE)) == NULL) {
        mc_relax();
    }
    STORE(frame->done, 1, release);
    STORE(frame->done, 2, release);
}

static void frame_good(void)
{
    published = NULL;
    start(leave_frame, touch_last, NULL);
}

static void frame_late(void)
{
    published = NULL;
    start(leave_frame, touch_too_late, NULL);
}

// The same without help: the engine knows when a frame ends.

static __attribute__((noinline)) void wait_in_frame(void)
{
    struct frame frame = { .value = 1 };
    atomic_init(&frame.done, 0);
    __atomic_store_n(&published, &frame, __ATOMIC_RELEASE);
    while (LOAD(frame.done, acquire) == 0) {
        mc_relax();
    }
}

static void leave_silently(void *unused)
{
    (void)unused;
    wait_in_frame();
    LOAD(flag, relaxed); // still running, but not in that frame
}

static __attribute__((noinline)) void wait_weakly_in_frame(void)
{
    struct frame frame = { .value = 1 };
    atomic_init(&frame.done, 0);
    __atomic_store_n(&published, &frame, __ATOMIC_RELEASE);
    while (LOAD(frame.done, relaxed) == 0) {
        mc_relax();
    }
}

static void leave_too_early(void *unused)
{
    (void)unused;
    wait_weakly_in_frame();
}

static void silent_good(void)
{
    published = NULL;
    start(leave_silently, touch_last, NULL);
}

static void silent_late(void)
{
    published = NULL;
    start(leave_silently, touch_too_late, NULL);
}

static void silent_unordered(void)
{
    published = NULL;
    start(leave_too_early, touch_last, NULL);
}

static int *block;

static void use_block(void *unused)
{
    (void)unused;
    *block = 1;
    mc_free(block);
    if (mc_choose(2) == 1) {
        *block = 2;
    }
}

static void use_freed(void)
{
    reset();
    block = mc_alloc(sizeof *block);
    mc_thread(use_block, NULL);
}

static void free_twice_body(void *unused)
{
    (void)unused;
    mc_free(block);
    mc_free(block);
}

static void free_twice(void)
{
    reset();
    block = mc_alloc(sizeof *block);
    mc_thread(free_twice_body, NULL);
}

// Threads made by threads.

static void child(void *unused)
{
    (void)unused;
    shared++;
}

static void parent(void *unused)
{
    (void)unused;
    shared = 1;
    mc_thread(child, NULL);
    if (LOAD(flag, relaxed) == 1) {
        shared++;
    }
}

MODEL(spawn, parent, no_event, NULL)
MODEL(spawn_race, parent, set_flag, NULL)

// Model code that breaks down.

static int *volatile nowhere;

static void crash_body(void *unused)
{
    (void)unused;
    *nowhere = 1;
}

static void abort_body(void *unused)
{
    (void)unused;
    abort();
}

static void assert_body(void *unused)
{
    (void)unused;
    mc_assert(mc_choose(3) != 2);
}

MODEL(crash, crash_body, no_event, NULL)
MODEL(aborts, abort_body, no_event, NULL)
MODEL(chooses, assert_body, no_event, NULL)

#define PASSES(test)                                                                               \
    {                                                                                              \
        .name = #test, .setup = test                                                               \
    }
#define FAILS(test, how)                                                                           \
    {                                                                                              \
        .name = #test, .setup = test, .must_fail = how                                             \
    }

const struct mc_model mc_models[] = {
    FAILS(race_write_write, "data race"),
    PASSES(race_neighbours),
    FAILS(race_memset, "data race"),
    PASSES(race_memset_beside),
    FAILS(race_memcpy, "data race"),
    FAILS(race_with_atomic, "data race"),
    PASSES(recycled),
    FAILS(mixed_sizes, "mixed sizes"),
    FAILS(futex_lost, "deadlock"),
    PASSES(futex_good),
    FAILS(futex_one_for_two, "deadlock"),
    { .name = "futex_orders", .setup = futex_orders, .never_spurious = 1 },
    FAILS(futex_spurious, "data race"),
    PASSES(event_good),
    FAILS(event_orders_nothing, "data race"),
    FAILS(event_missing, "deadlock"),
    PASSES(spin_good),
    FAILS(spin_forever, "livelock"),
    FAILS(spin_reads_late, "assertion"),
    { .name = "spin_lock", .setup = spin_lock, .check = check_three },
    FAILS(spin_lock_weak, "data race"),
    FAILS(circles, "livelock"),
    PASSES(frame_good),
    FAILS(frame_late, "dead memory"),
    PASSES(silent_good),
    FAILS(silent_late, "dead memory"),
    FAILS(silent_unordered, "dead memory"),
    FAILS(use_freed, "dead memory"),
    FAILS(free_twice, "dead memory"),
    PASSES(spawn),
    FAILS(spawn_race, "data race"),
    FAILS(crash, "crash"),
    FAILS(aborts, "abort()"),
    FAILS(chooses, "assertion"),
    { .name = NULL },
};
