// clock.c - the public clock and sleeping.
#include <errno.h>

#include <weft/time.h>

#include "base/sys.h"
#include "sched/carrier.h"
#include "task/wait.h"

weft_time weft_now(void)
{
    struct weft__carrier *carrier = weft__carrier_self();
    return carrier != NULL && carrier->sim != NULL ? weft__carrier_now(carrier) : weft__clock_ns();
}

weft_time weft_after(weft_time duration_ns)
{
    weft_time now = weft_now();
    return duration_ns < WEFT_FOREVER - now ? now + duration_ns : WEFT_FOREVER;
}

int weft_sleep_until(weft_time when)
{
    struct weft__task *task = weft__thread_self();
    if (task == NULL) {
        return weft__no_task();
    }
    struct weft__wait wait; // nobody completes it: it ends by its deadline or by cancellation
    weft__wait_init(&wait, task, WEFT__WAIT_WITHDRAW, "sleep");
    int rc = weft__block(&wait, when);
    return rc == -ETIMEDOUT ? 0 : rc;
}

int weft_sleep(weft_time duration_ns)
{
    return weft_sleep_until(weft_after(duration_ns));
}
