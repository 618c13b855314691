// rwlock_model.c - readers, writers, upgrade and downgrade (sync/rwlock.c, R1 to R3).
//
// What the lock protects is plain: readers only read it, writers change it. The lock lies in a block
// that the last user frees after fini. Whoever is forgotten sleeps for ever.
//
// Sources: sync/rwlock.c sync/waiter.c task/wait.c task/run.c
// Headers: sync/queue.h base/lock.h
// With: stage.c stage_actor.c stage_lock.c stage_sync.c
// Flags: -DWEFT_TINY=1
#include <errno.h>

#include <weft/rwlock.h>

#include "mc.h"
#include "stage_sync.h"

static struct weft_rwlock rwlock;
static int page[2];         // plain: for writers, always the same
static int writes;          // for writers
static int expected;        // writes at the end
static _Atomic int gave_up; // those that did not write

static void read_page(void)
{
    mc_assert(page[0] == page[1]);
}

static void write_page(void)
{
    page[0]++;
    page[1]++;
    writes++;
}

static void reads(void *unused)
{
    (void)unused;
    mc_assert(weft_rwlock_read(&rwlock, WEFT_FOREVER) == 0);
    read_page();
    weft_rwlock_read_unlock(&rwlock);
}

static void writes_once(void *unused)
{
    (void)unused;
    mc_assert(weft_rwlock_write(&rwlock, WEFT_FOREVER) == 0);
    write_page();
    weft_rwlock_write_unlock(&rwlock);
}

static void writes_and_reads(void *unused)
{
    (void)unused;
    mc_assert(weft_rwlock_write(&rwlock, WEFT_FOREVER) == 0);
    write_page();
    weft_rwlock_downgrade(&rwlock);
    read_page();
    weft_rwlock_read_unlock(&rwlock);
}

// Two of them: one may be told that it would wait for the other.
static void upgrades(void *unused)
{
    (void)unused;
    mc_assert(weft_rwlock_read(&rwlock, WEFT_FOREVER) == 0);
    read_page();
    int rc = weft_rwlock_upgrade(&rwlock, WEFT_FOREVER);
    mc_assert(rc == 0 || rc == -EDEADLK);
    if (rc == 0) {
        write_page();
        weft_rwlock_write_unlock(&rwlock);
        return;
    }
    read_page();
    atomic_fetch_add_explicit(&gave_up, 1, memory_order_relaxed);
    weft_rwlock_read_unlock(&rwlock);
}

static void tries_to_upgrade(void *unused)
{
    (void)unused;
    mc_assert(weft_rwlock_read(&rwlock, WEFT_FOREVER) == 0);
    int rc = weft_rwlock_try_upgrade(&rwlock);
    mc_assert(rc == 0 || rc == -EAGAIN);
    if (rc == 0) {
        write_page();
        weft_rwlock_write_unlock(&rwlock);
        return;
    }
    read_page();
    atomic_fetch_add_explicit(&gave_up, 1, memory_order_relaxed);
    weft_rwlock_read_unlock(&rwlock);
}

static void writes_or_is_late(void *unused)
{
    (void)unused;
    int rc = weft_rwlock_write(&rwlock, 10);
    mc_assert(rc == 0 || rc == -ETIMEDOUT);
    if (rc == 0) {
        write_page();
        weft_rwlock_write_unlock(&rwlock);
    } else {
        atomic_fetch_add_explicit(&gave_up, 1, memory_order_relaxed);
    }
}

// Comes too late to wait, but not to write: the readers' unlock may find that nobody waits any more.
static void is_late_and_writes(void *unused)
{
    (void)unused;
    int rc = weft_rwlock_write(&rwlock, 10);
    while (rc != 0) {
        rc = weft_rwlock_try_write(&rwlock);
        if (rc != 0) {
            mc_relax();
        }
    }
    write_page();
    weft_rwlock_write_unlock(&rwlock);
}

// Ended by who was not the last to unlock.

static struct weft_rwlock *block;

static void unlock_block(void *unused)
{
    (void)unused;
    weft_rwlock_write_unlock(block);
}

static void end_when_free(void *unused)
{
    (void)unused;
    while (weft_rwlock_fini(block) != 0) {
        mc_relax();
    }
    mc_free(block);
}

static void reset(int all)
{
    stage_sync_init();
    weft_rwlock_init(&rwlock);
    page[0] = page[1] = writes = 0;
    expected = all;
    atomic_init(&gave_up, 0);
    mc_name(&rwlock, sizeof rwlock, "rwlock");
}

static void reader_and_writer(void)
{
    reset(1);
    stage_sync_thread(reads, NULL);
    mc_thread(writes_once, NULL);
}

static void two_writers(void)
{
    reset(2);
    stage_sync_thread(writes_once, NULL);
    stage_sync_thread(writes_once, NULL);
}

static void two_readers_and_writer(void)
{
    reset(1);
    stage_sync_thread(reads, NULL);
    mc_thread(reads, NULL);
    stage_sync_thread(writes_once, NULL);
}

static void downgrade(void)
{
    reset(2);
    stage_sync_thread(writes_and_reads, NULL);
    stage_sync_thread(writes_and_reads, NULL);
}

static void two_upgraders(void)
{
    reset(2);
    stage_sync_thread(upgrades, NULL);
    stage_sync_thread(upgrades, NULL);
}

static void upgrade_and_writer(void)
{
    reset(2);
    stage_sync_thread(tries_to_upgrade, NULL);
    stage_sync_thread(writes_once, NULL);
}

static void upgrade_reader_writer(void)
{
    reset(2);
    stage_sync_thread(upgrades, NULL);
    mc_thread(reads, NULL);
    stage_sync_thread(writes_once, NULL);
}

static void late_writer(void)
{
    reset(1);
    stage_sync_thread(writes_or_is_late, NULL);
    stage_sync_thread(reads, NULL);
    mc_thread(reads, NULL);
}

static void late_writer_writes(void)
{
    reset(1);
    stage_sync_thread(is_late_and_writes, NULL);
    stage_sync_thread(reads, NULL);
}

static void ended_by_another(void)
{
    reset(0);
    block = mc_alloc(sizeof *block);
    mc_assert(weft_rwlock_try_write(block) == 0);
    mc_thread(unlock_block, NULL);
    mc_thread(end_when_free, NULL);
}

static void check(void)
{
    mc_assert(writes + atomic_load(&gave_up) == expected);
    mc_assert(page[0] == writes && page[1] == writes);
    mc_assert(weft_rwlock_fini(&rwlock) == 0);
}

const struct mc_model mc_models[] = {
    { .name = "rwlock_reader_and_writer", .setup = reader_and_writer, .check = check },
    { .name = "rwlock_two_writers", .setup = two_writers, .check = check },
    { .name = "rwlock_two_readers",
      .setup = two_readers_and_writer,
      .check = check,
      .max_bound = 1 },
    { .name = "rwlock_downgrade", .setup = downgrade, .check = check },
    { .name = "rwlock_two_upgraders", .setup = two_upgraders, .check = check },
    { .name = "rwlock_upgrade_and_writer", .setup = upgrade_and_writer, .check = check },
    { .name = "rwlock_upgrade_reader_writer",
      .setup = upgrade_reader_writer,
      .check = check,
      .max_bound = 1 },
    { .name = "rwlock_late_writer", .setup = late_writer, .check = check, .max_bound = 1 },
    { .name = "rwlock_late_writer_writes", .setup = late_writer_writes, .check = check },
    { .name = "rwlock_ended_by_another", .setup = ended_by_another, .check = check },
    { .name = NULL },
};
