// Random programs in the simulator that lock, borrow, wait and give up: for every seed there is
// exclusion, nothing is lost, and nobody starves.
#include "support/test.h"

#include "support/chance.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <weft.h>

enum { MEMBERS = 10, PERMITS = 4, STEPS = 30 };

/// One OS thread runs everything, so plain variables will do.
struct world {
    struct weft_mutex mutex;
    struct weft_rwlock rwlock;
    struct weft_semaphore semaphore;
    struct weft_notify notify;
    struct weft_cond cond;
    int holders;
    int readers;
    int writers;
    uint64_t out;
    weft_time longest_wait;
};

struct member {
    struct world *world;
    uint64_t random;
};

/// Does something that takes time, or not; gives up early if cancelled.
static void dawdle(struct member *m)
{
    switch (below(&m->random, 4)) {
    case 0: (void)weft_yield(); break;
    case 1: (void)weft_sleep(below(&m->random, 300 * WEFT_US)); break;
    default: break;
    }
}

static weft_time patience(struct member *m)
{
    return below(&m->random, 2) == 0 ? WEFT_FOREVER : weft_after(below(&m->random, 500 * WEFT_US));
}

static void note_wait(struct member *m, weft_time since)
{
    weft_time waited = weft_now() - since;
    if (waited > m->world->longest_wait) {
        m->world->longest_wait = waited;
    }
}

static void check_rc(int rc)
{
    CHECK(rc == 0 || rc == -ETIMEDOUT || rc == -ECANCELED);
    CHECK(rc != -ECANCELED || weft_cancelled() == -ECANCELED);
}

static void use_mutex(struct member *m)
{
    struct world *w = m->world;
    weft_time since = weft_now();
    struct weft_sync_future f;
    int rc;
    if (below(&m->random, 3) == 0) {
        weft_mutex_lock_future(&f, &w->mutex);
        rc = (int)weft_await(&f.future, patience(m));
    } else {
        rc = weft_mutex_lock(&w->mutex, patience(m));
        CHECK(rc != -ECANCELED);
    }
    check_rc(rc);
    if (rc < 0) {
        return;
    }
    note_wait(m, since);
    CHECK_EQ(w->holders++, 0);
    dawdle(m);
    if (below(&m->random, 4) == 0) {
        w->holders--;
        check_rc(weft_cond_wait(&w->cond, &w->mutex, weft_after(below(&m->random, WEFT_MS))));
        CHECK_EQ(w->holders++, 0);
    } else if (below(&m->random, 3) == 0) {
        weft_cond_signal(&w->cond);
    }
    CHECK_EQ(w->holders--, 1);
    weft_mutex_unlock(&w->mutex);
}

static void use_rwlock_to_write(struct member *m)
{
    struct world *w = m->world;
    CHECK_EQ(w->writers++, 0);
    CHECK_EQ(w->readers, 0);
    dawdle(m);
    CHECK_EQ(w->readers, 0);
    CHECK_EQ(w->writers--, 1);
    if (below(&m->random, 2) == 0) {
        weft_rwlock_write_unlock(&w->rwlock);
        return;
    }
    w->readers++;
    weft_rwlock_downgrade(&w->rwlock);
    dawdle(m);
    w->readers--;
    weft_rwlock_read_unlock(&w->rwlock);
}

static void use_rwlock(struct member *m)
{
    struct world *w = m->world;
    weft_time since = weft_now();
    bool writes = below(&m->random, 3) == 0;
    weft_time deadline = patience(m);
    int rc = writes ? weft_rwlock_write(&w->rwlock, deadline)
                    : weft_rwlock_read(&w->rwlock, deadline);
    CHECK(rc == 0 || rc == -ETIMEDOUT);
    if (rc < 0) {
        return;
    }
    note_wait(m, since);
    if (writes) {
        use_rwlock_to_write(m);
        return;
    }
    w->readers++;
    CHECK_EQ(w->writers, 0);
    dawdle(m);
    CHECK_EQ(w->writers, 0);
    if (below(&m->random, 3) == 0) {
        rc = weft_rwlock_upgrade(&w->rwlock, patience(m));
        CHECK(rc == 0 || rc == -ETIMEDOUT || rc == -EDEADLK);
        if (rc == 0) {
            w->readers--;
            use_rwlock_to_write(m);
            return;
        }
    }
    w->readers--;
    weft_rwlock_read_unlock(&w->rwlock);
}

