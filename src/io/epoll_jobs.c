// epoll_jobs.c - ops that block on a disk go to the blocking pool and come back.
//
//     the carrier                         a thread of the pool
//     jobs_out++, send
//                                         perform, push the job to `finished`, kick
//                                         jobs_out--, its last touch of the driver
//     takes `finished` in poll and wait
//
//   J1  The op and what it points to are read by the pool's thread only, from send until the job is in
//       `finished`. The inbox's release and acquire carry the result.
//   J2  A push comes before its kick, and a kick ends the wait that could miss it (io/token.h).
//   J3  close() takes back what has not begun and sleeps until jobs_out is 0.
//
// Locks: none. Checked by: tests/model/kick_epoll_model.c.
#include "io/epoll.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/sys.h"
#include "io/event.h"
#include "sched/carrier.h"

/// In jobs_out: close() waits for the rest to be 0.
#define CLOSING UINT32_C(0x80000000)

static void run(struct weft__job *base)
{
    struct weft__epoll_job *job = weft__container_of(base, struct weft__epoll_job, job);
    struct weft__epoll *e = job->driver;
    job->result = weft__perform_blocking(job->op);
    weft__inbox_push(&e->finished, &job->node);
    if (weft__token_raise(&e->token)) {
        weft__event_signal(e->event_fd);
    }
    if (atomic_fetch_sub_explicit(&e->jobs_out, 1, memory_order_release) == (CLOSING | 1)) {
        weft__futex_wake(&e->jobs_out, 1);
    }
}

static void free_job(struct weft__epoll *e, struct weft__epoll_job *job)
{
    weft__free(e->allocator, job, sizeof *job);
}

bool weft__epoll_offload(struct weft__epoll *e, struct weft__op *op)
{
    weft__count(&e->counts.offloaded);
    if (e->offload.send == NULL) {
        op->result = weft__perform_blocking(op);
        return true;
    }
    struct weft__epoll_job *job = weft__alloc(e->allocator, sizeof *job,
                                              _Alignof(struct weft__epoll_job));
    if (job == NULL) {
        op->result = -ENOMEM;
        return true;
    }
    *job = (struct weft__epoll_job){ .job = { .run = run }, .driver = e, .op = op };
    op->stage = WEFT__EPOLL_BLOCKING;
    op->extra = job;
    weft__others_add(weft__slot_of(e, op->fd), op);
    atomic_fetch_add_explicit(&e->jobs_out, 1, memory_order_relaxed);
    int rc = e->offload.send(e->offload.pool, &job->job);
    if (rc == 0) {
        return false;
    }
    atomic_fetch_sub_explicit(&e->jobs_out, 1, memory_order_relaxed);
    weft__others_remove(op);
    free_job(e, job);
    op->stage = WEFT__EPOLL_IDLE;
    op->result = rc;
    return true;
}

bool weft__epoll_recall(struct weft__epoll *e, struct weft__op *op)
{
    struct weft__epoll_job *job = op->extra;
    if (e->offload.recall == NULL || !e->offload.recall(e->offload.pool, &job->job)) {
        return false;
    }
    atomic_fetch_sub_explicit(&e->jobs_out, 1, memory_order_relaxed);
    weft__others_remove(op);
    free_job(e, job);
    return true;
}

void weft__epoll_take_finished(struct weft__epoll *e)
{
    struct weft__node *node = weft__inbox_take(&e->finished);
    while (node != NULL) {
        struct weft__epoll_job *job = weft__container_of(node, struct weft__epoll_job, node);
        struct weft__op *op = job->op;
        int64_t result = job->result;
        node = node->next;
        weft__others_remove(op);
        free_job(e, job);
        op->stage = WEFT__EPOLL_IDLE;
        weft__epoll_came_back(e, op, result);
    }
}

static void recall_all(struct weft__epoll *e)
{
    for (size_t i = 0; i < e->slots.count; i++) {
        for (size_t k = 0; e->slots.pieces[i] != NULL && k < WEFT__SLOTS_PER_PIECE; k++) {
            struct weft__op *op = e->slots.pieces[i][k].others;
            while (op != NULL) {
                struct weft__op *next = op->next;
                if (op->stage == WEFT__EPOLL_BLOCKING) {
                    (void)weft__epoll_recall(e, op);
                }
                op = next;
            }
        }
    }
}

void weft__epoll_await_jobs(struct weft__epoll *e)
{
    if (atomic_load_explicit(&e->jobs_out, memory_order_relaxed) != 0) {
        recall_all(e);
    }
    uint32_t out = atomic_fetch_or_explicit(&e->jobs_out, CLOSING, memory_order_acquire) | CLOSING;
    while (out != CLOSING) {
        (void)weft__futex_wait(&e->jobs_out, out, WEFT_FOREVER);
        out = atomic_load_explicit(&e->jobs_out, memory_order_acquire);
    }
    for (struct weft__node *node = weft__inbox_take(&e->finished); node != NULL;) {
        struct weft__epoll_job *job = weft__container_of(node, struct weft__epoll_job, node);
        node = node->next;
        free_job(e, job);
    }
}
