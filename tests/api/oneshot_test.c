// oneshot_test.c - one value, and either side may give up.
#include "support/caller.h"
#include "support/test.h"

#include <errno.h>
#include <string.h>
#include <weft.h>

static struct weft_oneshot oneshot;
static uint64_t storage;

static void reset(void)
{
    storage = 0;
    weft_oneshot_init(&oneshot, &storage, sizeof storage);
}

static int send_value(uint64_t value)
{
    return weft_oneshot_send(&oneshot, &value);
}

TEST(a_value_is_received_once)
{
    uint64_t value = 7;
    reset();
    CHECK_EQ(weft_oneshot_try_recv(&value, &oneshot), -EAGAIN);
    CHECK_EQ(weft_oneshot_recv(&value, &oneshot, 1), -ETIMEDOUT);
    CHECK_EQ(value, 7u);
    CHECK_EQ(send_value(5), 0);
    CHECK_EQ(send_value(6), -EALREADY);
    CHECK(!weft_oneshot_is_closed(&oneshot));
    CHECK_EQ(weft_oneshot_recv(&value, &oneshot, WEFT_FOREVER), 0);
    CHECK_EQ(value, 5u);
    CHECK_EQ(storage, 5u);
    CHECK(weft_oneshot_is_closed(&oneshot)); // nobody needs another one
    CHECK_EQ(weft_oneshot_wait_closed(&oneshot, WEFT_FOREVER), 0);
    CHECK_EQ(weft_oneshot_try_recv(&value, &oneshot), -EPIPE);
    CHECK_EQ(weft_oneshot_recv(&value, &oneshot, WEFT_FOREVER), -EPIPE);
    CHECK_EQ(send_value(6), -EALREADY);
    CHECK_EQ(weft_oneshot_fini(&oneshot), 0);
}

TEST(values_of_any_size)
{
    unsigned char in[300];
    unsigned char kept[300];
    unsigned char out[300] = { 0 };
    memset(in, 3, sizeof in);
    weft_oneshot_init(&oneshot, kept, sizeof kept);
    CHECK_EQ(weft_oneshot_send(&oneshot, in), 0);
    CHECK_EQ(weft_oneshot_try_recv(out, &oneshot), 0);
    CHECK_EQ(memcmp(in, out, sizeof in), 0);
    weft_oneshot_init(&oneshot, NULL, 0);
    CHECK_EQ(weft_oneshot_send(&oneshot, NULL), 0);
    CHECK_EQ(weft_oneshot_try_recv(NULL, &oneshot), 0);
    CHECK_EQ(weft_oneshot_fini(&oneshot), 0);
}

TEST(either_side_gives_up)
{
    uint64_t value = 7;
    reset();
    weft_oneshot_close(&oneshot);
    weft_oneshot_close(&oneshot);
    CHECK(weft_oneshot_is_closed(&oneshot));
    CHECK_EQ(send_value(1), -EPIPE);
    CHECK_EQ(weft_oneshot_recv(&value, &oneshot, WEFT_FOREVER), -EPIPE);
    reset();
    CHECK_EQ(send_value(2), 0);
    weft_oneshot_close(&oneshot); // too late: the value is there
    CHECK_EQ(weft_oneshot_try_recv(&value, &oneshot), 0);
    CHECK_EQ(value, 2u);
    CHECK_EQ(weft_oneshot_fini(&oneshot), 0);
}

static int receive(struct caller *caller)
{
    return weft_oneshot_recv(&caller->value, &oneshot, caller->deadline);
}

static int wait_closed(struct caller *caller)
{
    return weft_oneshot_wait_closed(&oneshot, caller->deadline);
}

TEST_EVERYWHERE(a_receiver_waits_for_the_value)
{
    struct caller first;
    struct caller second;
    reset();
    caller_start(&first, receive, NULL);
    caller_start(&second, receive, NULL);
    CHECK_EQ(weft_oneshot_fini(&oneshot), -EBUSY);
    CHECK_EQ(send_value(9), 0);
    CHECK_EQ(caller_end(&first), 0);
    CHECK_EQ(first.value, 9u);
    CHECK_EQ(caller_end(&second), -EPIPE); // there is but one
    CHECK_EQ(weft_oneshot_fini(&oneshot), 0);
}

TEST_EVERYWHERE(a_receiver_is_cancelled_or_late_or_left_alone)
{
    struct caller caller;
    reset();
    caller_start(&caller, receive, NULL);
    weft_task_cancel(caller.task);
    CHECK_EQ(caller_end(&caller), -ECANCELED);
    CHECK_EQ(weft_oneshot_recv(NULL, &oneshot, weft_after(WEFT_MS)), -ETIMEDOUT);
    caller_start(&caller, receive, NULL);
    weft_oneshot_close(&oneshot);
    CHECK_EQ(caller_end(&caller), -EPIPE);
    CHECK_EQ(weft_oneshot_fini(&oneshot), 0);
}

TEST_EVERYWHERE(a_sender_learns_that_nobody_wants_the_value)
{
    struct caller caller;
    uint64_t value;
    reset();
    CHECK_EQ(weft_oneshot_wait_closed(&oneshot, weft_after(WEFT_MS)), -ETIMEDOUT);
    caller_start(&caller, wait_closed, NULL);
    CHECK_EQ(weft_oneshot_fini(&oneshot), -EBUSY);
    weft_oneshot_close(&oneshot);
    CHECK_EQ(caller_end(&caller), 0);
    reset();
    caller_start(&caller, wait_closed, NULL);
    CHECK_EQ(send_value(1), 0);
    CHECK_EQ(weft_oneshot_try_recv(&value, &oneshot), 0);
    CHECK_EQ(caller_end(&caller), 0);
    reset();
    caller_start(&caller, wait_closed, NULL);
    weft_task_cancel(caller.task);
    CHECK_EQ(caller_end(&caller), -ECANCELED);
    CHECK_EQ(weft_oneshot_fini(&oneshot), 0);
}

