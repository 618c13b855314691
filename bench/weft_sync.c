// weft_sync.c - weft's side of the rows of `sync`.
//
// Four tasks that share something give way inside of it on one CPU, or they would never meet there; on
// two CPUs they do not.
#include <errno.h>

#include "weft_chan.h"

enum { TASKS = 4, BATCH = 1000, READS_PER_WRITE = 10 };

static struct weft_mutex mutex;
static struct weft_rwlock rwlock;
static struct weft_semaphore semaphore;
static struct weft_barrier barrier;
static struct weft_notify there, back;
static struct weft_once_cell cell;
static uint64_t per_task;
static uint64_t shared; // what they share
static bool gives_way;

static int pass(void)
{
    return gives_way ? weft_yield() : 0;
}

// One task, nobody in its way.

static int play_mutex(uint64_t count)
{
    int rc = 0;
    weft_mutex_init(&mutex);
    chan_begin();
    for (uint64_t i = 0; i < count; i++) {
        rc |= weft_mutex_lock(&mutex, WEFT_FOREVER);
        shared++;
        weft_mutex_unlock(&mutex);
    }
    chan_end(count);
    return rc;
}

static int play_rwlock_read(uint64_t count)
{
    int rc = 0;
    weft_rwlock_init(&rwlock);
    chan_begin();
    for (uint64_t i = 0; i < count; i++) {
        rc |= weft_rwlock_read(&rwlock, WEFT_FOREVER);
        weft_rwlock_read_unlock(&rwlock);
    }
    chan_end(count);
    return rc;
}

static int play_rwlock_write(uint64_t count)
{
    int rc = 0;
    weft_rwlock_init(&rwlock);
    chan_begin();
    for (uint64_t i = 0; i < count; i++) {
        rc |= weft_rwlock_write(&rwlock, WEFT_FOREVER);
        shared++;
        weft_rwlock_write_unlock(&rwlock);
    }
    chan_end(count);
    return rc;
}

static int play_semaphore(uint64_t count)
{
    int rc = weft_semaphore_init(&semaphore, 2);
    chan_begin();
    for (uint64_t i = 0; i < count; i++) {
        rc |= weft_semaphore_acquire(&semaphore, 1, WEFT_FOREVER);
        rc |= weft_semaphore_release(&semaphore, 1);
    }
    chan_end(count);
    return rc;
}

static int play_once_get(uint64_t count)
{
    weft_once_cell_init(&cell);
    int rc = weft_once_cell_set(&cell, &shared);
    uint64_t sum = 0;
    chan_begin();
    for (uint64_t i = 0; i < count; i++) {
        void *value;
        sum += weft_once_cell_get(&value, &cell) ? *(uint64_t *)value : 0;
    }
    chan_end(count);
    return rc < 0 ? rc : sum == count * shared ? 0 : -EIO;
}

static int play_once_set(uint64_t count)
{
    static struct weft_once_cell cells[BATCH];
    int rc = 0;
    chan_begin();
    for (uint64_t done = 0; done < count; done += BATCH) {
        double t = chan_clock();
        for (int i = 0; i < BATCH; i++) {
            weft_once_cell_init(&cells[i]);
            rc |= weft_once_cell_set(&cells[i], &shared);
        }
        chan_add(t);
    }
    chan_end((count + BATCH - 1) / BATCH * BATCH);
    return rc;
}

// Four tasks.

static int four(weft_fn fn, uint64_t count)
{
    weft_task *tasks[TASKS] = { NULL };
    int rc = 0;
    per_task = count / TASKS;
    gives_way = weft_carrier_count() == 1;
    chan_begin();
    for (int i = 0; i < TASKS && rc == 0; i++) {
        rc = i % 2 == 0 ? chan_spawn_here(&tasks[i], fn, NULL) : chan_spawn(&tasks[i], fn, NULL);
    }
    int joined = chan_join(tasks, TASKS);
    chan_end(per_task * TASKS);
    return rc < 0 ? rc : joined;
}

