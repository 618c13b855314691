// machine_test.c - futures written as functions (weft/machine.h).
#include "support/hand.h"

struct worker {
    struct weft_machine machine;
    struct script steps[3];
    int reached;
    int64_t sum;
};

/// Three steps, the second as often as there are rounds; one that fails ends it.
static enum weft_poll work(struct weft_future *future, weft_waker *waker)
{
    struct worker *w = (struct worker *)(void *)future;
    WEFT_MACHINE_BEGIN(&w->machine);
    w->reached = 1;
    WEFT_MACHINE_AWAIT(&w->machine, &w->steps[0].future, waker);
    w->sum += w->steps[0].future.result;
    if (w->sum < 0) {
        WEFT_MACHINE_RETURN(&w->machine, w->sum);
    }
    for (w->reached = 2; w->reached < 5; w->reached++) {
        script_init(&w->steps[1], w->reached, 10);
        WEFT_MACHINE_AWAIT(&w->machine, &w->steps[1].future, waker);
        if (w->steps[1].future.result < 0) {
            break;
        }
        w->sum += w->steps[1].future.result;
    }
    WEFT_MACHINE_AWAIT(&w->machine, &w->steps[2].future, waker);
    w->sum += w->steps[2].future.result;
    WEFT_MACHINE_END(&w->machine, w->sum);
}

static void worker_init(struct worker *w, int64_t first)
{
    *w = (struct worker){ .sum = 0 };
    weft_machine_init(&w->machine, work);
    script_init(&w->steps[0], 2, first);
    script_init(&w->steps[1], 0, 0);
    script_init(&w->steps[2], 1, 100);
}

TEST(a_machine_goes_on_where_it_stopped)
{
    struct worker w;
    struct hand hand = { 0 };
    worker_init(&w, 1);
    CHECK_EQ(hand_drive(&hand, &w.machine.future), 131);
    CHECK_EQ(w.reached, 5);
    weft_future_fini(&w.machine.future);
}

TEST(a_machine_may_return_in_the_middle)
{
    struct worker w;
    struct hand hand = { 0 };
    worker_init(&w, -EIO);
    CHECK_EQ(hand_drive(&hand, &w.machine.future), -EIO);
    CHECK_EQ(w.reached, 1);
    CHECK_EQ(w.steps[2].polls, 0);
}

TEST(a_cancelled_machine_sees_it_in_all_it_awaits)
{
    for (int polls = 0;; polls++) {
        struct worker w;
        struct hand hand = { 0 };
        bool ready = false;
        worker_init(&w, 1);
        for (int i = 0; i < polls && !ready; i++) {
            ready = hand_poll(&hand, &w.machine.future) == WEFT_READY;
        }
        if (ready) {
            break;
        }
        weft_future_cancel(&w.machine.future);
        CHECK_LT(hand_drive(&hand, &w.machine.future), 100);
        CHECK_EQ(hand.clones, 0);
        for (int i = 0; i < 3; i++) {
            weft_future_fini(&w.steps[i].future);
        }
    }
}

TEST_EVERYWHERE(a_machine_is_a_task)
{
    struct worker w;
    weft_task *task;
    int result;
    worker_init(&w, 1);
    CHECK_OK(weft_spawn_future(&task, &w.machine.future, NULL));
    CHECK_OK(weft_join(&result, task, WEFT_FOREVER));
    CHECK_EQ(result, 131);
}