TEST_EVERYWHERE(futures_receive)
{
    struct weft_sync_future recv;
    struct weft_sync_future watch;
    uint64_t value = 0;
    reset();
    weft_oneshot_recv_future(&recv, &value, &oneshot);
    weft_oneshot_wait_closed_future(&watch, &oneshot);
    CHECK_EQ(poll_once(&recv.future), WEFT_PENDING);
    CHECK_EQ(poll_once(&watch.future), WEFT_PENDING);
    CHECK_EQ(send_value(4), 0);
    recv.future.cancel(&recv.future); // too late
    CHECK_EQ(poll_to_the_end(&recv.future), 0);
    CHECK_EQ(value, 4u);
    CHECK_EQ(poll_to_the_end(&watch.future), 0);
    reset();
    weft_oneshot_recv_future(&recv, &value, &oneshot);
    CHECK_EQ(weft_await(&recv.future, weft_after(WEFT_MS)), -ETIMEDOUT);
    weft_oneshot_recv_future(&recv, &value, &oneshot);
    CHECK_EQ(poll_once(&recv.future), WEFT_PENDING);
    weft_oneshot_close(&oneshot);
    CHECK_EQ(poll_to_the_end(&recv.future), -EPIPE);
    CHECK_EQ(weft_oneshot_fini(&oneshot), 0);
}

TEST(foreign_threads_wait)
{
    for (uint64_t i = 0; i < test_scaled(300); i++) {
        struct caller caller;
        reset();
        caller_start_outside(&caller, receive, NULL);
        CHECK_EQ(send_value(i), 0);
        CHECK_EQ(caller_end_outside(&caller), 0);
        CHECK_EQ(caller.value, i);
        CHECK_EQ(weft_oneshot_fini(&oneshot), 0);
    }
}

// Questions on the asker's stack, answered by somebody on another carrier, or too late.

struct question {
    uint64_t number;
    uint64_t answer;
    struct weft_oneshot oneshot;
    struct weft_event through; // the answerer is through with this memory
    int sent;
};

static int answer(void *arg)
{
    weft_chan *questions = arg;
    struct question *q;
    while (weft_chan_recv(&q, questions, WEFT_FOREVER) == 0) {
        uint64_t twice = 2 * q->number;
        if (q->number % 7 == 0) {
            (void)weft_sleep(q->number % 3 * 10 * WEFT_US);
        }
        if (q->number % 11 == 0) {
            weft_oneshot_close(&q->oneshot);
            q->sent = -EPIPE;
        } else {
            q->sent = weft_oneshot_send(&q->oneshot, &twice);
        }
        weft_event_set(&q->through);
    }
    return 0;
}

static void ask(weft_chan *questions, uint64_t number)
{
    struct question q = { .number = number };
    struct question *pointer = &q;
    struct weft_sync_future f;
    weft_time deadline = number % 5 == 0 ? weft_after(15 * WEFT_US) : WEFT_FOREVER;
    int rc;
    weft_oneshot_init(&q.oneshot, &q.answer, sizeof q.answer);
    weft_event_init(&q.through);
    CHECK_EQ(weft_chan_send(questions, &pointer, WEFT_FOREVER), 0);
    if (number % 2 == 0) {
        weft_oneshot_recv_future(&f, NULL, &q.oneshot);
        rc = (int)weft_await(&f.future, deadline);
    } else {
        rc = weft_oneshot_recv(NULL, &q.oneshot, deadline);
    }
    if (rc == -ETIMEDOUT) {
        weft_oneshot_close(&q.oneshot);
        rc = weft_oneshot_try_recv(NULL, &q.oneshot);
    }
    CHECK_EQ(weft_event_wait(&q.through, WEFT_FOREVER), 0);
    CHECK_EQ(weft_event_fini(&q.through), 0);
    CHECK_EQ(rc, q.sent); // both sides agree, also where they have met
    CHECK(rc == -EPIPE || q.answer == 2 * number);
    CHECK_EQ(weft_oneshot_fini(&q.oneshot), 0);
}

static int ask_often(void *arg)
{
    for (uint64_t i = 0; i < test_scaled(2000); i++) {
        ask(arg, i);
    }
    return 0;
}

TEST_EVERYWHERE(both_sides_agree_however_they_race)
{
    weft_chan *questions;
    weft_task *tasks[4];
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.place = WEFT_PLACE_SPREAD;
    CHECK_OK(weft_chan_create(&questions, sizeof(struct question *), 2));
    for (int i = 0; i < 4; i++) {
        CHECK_OK(weft_spawn(&tasks[i], i % 2 == 0 ? answer : ask_often, questions, &attr));
    }
    CHECK_OK(weft_join(NULL, tasks[1], WEFT_FOREVER));
    CHECK_OK(weft_join(NULL, tasks[3], WEFT_FOREVER));
    weft_chan_close(questions);
    CHECK_OK(weft_join(NULL, tasks[0], WEFT_FOREVER));
    CHECK_OK(weft_join(NULL, tasks[2], WEFT_FOREVER));
    CHECK_EQ(weft_chan_destroy(questions), 0);
}
