// rwlock_test.c - reader-writer lock. What it shares with others is in sync_test.c.
#include "support/test.h"

#include "support/waiting.h"

#include <errno.h>
#include <stdatomic.h>
#include <weft.h>

TEST(many_read_or_one_writes)
{
    struct weft_rwlock rw = WEFT_RWLOCK_INIT;
    CHECK_EQ(weft_rwlock_try_read(&rw), 0);
    CHECK_EQ(weft_rwlock_read(&rw, 0), 0);
    CHECK_EQ(weft_rwlock_try_write(&rw), -EAGAIN);
    CHECK_EQ(weft_rwlock_write(&rw, 1), -ETIMEDOUT);
    CHECK_EQ(weft_rwlock_fini(&rw), -EBUSY);
    weft_rwlock_read_unlock(&rw);
    weft_rwlock_read_unlock(&rw);
    CHECK_EQ(weft_rwlock_write(&rw, 0), 0);
    CHECK_EQ(weft_rwlock_try_read(&rw), -EAGAIN);
    CHECK_EQ(weft_rwlock_try_write(&rw), -EAGAIN);
    weft_rwlock_write_unlock(&rw);
    CHECK_EQ(weft_rwlock_fini(&rw), 0);
}

enum op { READ, WRITE, UPGRADE };

struct user {
    struct weft_rwlock *rw;
    enum op op;
    weft_time deadline;
    _Atomic int rc; // 1: not yet
};

static int use(void *arg)
{
    struct user *u = arg;
    int rc = u->op == READ    ? weft_rwlock_read(u->rw, u->deadline)
             : u->op == WRITE ? weft_rwlock_write(u->rw, u->deadline)
                              : weft_rwlock_upgrade(u->rw, u->deadline);
    atomic_store(&u->rc, rc);
    return 0;
}

static weft_task *spawn_user(struct user *u, struct weft_rwlock *rw, enum op op)
{
    weft_task *task;
    *u = (struct user){ .rw = rw, .op = op, .deadline = WEFT_FOREVER, .rc = 1 };
    CHECK_OK(weft_spawn(&task, use, u, NULL));
    let_others_run();
    return task;
}

static void join(weft_task *task)
{
    CHECK_OK(weft_join(NULL, task, WEFT_FOREVER));
}

TEST_EVERYWHERE(readers_wait_behind_a_writer_that_waits)
{
    struct weft_rwlock rw = WEFT_RWLOCK_INIT;
    struct user writer;
    struct user readers[2];
    weft_task *tasks[3];
    CHECK_EQ(weft_rwlock_try_read(&rw), 0);
    tasks[0] = spawn_user(&writer, &rw, WRITE);
    CHECK_EQ(weft_rwlock_try_read(&rw), -EAGAIN);
    tasks[1] = spawn_user(&readers[0], &rw, READ);
    tasks[2] = spawn_user(&readers[1], &rw, READ);
    CHECK_EQ(atomic_load(&readers[0].rc), 1);
    weft_rwlock_read_unlock(&rw);
    let_others_run();
    CHECK_EQ(atomic_load(&writer.rc), 0);
    CHECK_EQ(atomic_load(&readers[0].rc), 1);
    weft_rwlock_write_unlock(&rw);
    for (int i = 0; i < 3; i++) {
        join(tasks[i]);
    }
    CHECK_EQ(atomic_load(&readers[0].rc), 0);
    CHECK_EQ(atomic_load(&readers[1].rc), 0);
    weft_rwlock_read_unlock(&rw);
    weft_rwlock_read_unlock(&rw);
    CHECK_EQ(weft_rwlock_fini(&rw), 0);
}

/// A writer that gives up lets the readers in that waited behind it.
TEST_EVERYWHERE(a_late_writer_lets_readers_in)
{
    struct weft_rwlock rw = WEFT_RWLOCK_INIT;
    struct weft_sync_future writer;
    struct user reader;
    CHECK_EQ(weft_rwlock_try_read(&rw), 0);
    weft_rwlock_write_future(&writer, &rw);
    CHECK_EQ(poll_once(&writer.future), WEFT_PENDING);
    weft_task *task = spawn_user(&reader, &rw, READ);
    CHECK_EQ(atomic_load(&reader.rc), 1);
    CHECK_EQ(weft_await(&writer.future, weft_after(WEFT_MS)), -ETIMEDOUT);
    join(task);
    CHECK_EQ(atomic_load(&reader.rc), 0);
    weft_rwlock_read_unlock(&rw);
    weft_rwlock_read_unlock(&rw);
    CHECK_EQ(weft_rwlock_fini(&rw), 0);
}

