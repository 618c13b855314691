// join.c - cases that wait for the end of a task.
//
// Nobody's lock protects them: the end of the task calls task_ended() on whatever thread that is
// (task/join.c, J4), which claims the select for this case. If that fails the select has committed
// another case and is leaving, or will; the call says that it is over, as its last touch, and the
// select waits for that. It is a matter of moments, so it waits like for a small lock (base/lock.h).
#include "base/sys.h"
#include "select/select.h"
#include "task/join.h"

static void task_ended(struct weft__wait *wait)
{
    struct weft__case *c = weft__case_of(wait);
    struct weft__waiter *main = &c->wait.join.select->main;
    _Atomic uint32_t *over = &c->wait.join.over;
    struct weft__batch batch;
    weft__batch_init(&batch);
    if (weft__main_claim(main, &c->wait, 0, &batch)) {
        weft__batch_finish(&batch);
        return;
    }
    atomic_store_explicit(over, 1, memory_order_release);
    (void)weft__futex_wake(over, 1);
}

bool weft__case_join_ready(const struct weft__case *c)
{
    return weft__task_ended(c->object);
}

bool weft__case_join_begin(struct weft__select *select, struct weft__case *c)
{
    struct weft__case_join *join = &c->wait.join;
    weft__wait_init(&join->wait, NULL, WEFT__WAIT_CALL, "select");
    join->wait.ask = task_ended;
    join->select = select;
    atomic_store_explicit(&join->over, 0, memory_order_relaxed);
    c->waits = weft__task_watch(c->object, &join->wait);
    return c->waits;
}

void weft__case_join_end(struct weft__case *c)
{
    struct weft__case_join *join = &c->wait.join;
    if (weft__task_unwatch(c->object, &join->wait)) {
        return;
    }
    while (atomic_load_explicit(&join->over, memory_order_acquire) == 0) {
        (void)weft__futex_wait(&join->over, 0, WEFT_FOREVER);
    }
}

void weft__case_join_take(struct weft__case *c)
{
    struct weft__task *task = c->object;
    c->result = task->result;
    c->kind = WEFT__CASE_NONE;
    weft__host_release(task);
}
