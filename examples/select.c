// select.c - one virtual thread that waits for several things at once: jobs, a clock, and being told to
// stop. Nothing is lost: whatever select() did not report has not happened.
#include <errno.h>
#include <stdio.h>
#include <weft.h>

static weft_chan *jobs;        // of int; closed when there are no more
static struct weft_token quit; // zeroed: not cancelled

enum { JOB, TICK, QUIT };

static int worker(void *arg)
{
    (void)arg;
    int job;
    int done = 0;
    int ticks = 0;
    weft_time next_tick = weft_after(10 * WEFT_MS);
    struct weft_case cases[3];
    cases[JOB] = weft_case_recv(jobs, &job);
    cases[QUIT] = weft_case_token(&quit);
    for (;;) {
        cases[TICK] = weft_case_time(next_tick);
        int chosen = weft_select(cases, 3, WEFT_FOREVER);
        switch (chosen) {
        case JOB:
            if (cases[JOB].result == -EPIPE) { // closed, and all jobs received
                printf("no more jobs after %d\n", done);
                cases[JOB] = weft_case_none(); // it would be ready for ever
            } else {
                done++;
            }
            break;
        case TICK:
            ticks++;
            next_tick += 10 * WEFT_MS;
            break;
        case QUIT:
            printf("told to stop%s\n", ticks > 0 ? " after some ticks" : "");
            return done == 5 && ticks > 0 ? 0 : -EINVAL;
        default: return chosen; // -ECANCELED: somebody has cancelled this thread
        }
    }
}

static int run(void *arg)
{
    (void)arg;
    weft_task *task;
    int rc = weft_chan_create(&jobs, sizeof(int), 2);
    if (rc < 0) {
        return rc;
    }
    rc = weft_spawn(&task, worker, NULL, NULL);
    if (rc < 0) {
        (void)weft_chan_destroy(jobs);
        return rc;
    }
    for (int job = 1; job <= 5 && rc == 0; job++) {
        rc = weft_chan_send(jobs, &job, WEFT_FOREVER);
    }
    weft_chan_close(jobs);
    (void)weft_sleep(35 * WEFT_MS); // some ticks
    weft_token_cancel(&quit);
    int result;
    (void)weft_join(&result, task, WEFT_FOREVER);
    (void)weft_chan_destroy(jobs);
    return rc < 0 ? rc : result;
}

int main(void)
{
    return weft_run(run, NULL, NULL) < 0;
}