TEST_EVERYWHERE(an_upgrade_waits_for_the_other_readers_and_nobody_writes_before)
{
    struct weft_rwlock rw = WEFT_RWLOCK_INIT;
    struct user writer;
    struct user upgrader;
    CHECK_EQ(weft_rwlock_try_read(&rw), 0);
    CHECK_EQ(weft_rwlock_try_upgrade(&rw), 0); // alone
    CHECK_EQ(weft_rwlock_try_read(&rw), -EAGAIN);
    weft_rwlock_downgrade(&rw);
    CHECK_EQ(weft_rwlock_try_read(&rw), 0);
    CHECK_EQ(weft_rwlock_try_upgrade(&rw), -EAGAIN); // not alone
    weft_task *tasks[2];
    tasks[0] = spawn_user(&writer, &rw, WRITE);
    tasks[1] = spawn_user(&upgrader, &rw, UPGRADE);
    CHECK_EQ(atomic_load(&upgrader.rc), 1);
    CHECK_EQ(weft_rwlock_upgrade(&rw, WEFT_FOREVER), -EDEADLK); // two cannot both go first
    weft_rwlock_read_unlock(&rw);
    let_others_run();
    CHECK_EQ(atomic_load(&upgrader.rc), 0); // ahead of the writer
    CHECK_EQ(atomic_load(&writer.rc), 1);
    weft_rwlock_write_unlock(&rw);
    join(tasks[0]);
    join(tasks[1]);
    CHECK_EQ(atomic_load(&writer.rc), 0);
    weft_rwlock_write_unlock(&rw);
    CHECK_EQ(weft_rwlock_fini(&rw), 0);
}

/// With a writer in the queue the only reader upgrades at once.
TEST_EVERYWHERE(the_only_reader_upgrades_ahead_of_the_queue)
{
    struct weft_rwlock rw = WEFT_RWLOCK_INIT;
    struct user writer;
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_rwlock_try_read(&rw), 0);
        weft_task *task = spawn_user(&writer, &rw, WRITE);
        int rc = i == 0 ? weft_rwlock_try_upgrade(&rw) : weft_rwlock_upgrade(&rw, WEFT_FOREVER);
        CHECK_EQ(rc, 0);
        CHECK_EQ(atomic_load(&writer.rc), 1);
        weft_rwlock_write_unlock(&rw);
        join(task);
        weft_rwlock_write_unlock(&rw);
    }
    CHECK_EQ(weft_rwlock_fini(&rw), 0);
}

TEST_EVERYWHERE(an_upgrade_that_gives_up_still_reads)
{
    struct weft_rwlock rw = WEFT_RWLOCK_INIT;
    struct user reader;
    struct weft_sync_future f;
    CHECK_EQ(weft_rwlock_try_read(&rw), 0);
    CHECK_EQ(weft_rwlock_try_read(&rw), 0);
    CHECK_EQ(weft_rwlock_upgrade(&rw, weft_after(WEFT_MS)), -ETIMEDOUT);
    CHECK_EQ(weft_rwlock_try_read(&rw), 0); // readers come in again
    weft_rwlock_read_unlock(&rw);
    weft_rwlock_upgrade_future(&f, &rw);
    CHECK_EQ(poll_once(&f.future), WEFT_PENDING);
    weft_task *task = spawn_user(&reader, &rw, READ);
    CHECK_EQ(atomic_load(&reader.rc), 1);
    f.future.cancel(&f.future);
    CHECK_EQ(poll_once(&f.future), WEFT_READY);
    CHECK_EQ(f.future.result, -ECANCELED);
    join(task);
    CHECK_EQ(atomic_load(&reader.rc), 0);
    weft_rwlock_read_unlock(&rw);
    // Chosen, then cancelled: it reads again.
    weft_rwlock_upgrade_future(&f, &rw);
    CHECK_EQ(poll_once(&f.future), WEFT_PENDING);
    weft_rwlock_read_unlock(&rw);
    f.future.cancel(&f.future);
    CHECK_EQ(poll_to_the_end(&f.future), -ECANCELED);
    CHECK_EQ(weft_rwlock_try_read(&rw), 0);
    weft_rwlock_read_unlock(&rw);
    weft_rwlock_read_unlock(&rw);
    CHECK_EQ(weft_rwlock_fini(&rw), 0);
}

