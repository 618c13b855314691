// oneshot_model.c - one value, and who gives up first (chan/oneshot.c, O1 to O6).
//
// The oneshot and its storage are the receiver's and freed as soon as it knows that the sender is
// done with them: because it has the value, or because the sender has said so.
//
// Sources: chan/oneshot.c sync/waiter.c task/wait.c task/run.c
// Headers: sync/queue.h base/lock.h
// With: stage.c stage_actor.c stage_lock.c stage_sync.c
// Flags: -DWEFT_TINY=1
#include <errno.h>

#include <weft/oneshot.h>

#include "mc.h"
#include "stage_sync.h"

struct question {
    struct weft_oneshot oneshot;
    uint64_t storage;
};

static struct question *question;
static struct stage_wakeup wakeup;
static int written;        // plain: what the value stands for
static int sent, received; // what the calls have returned
static _Atomic int users;
static _Atomic int got; // how many have the value

static __attribute__((noinline)) void end(void)
{
    mc_assert(weft_oneshot_fini(&question->oneshot) == 0);
    mc_free(question);
}

static void leave(void)
{
    if (atomic_fetch_sub_explicit(&users, 1, memory_order_acq_rel) == 1) {
        end();
    }
}

static __attribute__((noinline)) int send_value(void)
{
    uint64_t value = 7;
    written = 1;
    return weft_oneshot_send(&question->oneshot, &value);
}

static __attribute__((noinline)) int receive_value(weft_time deadline)
{
    uint64_t value = 0;
    int rc = weft_oneshot_recv(&value, &question->oneshot, deadline);
    mc_assert((rc == 0) == (value == 7));
    if (rc == 0) {
        mc_assert(written == 1);
    }
    return rc;
}

static void send_once(void *unused)
{
    (void)unused;
    mc_assert(send_value() == 0);
}

// Who has the value knows that the sender is done (O4).
static void receive_and_free(void *unused)
{
    (void)unused;
    mc_assert(receive_value(WEFT_FOREVER) == 0);
    end();
}

static void await_and_free(void *unused)
{
    (void)unused;
    struct weft_sync_future f;
    uint64_t value = 0;
    weft_waker waker = stage_sync_waker(&wakeup);
    weft_oneshot_recv_future(&f, &value, &question->oneshot);
    while (f.future.poll(&f.future, &waker) == WEFT_PENDING) {
        stage_sync_sleep(&wakeup);
    }
    mc_assert(f.future.result == 0 && value == 7 && written == 1);
    end();
}

static void send_against_close(void *unused)
{
    (void)unused;
    sent = send_value();
    mc_assert(sent == 0 || sent == -EPIPE);
    leave();
}

static void receive_or_close(void *unused)
{
    (void)unused;
    received = receive_value(10);
    if (received == -ETIMEDOUT) {
        weft_oneshot_close(&question->oneshot);
        received = receive_value(WEFT_FOREVER); // sent before the close, or never
    }
    mc_assert(received == 0 || received == -EPIPE);
    leave();
}

// Who learns that the other side has given up knows that it is through, too.
static void give_up_sending(void *unused)
{
    (void)unused;
    written = 1;
    weft_oneshot_close(&question->oneshot);
}

// The same while somebody waits, so that the close is under the lock (O3).
static void give_up_watching(void *unused)
{
    (void)unused;
    struct weft_sync_future f;
    weft_waker waker = stage_sync_waker(&wakeup);
    weft_oneshot_wait_closed_future(&f, &question->oneshot);
    mc_assert(f.future.poll(&f.future, &waker) == WEFT_PENDING);
    written = 1;
    weft_oneshot_close(&question->oneshot);
    while (f.future.poll(&f.future, &waker) == WEFT_PENDING) {
        stage_sync_sleep(&wakeup);
    }
}

static void receive_nothing(void *unused)
{
    (void)unused;
    mc_assert(receive_value(WEFT_FOREVER) == -EPIPE);
    mc_assert(written == 1);
    end();
}

static void receive_or_give_up(void *unused)
{
    (void)unused;
    received = receive_value(10);
    if (received == -ETIMEDOUT) {
        weft_oneshot_close(&question->oneshot);
    }
}

