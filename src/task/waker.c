// waker.c - the library's own waker: data is a task, and an owned waker counts a reference on it.
#include "task/waker.h"

#include "task/host.h"
#include "task/word.h"

static void task_clone(weft_waker *copy, const weft_waker *waker)
{
    weft__word_retain(waker->data);
    *copy = *waker;
}

static void task_drop(weft_waker *waker)
{
    struct weft__task *task = waker->data;
    *waker = (weft_waker){ NULL, NULL };
    weft__host_release(task);
}

static void task_wake_by_ref(const weft_waker *waker)
{
    if (weft__likely(!weft__host_refuses_wake(waker->data))) {
        weft__wake(waker->data);
    }
}

static void task_wake(weft_waker *waker)
{
    struct weft__task *task = waker->data;
    *waker = (weft_waker){ NULL, NULL };
    if (weft__unlikely(weft__host_refuses_wake(task)) || !weft__wake_release(task)) {
        weft__host_release(task);
    }
}

static const struct weft_waker_vtable task_vtable = {
    .clone = task_clone,
    .wake = task_wake,
    .wake_by_ref = task_wake_by_ref,
    .drop = task_drop,
};

weft_waker weft__waker_borrowed(struct weft__task *task)
{
    return (weft_waker){ &task_vtable, task };
}