TEST_EVERYWHERE(a_downgrade_lets_the_first_readers_in)
{
    struct weft_rwlock rw = WEFT_RWLOCK_INIT;
    struct user readers[2];
    struct user writer;
    weft_task *tasks[3];
    CHECK_EQ(weft_rwlock_try_write(&rw), 0);
    tasks[0] = spawn_user(&readers[0], &rw, READ);
    tasks[1] = spawn_user(&writer, &rw, WRITE);
    tasks[2] = spawn_user(&readers[1], &rw, READ);
    weft_rwlock_downgrade(&rw);
    let_others_run();
    CHECK_EQ(atomic_load(&readers[0].rc), 0);
    CHECK_EQ(atomic_load(&writer.rc), 1);
    CHECK_EQ(atomic_load(&readers[1].rc), 1); // behind the writer
    weft_rwlock_read_unlock(&rw);
    weft_rwlock_read_unlock(&rw);
    let_others_run();
    CHECK_EQ(atomic_load(&writer.rc), 0);
    weft_rwlock_write_unlock(&rw);
    for (int i = 0; i < 3; i++) {
        join(tasks[i]);
    }
    weft_rwlock_read_unlock(&rw);
    CHECK_EQ(weft_rwlock_fini(&rw), 0);
}

// Everybody reads, writes, upgrades and downgrades what two plain variables hold.

struct page {
    struct weft_rwlock rw;
    int a; // for writers
    int b; // always the same as a
    _Atomic int writers;
};

struct member {
    struct page *page;
    uint64_t random;
    int times;
    int wrote;
};

static void write_page(struct member *m)
{
    struct page *page = m->page;
    CHECK_EQ(atomic_fetch_add(&page->writers, 1), 0);
    page->a++;
    if (weft_self() != NULL && test_random(&m->random) % 4 == 0) {
        (void)weft_yield();
    }
    page->b++;
    CHECK_EQ(page->a, page->b);
    m->wrote++;
    CHECK_EQ(atomic_fetch_sub(&page->writers, 1), 1);
}

static void read_page(struct member *m)
{
    struct page *page = m->page;
    CHECK_EQ(atomic_load(&page->writers), 0);
    CHECK_EQ(page->a, page->b);
}

static weft_time some_deadline(struct member *m)
{
    weft_time wait = test_random(&m->random) % (200 * WEFT_US);
    return test_random(&m->random) % 2 ? WEFT_FOREVER : weft_after(wait);
}

static void act_as_reader(struct member *m)
{
    struct weft_rwlock *rw = &m->page->rw;
    if (weft_rwlock_read(rw, some_deadline(m)) != 0) {
        return;
    }
    read_page(m);
    if (test_random(&m->random) % 3 == 0) {
        int rc = weft_rwlock_upgrade(rw, some_deadline(m));
        CHECK(rc == 0 || rc == -EDEADLK || rc == -ETIMEDOUT);
        if (rc == 0) {
            write_page(m);
            weft_rwlock_write_unlock(rw);
            return;
        }
    }
    read_page(m);
    weft_rwlock_read_unlock(rw);
}

static int be_member(void *arg)
{
    struct member *m = arg;
    for (int i = 0; i < m->times; i++) {
        if (test_random(&m->random) % 3 != 0) {
            act_as_reader(m);
        } else if (weft_rwlock_write(&m->page->rw, some_deadline(m)) == 0) {
            write_page(m);
            if (test_random(&m->random) % 2 == 0) {
                weft_rwlock_downgrade(&m->page->rw);
                read_page(m);
                weft_rwlock_read_unlock(&m->page->rw);
            } else {
                weft_rwlock_write_unlock(&m->page->rw);
            }
        }
    }
    return 0;
}

static void *be_foreign_member(void *arg)
{
    be_member(arg);
    return NULL;
}

TEST_EVERYWHERE(readers_see_no_half_written_page)
{
    enum { MEMBERS = 12, MOST_THREADS = 2 };
    static struct page page;
    struct member members[MEMBERS + MOST_THREADS];
    weft_task *tasks[MEMBERS];
    pthread_t foreign[MOST_THREADS];
    int threads = test_driver() == TEST_DRIVER_SIM ? 0 : MOST_THREADS;
    uint64_t random = test_seed();
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    for (int i = 0; i < MEMBERS + threads; i++) {
        uint64_t seed = test_random(&random);
        int times = (int)test_scaled(200);
        members[i] = (struct member){ .page = &page, .random = seed, .times = times };
    }
    for (int i = 0; i < MEMBERS; i++) {
        CHECK_OK(weft_spawn(&tasks[i], be_member, &members[i], &attr));
    }
    for (int i = 0; i < threads; i++) {
        foreign[i] = foreign_begin(be_foreign_member, &members[MEMBERS + i]);
    }
    for (int i = 0; i < MEMBERS; i++) {
        join(tasks[i]);
    }
    int wrote = 0;
    for (int i = 0; i < threads; i++) {
        foreign_end(foreign[i]);
    }
    for (int i = 0; i < MEMBERS + threads; i++) {
        wrote += members[i].wrote;
    }
    CHECK_EQ(page.a, wrote);
    CHECK_EQ(weft_rwlock_fini(&page.rw), 0);
}