static void send_and_free(void *unused)
{
    (void)unused;
    sent = send_value();
    if (sent == 0) {
        mc_assert(weft_oneshot_wait_closed(&question->oneshot, WEFT_FOREVER) == 0);
    } else {
        mc_assert(sent == -EPIPE);
    }
    end();
}

// Somebody else watches, and sets the word after the sender has.
static void watch(void *unused)
{
    (void)unused;
    mc_assert(weft_oneshot_wait_closed(&question->oneshot, WEFT_FOREVER) == 0);
    leave();
}

static void send_and_leave(void *unused)
{
    (void)unused;
    mc_assert(send_value() == 0);
    leave();
}

static void wait_until_received(void *unused)
{
    (void)unused;
    mc_assert(send_value() == 0);
    mc_assert(weft_oneshot_wait_closed(&question->oneshot, WEFT_FOREVER) == 0);
    leave();
}

static void receive_one(void *unused)
{
    (void)unused;
    mc_assert(receive_value(WEFT_FOREVER) == 0);
    leave();
}

static void reset(int count)
{
    stage_sync_init();
    question = mc_alloc(sizeof *question);
    weft_oneshot_init(&question->oneshot, &question->storage, sizeof question->storage);
    atomic_init(&wakeup.woken, 0);
    atomic_init(&users, count);
    atomic_init(&got, 0);
    written = sent = received = 0;
    mc_name(question, sizeof *question, "oneshot");
}

static void plain(void)
{
    reset(2);
    stage_sync_thread(send_once, NULL);
    stage_sync_thread(receive_and_free, NULL);
}

static void foreign(void)
{
    reset(2);
    stage_sync_thread(send_once, NULL);
    mc_thread(receive_and_free, NULL);
}

static void future(void)
{
    reset(2);
    stage_sync_thread(send_once, NULL);
    mc_thread(await_and_free, NULL);
}

static void late(void)
{
    reset(2);
    stage_sync_thread(send_against_close, NULL);
    stage_sync_thread(receive_or_close, NULL);
}

static void given_up(void)
{
    reset(2);
    stage_sync_thread(give_up_sending, NULL);
    stage_sync_thread(receive_nothing, NULL);
}

static void given_up_queued(void)
{
    reset(2);
    mc_thread(give_up_watching, NULL);
    stage_sync_thread(receive_nothing, NULL);
}

static void receiver_gives_up(void)
{
    reset(2);
    stage_sync_thread(receive_or_give_up, NULL);
    stage_sync_thread(send_and_free, NULL);
}

// The same by way of the queue.
static void foreign_gives_up(void)
{
    reset(2);
    mc_thread(receive_or_give_up, NULL);
    stage_sync_thread(send_and_free, NULL);
}

static void third_party(void)
{
    reset(3);
    stage_sync_thread(send_and_leave, NULL);
    mc_thread(watch, NULL);
    stage_sync_thread(receive_one, NULL);
}

// One that waited alone may be late while another one comes to wait (O6); one of them gets the value,
// or nobody.
static void receive_and_leave(void *deadline)
{
    uint64_t value = 0;
    int rc = weft_oneshot_recv(&value, &question->oneshot, (weft_time)(uintptr_t)deadline);
    mc_assert(rc == 0 || rc == -EPIPE || rc == -ETIMEDOUT);
    if (rc == 0) {
        mc_assert(value == 7 && written == 1);
        atomic_fetch_add_explicit(&got, 1, memory_order_relaxed);
    }
    leave();
}

static void late_and_second(void)
{
    reset(3);
    stage_sync_thread(receive_and_leave, (void *)10);
    mc_thread(receive_and_leave, (void *)(uintptr_t)WEFT_FOREVER);
    stage_sync_thread(send_and_leave, NULL);
}

// One that is late comes back at once, in the same frame: whoever is about to put it into the queue meets
// the second wait, not the first (O6).
static void receive_twice(void *unused)
{
    (void)unused;
    int rc = -ETIMEDOUT;
    for (weft_time deadline = 10; deadline <= 20 && rc == -ETIMEDOUT; deadline += 10) {
        rc = receive_value(deadline);
    }
    mc_assert(rc == -ETIMEDOUT || rc == -EPIPE);
}

