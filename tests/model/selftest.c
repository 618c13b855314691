// selftest.c - does the engine know C11? Classic litmus tests with known answers.
//
// A test that must fail asserts that a legal weak outcome does not happen: the engine has to find
// it. A test that must pass asserts that an illegal outcome does not happen: finding it would be a
// false alarm. The letters are the usual ones: SB store buffering, MP message passing, LB load
// buffering, IRIW independent reads of independent writes, 2+2W two writes each, Co* coherence.
#include <stdatomic.h>

#include "mc.h"

static atomic_int x, y, z;
static int payload;
static int a, b, c, d; // what the threads saw

static void reset(void)
{
    atomic_init(&x, 0);
    atomic_init(&y, 0);
    atomic_init(&z, 0);
    payload = a = b = c = d = 0;
    mc_name(&x, sizeof x, "x");
    mc_name(&y, sizeof y, "y");
    mc_name(&z, sizeof z, "z");
    mc_name(&payload, sizeof payload, "payload");
}

#define STORE(variable, value, order)                                                              \
    atomic_store_explicit(&(variable), value, memory_order_##order)
#define LOAD(variable, order) atomic_load_explicit(&(variable), memory_order_##order)
#define FENCE(order) atomic_thread_fence(memory_order_##order)

// A litmus thread: THREAD(name, statements).
#define THREAD(name, ...)                                                                          \
    static void name(void *unused)                                                                 \
    {                                                                                              \
        (void)unused;                                                                              \
        __VA_ARGS__                                                                                \
    }

#define TWO(name, first, second)                                                                   \
    static void name(void)                                                                         \
    {                                                                                              \
        reset();                                                                                   \
        mc_thread(first, NULL);                                                                    \
        mc_thread(second, NULL);                                                                   \
    }

#define THREE(name, first, second, third)                                                          \
    static void name(void)                                                                         \
    {                                                                                              \
        reset();                                                                                   \
        mc_thread(first, NULL);                                                                    \
        mc_thread(second, NULL);                                                                   \
        mc_thread(third, NULL);                                                                    \
    }

#define FOUR(name, first, second, third, fourth)                                                   \
    static void name(void)                                                                         \
    {                                                                                              \
        reset();                                                                                   \
        mc_thread(first, NULL);                                                                    \
        mc_thread(second, NULL);                                                                   \
        mc_thread(third, NULL);                                                                    \
        mc_thread(fourth, NULL);                                                                   \
    }

// Store buffering: may both threads miss the other's store?

THREAD(sb_relaxed_1, STORE(x, 1, relaxed); a = LOAD(y, relaxed);)
THREAD(sb_relaxed_2, STORE(y, 1, relaxed); b = LOAD(x, relaxed);)
TWO(sb_relaxed, sb_relaxed_1, sb_relaxed_2)

THREAD(sb_acq_rel_1, STORE(x, 1, release); FENCE(acq_rel); a = LOAD(y, acquire);)
THREAD(sb_acq_rel_2, STORE(y, 1, release); FENCE(acq_rel); b = LOAD(x, acquire);)
TWO(sb_acq_rel, sb_acq_rel_1, sb_acq_rel_2)

THREAD(sb_fences_1, STORE(x, 1, relaxed); FENCE(seq_cst); a = LOAD(y, relaxed);)
THREAD(sb_fences_2, STORE(y, 1, relaxed); FENCE(seq_cst); b = LOAD(x, relaxed);)
TWO(sb_fences, sb_fences_1, sb_fences_2)
TWO(sb_one_fence, sb_fences_1, sb_relaxed_2)

THREAD(sb_seq_cst_1, STORE(x, 1, seq_cst); a = LOAD(y, seq_cst);)
THREAD(sb_seq_cst_2, STORE(y, 1, seq_cst); b = LOAD(x, seq_cst);)
TWO(sb_seq_cst, sb_seq_cst_1, sb_seq_cst_2)
TWO(sb_access_and_fence, sb_seq_cst_1, sb_fences_2)

static void check_sb(void)
{
    mc_assert(a == 1 || b == 1);
}

// Message passing: does the flag bring the payload along?

THREAD(mp_relaxed_1, STORE(y, 1, relaxed); STORE(x, 1, relaxed);)
THREAD(mp_relaxed_2, a = LOAD(x, relaxed); b = LOAD(y, relaxed);)
TWO(mp_relaxed, mp_relaxed_1, mp_relaxed_2)

THREAD(mp_1, STORE(y, 1, relaxed); STORE(x, 1, release);)
THREAD(mp_2, a = LOAD(x, acquire); b = LOAD(y, relaxed);)
TWO(mp_release_acquire, mp_1, mp_2)
TWO(mp_no_acquire, mp_1, mp_relaxed_2)
TWO(mp_no_release, mp_relaxed_1, mp_2)

THREAD(mp_fence_1, STORE(y, 1, relaxed); FENCE(release); STORE(x, 1, relaxed);)
THREAD(mp_fence_2, a = LOAD(x, relaxed); FENCE(acquire); b = LOAD(y, relaxed);)
TWO(mp_fences, mp_fence_1, mp_fence_2)
TWO(mp_fence_to_acquire, mp_fence_1, mp_2)

THREAD(mp_late_fence_1, FENCE(release); STORE(y, 1, relaxed); STORE(x, 1, relaxed);)
TWO(mp_late_fence, mp_late_fence_1, mp_fence_2)

static void check_mp(void)
{
    mc_assert(a == 0 || b == 1);
}

// The same with a plain payload, which the race detector watches.

THREAD(plain_1, payload = 1; STORE(x, 1, release);)
THREAD(plain_1_relaxed, payload = 1; STORE(x, 1, relaxed);)
THREAD(plain_2, if (LOAD(x, acquire) == 1) a = payload;)
THREAD(plain_2_relaxed, if (LOAD(x, relaxed) == 1) a = payload;)
TWO(plain_good, plain_1, plain_2)
TWO(plain_no_release, plain_1_relaxed, plain_2)
TWO(plain_no_acquire, plain_1, plain_2_relaxed)

// SC fences order, but only a read of a store makes anything happen before.
THREAD(plain_sc_1, payload = 1; FENCE(seq_cst); STORE(x, 1, relaxed);)
THREAD(plain_sc_2, FENCE(seq_cst); if (LOAD(x, relaxed) == 1) a = payload;)
TWO(plain_sc_fence_too_early, plain_sc_1, plain_sc_2)

// Release sequences.

THREAD(increment_relaxed, atomic_fetch_add_explicit(&x, 1, memory_order_relaxed);)
THREAD(sequence_2, if (LOAD(x, acquire) == 2) a = payload;)
THREE(sequence_rmw, plain_1, increment_relaxed, sequence_2)

// Another thread's plain store ends the sequence; so does the same thread's, as of C++20.
THREAD(sequence_own_store, payload = 1; STORE(x, 1, release); STORE(x, 2, relaxed);)
TWO(sequence_broken, sequence_own_store, sequence_2)

// Load buffering is legal C11 and not explored: a load cannot read a store that comes later.

THREAD(lb_1, a = LOAD(y, relaxed); STORE(x, 1, relaxed);)
THREAD(lb_2, b = LOAD(x, relaxed); STORE(y, 1, relaxed);)
TWO(lb_is_not_explored, lb_1, lb_2)

static void check_lb(void)
{
    mc_assert(a == 0 || b == 0);
}

// Independent reads of independent writes: do two readers agree on the order?

THREAD(write_x, STORE(x, 1, release);)
THREAD(write_y, STORE(y, 1, release);)
THREAD(iriw_3, a = LOAD(x, acquire); b = LOAD(y, acquire);)
THREAD(iriw_4, c = LOAD(y, acquire); d = LOAD(x, acquire);)
FOUR(iriw, write_x, write_y, iriw_3, iriw_4)

THREAD(iriw_fence_3, a = LOAD(x, relaxed); FENCE(seq_cst); b = LOAD(y, relaxed);)
THREAD(iriw_fence_4, c = LOAD(y, relaxed); FENCE(seq_cst); d = LOAD(x, relaxed);)
FOUR(iriw_fences, write_x, write_y, iriw_fence_3, iriw_fence_4)

THREAD(iriw_sc_3, a = LOAD(x, seq_cst); b = LOAD(y, seq_cst);)
THREAD(iriw_sc_4, c = LOAD(y, seq_cst); d = LOAD(x, seq_cst);)
FOUR(iriw_seq_cst, write_x, write_y, iriw_sc_3, iriw_sc_4)

static void check_iriw(void)
{
    mc_assert(!(a == 1 && b == 0 && c == 1 && d == 0));
}

// Coherence: one location never goes back, whatever the order.

THREAD(co_write, STORE(x, 1, relaxed); STORE(x, 2, relaxed);)
THREAD(co_read, a = LOAD(x, relaxed); b = LOAD(x, relaxed);)
THREAD(co_read_too, c = LOAD(x, relaxed); d = LOAD(x, relaxed);)
THREE(corr, co_write, co_read, co_read_too)

static void check_corr(void)
{
    mc_assert(a <= b && c <= d);
}

THREAD(cowr_1, STORE(x, 1, relaxed); a = LOAD(x, relaxed); b = LOAD(x, relaxed);)
THREAD(cowr_2, STORE(x, 2, relaxed);)
TWO(cowr, cowr_1, cowr_2)

static void check_cowr(void)
{
    mc_assert(a != 0 && !(a == 2 && b == 1));
}

// Two writers, two readers: all see x change in the same order.
THREAD(write_x_2, STORE(x, 2, relaxed);)
THREAD(write_x_1, STORE(x, 1, relaxed);)
FOUR(co_agree, write_x_1, write_x_2, co_read, co_read_too)

static void check_co_agree(void)
{
    mc_assert(!(a == 1 && b == 2 && c == 2 && d == 1));
}

// Two plus two writes: may each location end with the value written first?

THREAD(ww_1, STORE(x, 1, relaxed); STORE(y, 2, relaxed);)
THREAD(ww_2, STORE(y, 1, relaxed); STORE(x, 2, relaxed);)
TWO(ww_relaxed, ww_1, ww_2)

THREAD(ww_fence_1, STORE(x, 1, relaxed); FENCE(seq_cst); STORE(y, 2, relaxed);)
THREAD(ww_fence_2, STORE(y, 1, relaxed); FENCE(seq_cst); STORE(x, 2, relaxed);)
TWO(ww_fences, ww_fence_1, ww_fence_2)

THREAD(ww_sc_1, STORE(x, 1, seq_cst); STORE(y, 2, seq_cst);)
THREAD(ww_sc_2, STORE(y, 1, seq_cst); STORE(x, 2, seq_cst);)
TWO(ww_seq_cst, ww_sc_1, ww_sc_2)

static void check_ww(void)
{
    mc_assert(!(x == 1 && y == 1));
}

// Read-modify-write: always reads its predecessor, so no increment is lost.

THREAD(increment_twice, atomic_fetch_add_explicit(&x, 1, memory_order_relaxed);
       atomic_fetch_add_explicit(&x, 1, memory_order_relaxed);)
THREE(rmw_count, increment_relaxed, increment_twice, increment_relaxed)

static void check_rmw_count(void)
{
    mc_assert(x == 4);
}

// Exchange on both sides is a store and a load in one place: the second one sees the first.
THREAD(xchg_1, STORE(y, 1, relaxed); a = atomic_exchange_explicit(&x, 1, memory_order_acq_rel);
       b = LOAD(z, relaxed);)
THREAD(xchg_2, STORE(z, 1, relaxed); c = atomic_exchange_explicit(&x, 2, memory_order_acq_rel);
       d = LOAD(y, relaxed);)
TWO(rmw_meets, xchg_1, xchg_2)

static void check_rmw_meets(void)
{
    mc_assert(b == 1 || d == 1);
}

// Compare-and-swap.

THREAD(cas_weak_once, int expected = 0;
       a = atomic_compare_exchange_weak_explicit(&x, &expected, 1, memory_order_relaxed,
                                                 memory_order_relaxed);)
THREAD(cas_strong_once, int expected = 0;
       b = atomic_compare_exchange_strong_explicit(&y, &expected, 1, memory_order_relaxed,
                                                   memory_order_relaxed);)
TWO(cas_weak, cas_weak_once, cas_strong_once)
TWO(cas_strong, cas_strong_once, co_read_too)

static void check_cas_weak(void)
{
    mc_assert(a == 1);
}

static void check_cas_strong(void)
{
    mc_assert(b == 1);
}

// A failed compare-and-swap may have read an old store.
THREAD(cas_stale_1, STORE(x, 1, relaxed); STORE(x, 2, relaxed); STORE(y, 1, relaxed);)
THREAD(cas_stale_2, a = LOAD(y, relaxed); b = 7;
       atomic_compare_exchange_strong_explicit(&x, &b, 8, memory_order_relaxed,
                                               memory_order_relaxed);)
TWO(cas_stale, cas_stale_1, cas_stale_2)

static void check_cas_stale(void)
{
    mc_assert(a == 0 || b == 2);
}

// The failure order of a compare-and-swap is an order of its own.
THREAD(cas_fail_acquire, int seen = 0;
       if (!atomic_compare_exchange_strong_explicit(&x, &seen, 5, memory_order_acquire,
                                                    memory_order_acquire)) a = payload;)
THREAD(cas_fail_relaxed, int seen = 0;
       if (!atomic_compare_exchange_strong_explicit(&x, &seen, 5, memory_order_acquire,
                                                    memory_order_relaxed)) a = payload;)
TWO(cas_failure_acquire, plain_1, cas_fail_acquire)
TWO(cas_failure_relaxed, plain_1, cas_fail_relaxed)

#define FORBIDDEN(test, checker)                                                                   \
    {                                                                                              \
        .name = #test, .setup = test, .check = checker                                             \
    }
#define ALLOWED(test, checker)                                                                     \
    {                                                                                              \
        .name = #test, .setup = test, .check = checker, .must_fail = "assertion"                   \
    }
#define RACE(test)                                                                                 \
    {                                                                                              \
        .name = #test, .setup = test, .must_fail = "data race"                                     \
    }
#define NO_RACE(test)                                                                              \
    {                                                                                              \
        .name = #test, .setup = test                                                               \
    }

const struct mc_model mc_models[] = {
    ALLOWED(sb_relaxed, check_sb),
    ALLOWED(sb_acq_rel, check_sb),
    ALLOWED(sb_one_fence, check_sb),
    FORBIDDEN(sb_fences, check_sb),
    FORBIDDEN(sb_seq_cst, check_sb),
    FORBIDDEN(sb_access_and_fence, check_sb),
    ALLOWED(mp_relaxed, check_mp),
    ALLOWED(mp_no_acquire, check_mp),
    ALLOWED(mp_no_release, check_mp),
    ALLOWED(mp_late_fence, check_mp),
    FORBIDDEN(mp_release_acquire, check_mp),
    FORBIDDEN(mp_fences, check_mp),
    FORBIDDEN(mp_fence_to_acquire, check_mp),
    NO_RACE(plain_good),
    RACE(plain_no_release),
    RACE(plain_no_acquire),
    RACE(plain_sc_fence_too_early),
    NO_RACE(sequence_rmw),
    RACE(sequence_broken),
    FORBIDDEN(lb_is_not_explored, check_lb),
    ALLOWED(iriw, check_iriw),
    FORBIDDEN(iriw_fences, check_iriw),
    FORBIDDEN(iriw_seq_cst, check_iriw),
    FORBIDDEN(corr, check_corr),
    FORBIDDEN(cowr, check_cowr),
    FORBIDDEN(co_agree, check_co_agree),
    ALLOWED(ww_relaxed, check_ww),
    FORBIDDEN(ww_fences, check_ww),
    FORBIDDEN(ww_seq_cst, check_ww),
    FORBIDDEN(rmw_count, check_rmw_count),
    FORBIDDEN(rmw_meets, check_rmw_meets),
    { .name = "cas_weak",
      .setup = cas_weak,
      .check = check_cas_weak,
      .must_fail = "assertion",
      .needs = "gcc" },
    FORBIDDEN(cas_strong, check_cas_strong),
    ALLOWED(cas_stale, check_cas_stale),
    NO_RACE(cas_failure_acquire),
    RACE(cas_failure_relaxed),
    { .name = NULL },
};