static void use_semaphore(struct member *m)
{
    struct world *w = m->world;
    uint64_t count = 1 + below(&m->random, PERMITS);
    weft_time since = weft_now();
    struct weft_sync_future f;
    int rc;
    if (below(&m->random, 3) == 0) {
        weft_semaphore_acquire_future(&f, &w->semaphore, count);
        rc = (int)weft_await(&f.future, patience(m));
    } else {
        rc = weft_semaphore_acquire(&w->semaphore, count, patience(m));
    }
    check_rc(rc);
    if (rc < 0) {
        return;
    }
    note_wait(m, since);
    w->out += count;
    CHECK_LE(w->out, (uint64_t)PERMITS);
    dawdle(m);
    w->out -= count;
    CHECK_EQ(weft_semaphore_release(&w->semaphore, count), 0);
}

static void use_notify(struct member *m)
{
    struct world *w = m->world;
    if (below(&m->random, 2) == 0) {
        weft_notify_one(&w->notify);
    } else {
        check_rc(weft_notify_wait(&w->notify, weft_after(below(&m->random, 500 * WEFT_US))));
    }
}

static int run_member(void *arg)
{
    struct member *m = arg;
    for (int i = 0; i < STEPS; i++) {
        switch (below(&m->random, 4)) {
        case 0: use_mutex(m); break;
        case 1: use_rwlock(m); break;
        case 2: use_semaphore(m); break;
        default: use_notify(m); break;
        }
        dawdle(m);
    }
    return 0;
}

static int run_program(void *arg)
{
    uint64_t *random = arg;
    struct world world = { .holders = 0 };
    struct member members[MEMBERS];
    weft_task *tasks[MEMBERS];
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    CHECK_OK(weft_semaphore_init(&world.semaphore, PERMITS));
    for (int i = 0; i < MEMBERS; i++) {
        members[i] = (struct member){ .world = &world, .random = test_random(random) };
        CHECK_OK(weft_spawn(&tasks[i], run_member, &members[i], &attr));
    }
    while (test_random(random) % 3 != 0) { // some are cancelled on their way
        CHECK_OK(weft_sleep(test_random(random) % WEFT_MS));
        weft_task_cancel(tasks[test_random(random) % MEMBERS]);
    }
    for (int i = 0; i < MEMBERS; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    CHECK_EQ(weft_semaphore_available(&world.semaphore), (uint64_t)PERMITS);
    CHECK_EQ(weft_mutex_fini(&world.mutex), 0);
    CHECK_EQ(weft_rwlock_fini(&world.rwlock), 0);
    CHECK_EQ(weft_semaphore_fini(&world.semaphore), 0);
    CHECK_EQ(weft_notify_fini(&world.notify), 0);
    CHECK_EQ(weft_cond_fini(&world.cond), 0);
    // Everybody holds for less than a millisecond or so, and nobody is overtaken for ever.
    CHECK_LE(world.longest_wait, (weft_time)MEMBERS * 3 * WEFT_MS);
    return 0;
}

TEST(whatever_they_do_there_is_exclusion_and_nothing_is_lost)
{
    uint64_t first = test_seed();
    for (uint64_t i = 0; i < test_scaled(400); i++) {
        uint64_t random = first + i;
        struct weft_sim_options options = { .seed = first + i, .carriers = 3 };
        struct weft_sim_result result;
        int rc = weft_sim_run(&result, run_program, &random, &options);
        if (rc < 0) {
            FAIL("seed %" PRIu64 " ends with %d", first + i, rc);
        }
    }
}
