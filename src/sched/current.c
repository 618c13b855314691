// current.c - who is running on this OS thread.
//
// A virtual thread that may migrate is on another OS thread after a park, but a compiler that has
// computed a thread-local's address before the park keeps using it. So these are real calls, each
// computing the address afresh; nothing here may be inlined into a caller that parks. The declarations
// say so, because those are what a caller sees that has everything else inlined (WEFT__FLATTEN).
#include <errno.h>

#include "sched/crew.h"
#include "sched/guest.h"

// Initial-exec: one load from the thread pointer, also in the shared library.
#define LOCAL _Thread_local __attribute__((tls_model("initial-exec")))

static LOCAL struct weft__carrier *current;
static LOCAL struct weft__guest
    *guest; // of an OS thread that is not a carrier, while it runs a task
static LOCAL bool orphaned;

struct weft__carrier *weft__carrier_self(void)
{
    __asm__ volatile("");
    return current;
}

void weft__carrier_set_self(struct weft__carrier *carrier)
{
    __asm__ volatile("");
    current = carrier;
}

void weft__carrier_adopt(struct weft__carrier *carrier)
{
    weft__context_adopt(&carrier->runner.context);
    carrier->runner.carrier = carrier;
    carrier->runner.errno_at = &errno;
    carrier->runner.cxx = weft__cxx_of_thread();
    carrier->runner.control = weft__context_control();
}

struct weft__guest *weft__guest_self(void)
{
    __asm__ volatile("");
    return guest;
}

void weft__guest_set_self(struct weft__guest *self)
{
    __asm__ volatile("");
    guest = self;
}

/// To be inlined into functions that are not.
static inline struct weft__task *running(void)
{
    return weft__likely(current != NULL) ? current->current : guest != NULL ? guest->current : NULL;
}

struct weft__task *weft__task_self(void)
{
    __asm__ volatile("");
    return running();
}

struct weft__task *weft__thread_self(void)
{
    __asm__ volatile("");
    struct weft__task *task = running();
    return task != NULL && task->kind == &weft__kind_thread ? task : NULL;
}

struct weft__crew *weft__crew_self(void)
{
    __asm__ volatile("");
    const struct weft__task *task = running();
    return current != NULL ? current->crew : task != NULL ? task->crew : NULL;
}

struct weft__carrier *weft__carrier_near(void)
{
    __asm__ volatile("");
    const struct weft__task *task = running();
    return current != NULL ? current : task != NULL ? task->home : NULL;
}

int weft__no_task(void)
{
    __asm__ volatile("");
    return orphaned ? -ESRCH : -EPERM;
}

void weft__forget_self_after_fork(void)
{
    __asm__ volatile("");
    orphaned = orphaned || current != NULL || guest != NULL;
    current = NULL;
    guest = NULL;
}
