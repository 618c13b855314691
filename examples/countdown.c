// countdown.c - a stackless future: a struct with a poll function, run as a task of its own or
// awaited by a virtual thread. It needs no stack, only its own bytes.
#include <errno.h>
#include <stdio.h>
#include <weft.h>

struct countdown {
    struct weft_future future; // first member
    struct weft_sleep sleep;
    int left;
};

static enum weft_poll countdown_poll(struct weft_future *future, weft_waker *waker)
{
    struct countdown *c = (struct countdown *)future;
    while (c->left > 0) {
        if (weft_sleep_poll(&c->sleep, waker) == WEFT_PENDING) {
            return WEFT_PENDING; // the sleep has kept a clone of the waker
        }
        if (weft_sleep_result(&c->sleep) < 0) {
            future->result = weft_sleep_result(&c->sleep);
            return WEFT_READY;
        }
        if (--c->left > 0) {
            weft_sleep_init(&c->sleep, weft_after(10 * WEFT_MS));
        }
    }
    future->result = 0;
    return WEFT_READY;
}

/// A request, passed on to the leaf. The owner goes on polling until the future is READY.
static void countdown_cancel(struct weft_future *future)
{
    weft_sleep_cancel(&((struct countdown *)future)->sleep);
}

static void countdown_init(struct countdown *c, int ticks)
{
    weft_future_init(&c->future, countdown_poll, countdown_cancel);
    weft_sleep_init(&c->sleep, weft_after(10 * WEFT_MS));
    c->left = ticks;
}

static int run(void *arg)
{
    (void)arg;
    struct countdown spawned;
    struct countdown awaited;
    struct countdown impatient;
    weft_task *task;
    int result;

    countdown_init(&spawned, 3);
    int rc = weft_spawn_future(&task, &spawned.future, NULL);
    if (rc < 0) {
        return rc;
    }
    countdown_init(&awaited, 2); // runs inside this virtual thread, beside the spawned one
    int64_t value = weft_await(&awaited.future, WEFT_FOREVER);
    printf("awaited: %lld, %d left\n", (long long)value, awaited.left);
    weft_join(&result, task, WEFT_FOREVER);
    printf("spawned and joined: %d, %d left\n", result, spawned.left);

    countdown_init(&impatient, 1000);
    int64_t late = weft_await(&impatient.future, weft_after(25 * WEFT_MS));
    printf("with a deadline: %s, %d left\n", late == -ETIMEDOUT ? "timed out" : "done",
           impatient.left);
    return value == 0 && result == 0 && late == -ETIMEDOUT ? 0 : -EPROTO;
}

int main(void)
{
    return weft_run(run, NULL, NULL) < 0;
}
