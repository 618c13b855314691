// What is on its way from a carrier that leaves to another one, while its descriptor is closed or
// somebody cancels it.
#include "support/fds.h"
#include "support/placed.h"

#include <sched.h>
#include <stdatomic.h>

enum { CARRIERS = 4, LEFT = 2 };

static weft_runtime *runtime;

static void start(int carriers)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    options.carriers = carriers;
    options.max_carriers = carriers;
    CHECK_OK(weft_runtime_create(&runtime, &options));
}

// A read is moved; meanwhile its descriptor is closed, and the number is another file's.

static int old_pair[2], new_pair[2];
static atomic_int held;
static atomic_bool released;

static int reads(void *arg)
{
    char byte;
    (void)arg;
    return (int)weft_read(old_pair[0], &byte, 1, WEFT_FOREVER);
}

static int awaits_a_read(void *arg)
{
    char byte;
    struct weft_io_future io;
    (void)arg;
    weft_read_future(&io, old_pair[0], &byte, 1);
    return (int)weft_await(&io.future, WEFT_FOREVER);
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

/// Keeps its carrier from taking in whoever is sent there.
static int holds(void *arg)
{
    (void)arg;
    atomic_fetch_add(&held, 1);
    while (!atomic_load(&released)) {
        sched_yield();
    }
    return 0;
}

/// On the carrier that leaves, when the read has left it.
static int closes(void *arg)
{
    (void)arg;
    int number = old_pair[0];
    for (int i = 0; i < 20; i++) {
        CHECK_OK(weft_sleep(WEFT_MS)); // it takes some steps; if too few, the close finds the read
    }
    CHECK_OK(weft_close(number));
    CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, new_pair));
    CHECK_EQ(new_pair[0], number);
    CHECK_EQ(write(new_pair[1], "s", 1), 1);
    return 0;
}

static void check_closed(weft_fn reader)
{
    weft_task *holders[LEFT];
    atomic_store(&held, 0);
    atomic_store(&released, false);
    start(CARRIERS);
    CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, old_pair));
    weft_task *task = spawn_in(runtime, CARRIERS - 1, true, NULL, reader, NULL);
    CHECK_EQ(join(spawn_in(runtime, CARRIERS - 1, false, NULL, nothing, NULL)),
             0); // so the reader waits
    for (int i = 0; i < LEFT; i++) {
        holders[i] = spawn_in(runtime, i, false, NULL, holds, NULL);
    }
    while (atomic_load(&held) < LEFT) {
        sched_yield();
    }
    CHECK_OK(weft_runtime_resize(runtime, LEFT));
    CHECK_EQ(join(spawn_in(runtime, CARRIERS - 1, false, NULL, closes, NULL)), 0);
    atomic_store(&released, true);
    CHECK_EQ(join(task), -EBADF);
    for (int i = 0; i < LEFT; i++) {
        CHECK_EQ(join(holders[i]), 0);
    }
    CHECK_OK(weft_runtime_destroy(runtime));
    CHECK_OK(close(old_pair[1]));
    CHECK_OK(close(new_pair[0]));
    CHECK_OK(close(new_pair[1]));
}

TEST_DRIVERS(a_read_that_moves_does_not_meet_the_next_file)
{
    check_closed(reads);
    check_closed(awaits_a_read);
}

// Sleeps leave their carrier, and the waker of each cancels the other one.

static struct weft_sleep sleeps[2];
static atomic_int cloned, ended;
static atomic_bool armed, over;

static void cancel_other(const weft_waker *waker)
{
    weft_sleep_cancel(&sleeps[waker->data == &sleeps[0] ? 1 : 0]);
}

static void clone_waker(weft_waker *copy, const weft_waker *waker)
{
    *copy = *waker;
    atomic_fetch_add(&cloned, 1);
}

static void wake(weft_waker *waker)
{
    atomic_fetch_add(&ended, 1);
    cancel_other(waker);
}

static void drop(weft_waker *waker)
{
    (void)waker;
    atomic_fetch_add(&ended, 1);
}

static const struct weft_waker_vtable vtable = {
    .clone = clone_waker,
    .wake = wake,
    .wake_by_ref = cancel_other,
    .drop = drop,
};

static int sleeps_twice(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++) {
        weft_waker waker = { &vtable, &sleeps[i] };
        weft_sleep_init(&sleeps[i], weft_after(3600 * WEFT_S));
        CHECK_EQ(weft_sleep_poll(&sleeps[i], &waker), WEFT_PENDING);
    }
    atomic_store(&armed, true);
    while (!atomic_load(&over)) {
        CHECK_OK(weft_yield());
    }
    return 0;
}

TEST_DRIVERS(a_sleep_that_moves_wakes_once)
{
    start(2);
    weft_task *task = spawn_in(runtime, 1, false, NULL, sleeps_twice, NULL);
    while (!atomic_load(&armed)) {
        sched_yield();
    }
    CHECK_OK(weft_runtime_resize(runtime, 1));
    while (atomic_load(&ended) < atomic_load(&cloned)) {
        sched_yield();
    }
    CHECK_EQ(join(spawn_in(runtime, 1, false, NULL, nothing, NULL)),
             0); // so it has taken leave of all
    atomic_store(&over, true);
    CHECK_EQ(join(task), 0);
    CHECK_OK(weft_runtime_destroy(runtime));
    CHECK_EQ(atomic_load(&ended), atomic_load(&cloned));
}
