// stage_sync.c - who waits in a model of src/sync. See stage_sync.h.
#include "stage_sync.h"

#include <errno.h>

#include "sched/crew.h"

static struct weft__crew crew;
static struct weft__carrier carrier;
static struct stage_actor actors[STAGE_THREADS];
static bool is_virtual[STAGE_THREADS];
static int looks[STAGE_THREADS]; // at the clock

static const char *const names[STAGE_THREADS] = { "actor 0", "actor 1", "actor 2", "actor 3" };

void stage_sync_init(void)
{
    carrier.crew = &crew;
    atomic_init(&crew.visitors, 0);
    for (int i = 0; i < STAGE_THREADS; i++) {
        is_virtual[i] = false;
        looks[i] = 0;
    }
}

void stage_sync_thread(void (*fn)(void *), void *arg)
{
    int number = mc_thread(fn, arg);
    stage_actor_init(&actors[number], names[number]);
    actors[number].task.crew = &crew;
    is_virtual[number] = true;
}

struct weft__task *weft__thread_self(void)
{
    int self = mc_self();
    return self >= 0 && is_virtual[self] ? &actors[self].task : NULL;
}

struct weft__carrier *weft__carrier_self(void)
{
    return weft__thread_self() != NULL ? &carrier : NULL;
}

struct weft__crew *weft__crew_self(void)
{
    return weft__thread_self() != NULL ? &crew : NULL;
}

int weft__no_task(void)
{
    return -EPERM;
}

// Between two looks at the clock a millisecond passes, or nothing.
weft_time weft_now(void)
{
    int self = mc_self();
    if (self < 0 || looks[self]++ == 0) {
        return 1;
    }
    return mc_choose(2) == 1 ? 1 + WEFT_MS : 1;
}

void weft_future_init(struct weft_future *future, weft_poll_fn poll, weft_cancel_fn cancel)
{
    *future = (struct weft_future){ .poll = poll, .cancel = cancel };
}

// Wakers.

static void waker_clone(weft_waker *copy, const weft_waker *waker)
{
    *copy = *waker;
}

static void waker_wake_by_ref(const weft_waker *waker)
{
    struct stage_wakeup *wakeup = waker->data;
    // The result is looked at, or clang makes it a store, which may go before the sleeper's exchange.
    uint32_t before = atomic_exchange_explicit(&wakeup->woken, 1, memory_order_release);
    mc_assert(before <= 1);
    mc_event_set(wakeup);
}

static void waker_drop(weft_waker *waker)
{
    *waker = (weft_waker){ NULL, NULL };
}

static void waker_wake(weft_waker *waker)
{
    waker_wake_by_ref(waker);
    waker_drop(waker);
}

static const struct weft_waker_vtable vtable = {
    .clone = waker_clone,
    .wake = waker_wake,
    .wake_by_ref = waker_wake_by_ref,
    .drop = waker_drop,
};

weft_waker stage_sync_waker(struct stage_wakeup *wakeup)
{
    return (weft_waker){ &vtable, wakeup };
}

void stage_sync_sleep(struct stage_wakeup *wakeup)
{
    while (atomic_exchange_explicit(&wakeup->woken, 0, memory_order_acquire) == 0) {
        mc_event_wait(wakeup);
    }
}
