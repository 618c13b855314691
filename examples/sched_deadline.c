// sched_deadline.c - three jobs are ready at once; the scheduler (sched_deadline.h) runs the one that
// is due first, whatever the order they came in.
//
//     $ sched_deadline
//     the mail is due in 10 ms
//     the report is due in 200 ms
//     the backup is due in 3000 ms
#include "sched_deadline.h"

#include <stdio.h>

struct job {
    struct urgent urgent;
    const char *name;
    int due_ms;
};

static int job(void *arg)
{
    const struct job *self = arg;
    printf("the %s is due in %d ms\n", self->name, self->due_ms);
    return 0;
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
    return rc < 0 ? rc : result;
}

int main(void)
{
    struct urgency *urgency;
    int rc = urgency_create(&urgency);
    if (rc == 0) {
        rc = weft_run(body, urgency, NULL);
        weft_scheduler_release(&urgency->base);
    }
    return rc < 0;
}
