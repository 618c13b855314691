// sched_deadline.c - three jobs are ready at once; the scheduler (sched_deadline.h) runs the one that
// is due first, whatever the order they came in. Then each waits for its turn, sleeps and reports to a
// pipe: a scheduler of one's own takes nothing away from its tasks.
//
//     $ sched_deadline
//     the mail is due in 10 ms
//     the report is due in 200 ms
//     the backup is due in 3000 ms
//     3 jobs are done
#include "sched_deadline.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static struct weft_semaphore printer; // one job at a time
static int done[2];                   // a pipe

struct job {
    struct urgent urgent;
    const char *name;
    int due_ms;
};

static int job(void *arg)
{
    const struct job *self = arg;
    printf("the %s is due in %d ms\n", self->name, self->due_ms);
    int rc = weft_semaphore_acquire(&printer, 1, WEFT_FOREVER);
    if (rc < 0) {
        return rc;
    }
    rc = weft_sleep(1 * WEFT_MS);
    int64_t n = rc == 0 ? weft_write(done[1], self->name, 1, WEFT_FOREVER) : rc;
    (void)weft_semaphore_release(&printer, 1);
    return n < 0 ? (int)n : 0;
}

// Runs on the scheduler's thread itself: none of the jobs begins before all are ready.
static int boss(void *arg)
{
    struct urgency *urgency = arg;
    struct job jobs[] = {
        { .name = "backup", .due_ms = 3000 },
        { .name = "mail", .due_ms = 10 },
        { .name = "report", .due_ms = 200 },
    };
    struct weft_scope scope;
    int rc = weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER);
    if (rc < 0) {
        return rc;
    }
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        struct weft_attr attr = WEFT_ATTR_INIT;
        attr.scheduler = &urgency->base; // not inherited
        attr.attachment = &jobs[i].urgent;
        jobs[i].urgent.due = weft_after((weft_time)jobs[i].due_ms * WEFT_MS);
        (void)weft_scope_spawn_task(NULL, &scope, job, &jobs[i], &attr);
    }
    return weft_scope_join(&scope);
}

static int body(void *arg)
{
    struct urgency *urgency = arg;
    struct urgent urgent = { .due = 0 };
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.scheduler = &urgency->base;
    attr.attachment = &urgent;
    weft_task *task;
    int result = 0;
    int rc = weft_spawn(&task, boss, urgency, &attr);
    if (rc == 0) {
        rc = weft_join(&result, task, WEFT_FOREVER);
    }
    if (rc < 0 || result < 0) {
        return rc < 0 ? rc : result;
    }
    char letters[8];
    int64_t n = weft_read(done[0], letters, sizeof letters, WEFT_FOREVER);
    printf("%d jobs are done\n", (int)n);
    return n == 3 ? 0 : -EIO;
}

int main(void)
{
    struct urgency *urgency;
    if (pipe2(done, O_CLOEXEC) < 0 || weft_semaphore_init(&printer, 1) < 0 ||
        urgency_create(&urgency) < 0) {
        return 1;
    }
    int rc = weft_run(body, urgency, NULL);
    weft_scheduler_release(&urgency->base);
    weft_semaphore_fini(&printer);
    close(done[0]);
    close(done[1]);
    return rc < 0;
}
