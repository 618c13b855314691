// suite_sync.c - the rows of `sync`.
#include "suite_rows.h"

static const struct contender mutex[] = ONE("sync/mutex");
static const struct contender mutex_x4[] = ONE("sync/mutex-x4");
static const struct contender rwlock_read[] = ONE("sync/rwlock-read");
static const struct contender rwlock_write[] = ONE("sync/rwlock-write");
static const struct contender rwlock_x4[] = ONE("sync/rwlock-x4");
static const struct contender semaphore[] = ONE("sync/semaphore");
static const struct contender semaphore_x4[] = ONE("sync/semaphore-x4");
static const struct contender once_get[] = ONE("sync/once-get");
static const struct contender once_set[] = ONE("sync/once-set");
static const struct contender barrier_x4[] = ONE("sync/barrier-x4");
static const struct contender notify[] = ONE("sync/notify");
static const struct contender mutex_2[] = TWO("sync/mutex-x4");
static const struct contender rwlock_2[] = TWO("sync/rwlock-x4");
static const struct contender semaphore_2[] = TWO("sync/semaphore-x4");
static const struct contender once_get_2[] = TWO("sync/once-get-x4");
static const struct contender barrier_2[] = TWO("sync/barrier-x4");
static const struct contender notify_2[] = TWO("sync/notify");

const struct row suite_sync_rows[] = {
    ROW("sync", "sync-mutex", "lock and unlock a free mutex", mutex, 4 * MILLION, 1),
    ROW("sync", "sync-mutex-x4", "4 share a mutex and yield inside", mutex_x4, MILLION / 2, 1),
    ROW("sync", "sync-rwlock-read", "lock and unlock for reading", rwlock_read, 4 * MILLION, 1),
    ROW("sync", "sync-rwlock-write", "lock and unlock for writing", rwlock_write, 4 * MILLION, 1),
    ROW("sync", "sync-rwlock-x4", "4 read and, one time in 10, write; they yield inside", rwlock_x4,
        MILLION / 2, 1),
    ROW("sync", "sync-semaphore", "acquire and release a permit", semaphore, 4 * MILLION, 1),
    ROW("sync", "sync-semaphore-x4", "4 share 2 permits and yield with them", semaphore_x4,
        MILLION / 2, 1),
    ROW("sync", "sync-once-get", "get the value of a cell", once_get, 10 * MILLION, 1),
    ROW("sync", "sync-once-set", "make a cell and fill it", once_set, 4 * MILLION, 1),
    ROW("sync", "sync-barrier-x4", "4 meet at a barrier, per arrival", barrier_x4, MILLION / 2, 1),
    ROW("sync", "sync-notify", "notify a task that notifies back", notify, MILLION / 4, 1),
    ROW("sync", "sync-mutex-x4-2", "4 share a mutex, two CPUs", mutex_2, 4 * MILLION, 2),
    ROW("sync", "sync-rwlock-x4-2", "4 read and write, two CPUs", rwlock_2, 4 * MILLION, 2),
    ROW("sync", "sync-semaphore-x4-2", "4 share 2 permits, two CPUs", semaphore_2, 4 * MILLION, 2),
    ROW("sync", "sync-once-get-x4-2", "4 get the value, two CPUs", once_get_2, 10 * MILLION, 2),
    ROW("sync", "sync-barrier-x4-2", "4 meet at a barrier, two CPUs", barrier_2, MILLION / 20, 2),
    ROW("sync", "sync-notify-2", "notify and back, two CPUs", notify_2, MILLION / 50, 2),
    { NULL, NULL, NULL, NULL, 0, 0, 0, 0, false, NULL, 0, 0 },
};