static __attribute__((noinline)) void watch_in_vain(void)
{
    struct weft_sync_future f;
    weft_waker waker = stage_sync_waker(&wakeup);
    weft_oneshot_wait_closed_future(&f, &question->oneshot);
    mc_assert(f.future.poll(&f.future, &waker) == WEFT_PENDING);
    f.future.cancel(&f.future);
    mc_assert(f.future.poll(&f.future, &waker) == WEFT_READY);
}

static void watch_for_nothing(void *unused)
{
    (void)unused;
    watch_in_vain();
    weft_oneshot_close(&question->oneshot);
}

static void late_twice(void)
{
    reset(2);
    stage_sync_thread(receive_twice, NULL);
    mc_thread(watch_for_nothing, NULL);
}

// The same for a future that waits alone: it is cancelled while a value comes, or while another one comes
// to wait.
static void await_or_cancel(void *unused)
{
    (void)unused;
    struct weft_sync_future f;
    uint64_t value = 0;
    weft_waker waker = stage_sync_waker(&wakeup);
    weft_oneshot_recv_future(&f, &value, &question->oneshot);
    if (f.future.poll(&f.future, &waker) == WEFT_PENDING) {
        f.future.cancel(&f.future);
        while (f.future.poll(&f.future, &waker) == WEFT_PENDING) {
            stage_sync_sleep(&wakeup);
        }
    }
    int64_t rc = f.future.result;
    mc_assert(rc == 0 || rc == -ECANCELED || rc == -EPIPE);
    if (rc == 0) {
        mc_assert(value == 7 && written == 1);
        atomic_fetch_add_explicit(&got, 1, memory_order_relaxed);
    }
    leave();
}

static void future_cancelled(void)
{
    reset(2);
    mc_thread(await_or_cancel, NULL);
    stage_sync_thread(send_and_leave, NULL);
}

static void future_and_second(void)
{
    reset(3);
    mc_thread(await_or_cancel, NULL);
    mc_thread(receive_and_leave, (void *)(uintptr_t)WEFT_FOREVER);
    stage_sync_thread(send_and_leave, NULL);
}

// It waits while the sender gives up.
static void await_nothing(void *unused)
{
    (void)unused;
    struct weft_sync_future f;
    uint64_t value = 0;
    weft_waker waker = stage_sync_waker(&wakeup);
    weft_oneshot_recv_future(&f, &value, &question->oneshot);
    while (f.future.poll(&f.future, &waker) == WEFT_PENDING) {
        stage_sync_sleep(&wakeup);
    }
    mc_assert(f.future.result == -EPIPE && written == 1);
    end();
}

static void future_given_up(void)
{
    reset(2);
    stage_sync_thread(give_up_sending, NULL);
    mc_thread(await_nothing, NULL);
}

static void check_one_got_it(void)
{
    mc_assert(atomic_load_explicit(&got, memory_order_relaxed) == 1);
}

static void watched(void)
{
    reset(2);
    stage_sync_thread(wait_until_received, NULL);
    stage_sync_thread(receive_one, NULL);
}

static void check_agree(void)
{
    mc_assert(sent == received);
}

static void check(void)
{
}

const struct mc_model mc_models[] = {
    { .name = "oneshot", .setup = plain, .check = check },
    { .name = "oneshot_foreign", .setup = foreign, .check = check },
    { .name = "oneshot_future", .setup = future, .check = check },
    { .name = "oneshot_late", .setup = late, .check = check_agree },
    { .name = "oneshot_given_up", .setup = given_up, .check = check },
    { .name = "oneshot_given_up_queued", .setup = given_up_queued, .check = check },
    { .name = "oneshot_receiver_gives_up", .setup = receiver_gives_up, .check = check },
    { .name = "oneshot_foreign_gives_up", .setup = foreign_gives_up, .check = check },
    { .name = "oneshot_third_party", .setup = third_party, .check = check, .max_bound = 1 },
    { .name = "oneshot_late_and_second",
      .setup = late_and_second,
      .check = check_one_got_it,
      .max_bound = 1 },
    { .name = "oneshot_late_twice", .setup = late_twice, .check = check },
    { .name = "oneshot_future_cancelled", .setup = future_cancelled, .check = check },
    { .name = "oneshot_future_and_second",
      .setup = future_and_second,
      .check = check_one_got_it,
      .max_bound = 1 },
    { .name = "oneshot_future_given_up", .setup = future_given_up, .check = check },
    { .name = "oneshot_watched", .setup = watched, .check = check },
    { .name = NULL },
};
