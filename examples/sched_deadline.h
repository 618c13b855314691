// sched_deadline.h - a scheduler: one OS thread that always runs the most urgent ready task.
//
// A task's attachment points at a struct urgent in its spawner's storage, with the moment by which it
// should be done. Those that are ready stand in a pairing heap made of these structs. A task that
// became less or more urgent while it ran is put in order when it is ready again.
#ifndef EXAMPLE_SCHED_DEADLINE_H
#define EXAMPLE_SCHED_DEADLINE_H

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <weft.h>

struct urgent {
    weft_time due; // smaller is more urgent; the task's own while it runs
    weft_task *task;
    struct urgent *child; // less urgent ones
    struct urgent *next;  // its sibling
};

struct urgency {
    struct weft_scheduler base;
    pthread_mutex_t mutex;
    pthread_cond_t ready;
    struct urgent *heap; // under mutex
    uint64_t depth;
    uint64_t late; // runs that began after the task was due
    bool stop;
    pthread_t thread;
};

static struct urgent *urgent_merge(struct urgent *a, struct urgent *b)
{
    if (a == NULL || b == NULL) {
        return a != NULL ? a : b;
    }
    struct urgent *top = a->due <= b->due ? a : b;
    struct urgent *other = top == a ? b : a;
    other->next = top->child;
    top->child = other;
    return top;
}

// The second most urgent is among the children: merges them in pairs, and the pairs in turn.
static struct urgent *urgent_rest(struct urgent *children)
{
    struct urgent *pairs = NULL;
    while (children != NULL) {
        struct urgent *a = children;
        struct urgent *b = a->next;
        children = b != NULL ? b->next : NULL;
        a->next = NULL;
        if (b != NULL) {
            b->next = NULL;
        }
        struct urgent *pair = urgent_merge(a, b);
        pair->next = pairs;
        pairs = pair;
    }
    struct urgent *heap = NULL;
    while (pairs != NULL) {
        struct urgent *next = pairs->next;
        pairs->next = NULL;
        heap = urgent_merge(heap, pairs);
        pairs = next;
    }
    return heap;
}

static void urgency_push(struct weft_scheduler *base, weft_task *task)
{
    struct urgency *self = (struct urgency *)base;
    struct urgent *urgent = (struct urgent *)weft_task_attachment(task);
    urgent->task = task;
    urgent->child = NULL;
    urgent->next = NULL;
    pthread_mutex_lock(&self->mutex);
    self->heap = urgent_merge(self->heap, urgent);
    self->depth++;
    pthread_cond_signal(&self->ready);
    pthread_mutex_unlock(&self->mutex);
}

static void *urgency_thread(void *arg)
{
    struct urgency *self = (struct urgency *)arg;
    for (;;) {
        pthread_mutex_lock(&self->mutex);
        while (self->heap == NULL && !self->stop) {
            pthread_cond_wait(&self->ready, &self->mutex);
        }
        struct urgent *first = self->heap;
        if (first != NULL) {
            self->heap = urgent_rest(first->child);
            self->depth--;
            self->late += first->due < weft_now();
        }
        pthread_mutex_unlock(&self->mutex);
        if (first == NULL) {
            return NULL;
        }
        if (weft_task_run(first->task) < 0) {
            abort();
        }
    }
}

static void urgency_publish(struct weft_scheduler *base, weft_stat_fn report, void *ctx)
{
    struct urgency *self = (struct urgency *)base;
    pthread_mutex_lock(&self->mutex);
    uint64_t depth = self->depth;
    uint64_t late = self->late;
    pthread_mutex_unlock(&self->mutex);
    report(ctx, "queue_depth", depth);
    report(ctx, "late_runs", late);
}

static void urgency_destroy(struct weft_scheduler *base)
{
    struct urgency *self = (struct urgency *)base;
    pthread_mutex_lock(&self->mutex);
    self->stop = true;
    pthread_cond_signal(&self->ready);
    pthread_mutex_unlock(&self->mutex);
    pthread_join(self->thread, NULL);
    pthread_cond_destroy(&self->ready);
    pthread_mutex_destroy(&self->mutex);
    free(self);
}

static const struct weft_scheduler_ops urgency_ops = { urgency_push, urgency_push, urgency_publish,
                                                       urgency_destroy };

// The caller has a reference, and ends it with weft_scheduler_release().
static inline int urgency_create(struct urgency **out)
{
    struct urgency *self = (struct urgency *)calloc(1, sizeof *self);
    *out = NULL;
    if (self == NULL) {
        return -ENOMEM;
    }
    weft_scheduler_init(&self->base, &urgency_ops, "deadline", WEFT_SCHEDULER_KEEPS_THREAD);
    pthread_mutex_init(&self->mutex, NULL);
    pthread_cond_init(&self->ready, NULL);
    int rc = -pthread_create(&self->thread, NULL, urgency_thread, self);
    if (rc < 0) {
        free(self);
        return rc;
    }
    *out = self;
    return 0;
}

#endif