static int lock_mutex(void *arg)
{
    int rc = 0;
    (void)arg;
    for (uint64_t i = 0; i < per_task && rc == 0; i++) {
        rc |= weft_mutex_lock(&mutex, WEFT_FOREVER);
        shared++;
        rc |= pass();
        weft_mutex_unlock(&mutex);
    }
    return rc;
}

static int play_mutex_x4(uint64_t count)
{
    weft_mutex_init(&mutex);
    return four(lock_mutex, count);
}

static int read_and_write(void *arg)
{
    int rc = 0;
    (void)arg;
    for (uint64_t i = 0; i < per_task && rc == 0; i++) {
        if (i % READS_PER_WRITE == 0) {
            rc |= weft_rwlock_write(&rwlock, WEFT_FOREVER);
            shared++;
            rc |= pass();
            weft_rwlock_write_unlock(&rwlock);
        } else {
            rc |= weft_rwlock_read(&rwlock, WEFT_FOREVER);
            rc |= pass();
            weft_rwlock_read_unlock(&rwlock);
        }
    }
    return rc;
}

static int play_rwlock_x4(uint64_t count)
{
    weft_rwlock_init(&rwlock);
    return four(read_and_write, count);
}

static int take_permit(void *arg)
{
    int rc = 0;
    (void)arg;
    for (uint64_t i = 0; i < per_task && rc == 0; i++) {
        rc |= weft_semaphore_acquire(&semaphore, 1, WEFT_FOREVER);
        rc |= pass();
        rc |= weft_semaphore_release(&semaphore, 1);
    }
    return rc;
}

static int play_semaphore_x4(uint64_t count)
{
    int rc = weft_semaphore_init(&semaphore, 2);
    return rc < 0 ? rc : four(take_permit, count);
}

static int get_value(void *arg)
{
    uint64_t sum = 0;
    (void)arg;
    for (uint64_t i = 0; i < per_task; i++) {
        void *value;
        sum += weft_once_cell_get(&value, &cell) ? *(uint64_t *)value : 0;
    }
    return sum == per_task * shared ? 0 : -EIO;
}

static int play_once_get_x4(uint64_t count)
{
    weft_once_cell_init(&cell);
    int rc = weft_once_cell_set(&cell, &shared);
    return rc < 0 ? rc : four(get_value, count);
}

static int meet(void *arg)
{
    int rc = 0;
    (void)arg;
    for (uint64_t i = 0; i < per_task && rc >= 0; i++) {
        rc = weft_barrier_wait(&barrier, WEFT_FOREVER);
    }
    return rc < 0 ? rc : 0;
}

static int play_barrier_x4(uint64_t count)
{
    int rc = weft_barrier_init(&barrier, TASKS);
    return rc < 0 ? rc : four(meet, count);
}

// Two tasks.

static int notify_back(void *arg)
{
    int rc = 0;
    (void)arg;
    for (uint64_t i = 0; i < per_task && rc == 0; i++) {
        rc = weft_notify_wait(&there, WEFT_FOREVER);
        weft_notify_one(&back);
    }
    return rc;
}

static int play_notify(uint64_t count)
{
    weft_task *task;
    weft_notify_init(&there);
    weft_notify_init(&back);
    per_task = count;
    int rc = chan_spawn(&task, notify_back, NULL);
    if (rc < 0) {
        return rc;
    }
    chan_begin();
    for (uint64_t i = 0; i < count; i++) {
        weft_notify_one(&there);
        rc |= weft_notify_wait(&back, WEFT_FOREVER);
    }
    chan_end(count);
    int joined = chan_join(&task, 1);
    return rc < 0 ? rc : joined;
}

const struct chan_workload sync_workloads[] = {
    { "mutex", play_mutex },
    { "mutex-x4", play_mutex_x4 },
    { "rwlock-read", play_rwlock_read },
    { "rwlock-write", play_rwlock_write },
    { "rwlock-x4", play_rwlock_x4 },
    { "semaphore", play_semaphore },
    { "semaphore-x4", play_semaphore_x4 },
    { "once-get", play_once_get },
    { "once-get-x4", play_once_get_x4 },
    { "once-set", play_once_set },
    { "barrier-x4", play_barrier_x4 },
    { "notify", play_notify },
    { NULL, NULL },
};
