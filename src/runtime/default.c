// default.c - the one runtime per process that libraries share.
#include <errno.h>
#include <pthread.h>

#include "runtime/runtime.h"
#include "time/timer.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static weft_runtime *runtime;   // under lock
static uint32_t its_generation; // a forked child makes a new one

void weft__default_lock(void)
{
    pthread_mutex_lock(&lock);
}

void weft__default_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

weft_runtime *weft_runtime_default(void)
{
    weft__registry_prepare();
    pthread_mutex_lock(&lock);
    if (runtime == NULL || its_generation != weft__fork_generation()) {
        its_generation = weft__fork_generation();
        int rc = weft_runtime_create(&runtime, NULL); // says itself what went wrong
        (void)rc;
    }
    weft_runtime *made = runtime;
    pthread_mutex_unlock(&lock);
    return made;
}

struct weft__carrier *weft__default_carrier(void)
{
    weft_runtime *made = weft_runtime_default();
    return made != NULL ? &made->crew.carriers[0] : NULL;
}

int weft_timer_init_on(struct weft_timer *timer, weft_runtime *there, int carrier, weft_timer_fn fn,
                       void *arg)
{
    struct weft__crew *crew = &there->crew;
    int rc = weft__runtime_refuses(crew, weft__carrier_self());
    if (rc < 0) {
        return rc;
    }
    if (!weft__crew_has(crew, carrier)) {
        return -EINVAL;
    }
    weft__user_timer_init(weft__user_timer_of(timer), &crew->carriers[carrier], fn, arg);
    return 0;
}
