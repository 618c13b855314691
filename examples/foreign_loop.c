// foreign_loop.c - a plain poll(2) loop, on a thread that knows nothing of weft's carriers, drives a
// weft future. All it takes is a waker of its own: four functions that end in a write to an eventfd.
//
// A waker may outlive the loop's interest in it (a wake can be late), so the loop's memory is
// counted, and the last one to let go frees it.
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <weft.h>

struct loop {
    int fd;
    atomic_int refs;
};

static void loop_drop(weft_waker *waker)
{
    struct loop *loop = waker->data;
    if (atomic_fetch_sub(&loop->refs, 1) == 1) {
        close(loop->fd);
        free(loop);
    }
}

static void loop_wake_by_ref(const weft_waker *waker)
{
    const struct loop *loop = waker->data;
    eventfd_write(loop->fd, 1);
}

static void loop_wake(weft_waker *waker)
{
    loop_wake_by_ref(waker);
    loop_drop(waker);
}

static void loop_clone(weft_waker *copy, const weft_waker *waker)
{
    struct loop *loop = waker->data;
    atomic_fetch_add(&loop->refs, 1);
    *copy = *waker;
}

static const struct weft_waker_vtable loop_vtable = {
    .clone = loop_clone,
    .wake = loop_wake,
    .wake_by_ref = loop_wake_by_ref,
    .drop = loop_drop,
};

struct pulse {
    struct weft_future future;
    struct weft_sleep sleep;
    int beats;
};

static enum weft_poll pulse_poll(struct weft_future *future, weft_waker *waker)
{
    struct pulse *pulse = (struct pulse *)future;
    while (weft_sleep_poll(&pulse->sleep, waker) == WEFT_READY) {
        printf("beat %d\n", ++pulse->beats);
        if (pulse->beats == 3) {
            future->result = 0;
            return WEFT_READY;
        }
        weft_sleep_init(&pulse->sleep, weft_after(10 * WEFT_MS));
    }
    return WEFT_PENDING;
}

int main(void)
{
    int fd = eventfd(0, EFD_CLOEXEC);
    struct loop *loop = fd >= 0 ? malloc(sizeof *loop) : NULL;
    if (loop == NULL) {
        return 1;
    }
    *loop = (struct loop){ .fd = fd, .refs = 1 };
    weft_waker waker = { &loop_vtable, loop };
    struct pulse pulse = { .beats = 0 };
    weft_future_init(&pulse.future, pulse_poll, NULL);
    weft_sleep_init(&pulse.sleep, weft_after(10 * WEFT_MS)); // its timer: weft_runtime_default()

    struct pollfd watched = { .fd = loop->fd, .events = POLLIN }; // beside your own descriptors
    while (pulse.future.poll(&pulse.future, &waker) == WEFT_PENDING) {
        eventfd_t wakes;
        if (poll(&watched, 1, -1) < 0 || eventfd_read(loop->fd, &wakes) < 0) {
            return 1;
        }
    }
    weft_waker_drop(&waker);
    printf("the future is ready: %lld\n", (long long)pulse.future.result);
    return 0;
}
