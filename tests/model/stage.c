// stage.c - assertions, futexes and the driver of a model. See stage.h.
#include "stage.h"

#include <errno.h>

#include "base/assert.h"
#include "base/sys.h"
#include "sched/driver.h"
#include "task/host.h"
#include "task/join.h"
#include "task/scope.h"
#include "task/trace.h"

void weft__assert_failed(const char *what, const char *file, int line)
{
    mc_fail("assertion: %s (%s:%d)", what, file, line);
}

void stage_catch_up(_Atomic uint32_t *word)
{
    static volatile uint32_t nothing;
    (void)atomic_fetch_add_explicit(word, nothing, memory_order_relaxed);
}

// What sources refer to, for models that have none of it: nobody is cancelled, scopes do not care.

#define UNUSED __attribute__((weak))

UNUSED const struct weft__kind weft__kind_thread = { .name = "thread" };
UNUSED const struct weft__kind weft__kind_future = { .name = "future" };

UNUSED _Atomic(const struct weft__tracer *) weft__tracer; // nobody traces

UNUSED bool weft__scope_look(struct weft__task *task)
{
    (void)task;
    return false;
}

UNUSED void weft__scope_settle(struct weft__scope *scope, int result)
{
    (void)scope;
    (void)result;
}

UNUSED void weft__scope_leave(struct weft__scope *scope, struct weft__task *child)
{
    (void)scope;
    (void)child;
}

UNUSED void weft__host_disarm(struct weft__task *task)
{
    (void)task;
}

UNUSED void weft__host_ended(struct weft__crew *crew, struct weft__carrier *carrier)
{
    (void)crew;
    (void)carrier;
}

UNUSED void weft__host_rouse(struct weft__task *task)
{
    (void)task;
    mc_fail("nobody is a poller");
}

UNUSED struct weft__crew *weft__host_enter_crew(const struct weft__task *task)
{
    (void)task;
    return NULL; // there is one runtime
}

UNUSED void weft__host_leave_crew(struct weft__crew *crew)
{
    (void)crew;
}

// Futexes. A deadline may have passed already, or never pass: sleeping for a while and then timing
// out is the same as being late to call.

int weft__futex_wait(_Atomic uint32_t *word, uint32_t expected, weft_time deadline)
{
    if (deadline != WEFT_FOREVER && mc_choose(2) == 1) {
        return -ETIMEDOUT;
    }
    return mc_futex_wait(word, expected);
}

int weft__futex_wake(_Atomic uint32_t *word, int count)
{
    return mc_futex_wake(word, count);
}

// The driver.

static int driver_poll(void *state)
{
    (void)state;
    return 0;
}

static int driver_wait(void *state, weft_time until)
{
    (void)until;
    mc_event_wait(state);
    return 0;
}

static void driver_kick(void *state, void *from)
{
    (void)from;
    mc_event_set(state);
}

const struct weft__driver stage_driver = {
    .name = "event",
    .poll = driver_poll,
    .wait = driver_wait,
    .kick = driver_kick,
};
