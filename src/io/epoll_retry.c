// epoll_retry.c - ops that would block although their descriptor is ready.
//
// A Unix socket whose listener has a full backlog, or that sends to a full receiver it is not connected
// to, polls as writable and has nothing to report when there is room. Such ops are rare and tried again
// after a pause, which grows while all of them fail.
#include "io/epoll.h"

#define FIRST_PAUSE_NS (200 * WEFT_US)
#define LONGEST_PAUSE_NS (10 * WEFT_MS)

void weft__epoll_retry_later(struct weft__epoll *e, struct weft__op *op)
{
    if (e->retrying_count == 0) {
        e->retry_ns = FIRST_PAUSE_NS;
        e->retry_at = weft__clock_ns() + e->retry_ns;
    }
    op->stage = WEFT__EPOLL_RETRYING;
    weft__op_queue_add(&e->retrying, op);
    e->retrying_count++;
}

void weft__epoll_retry_not(struct weft__epoll *e, struct weft__op *op)
{
    weft__op_queue_remove(&e->retrying, op);
    e->retrying_count--;
}

void weft__epoll_retry(struct weft__epoll *e)
{
    size_t left = e->retrying_count; // those that fail stand at the end again
    size_t before = left;
    weft_time pause_ns = e->retry_ns;
    while (left-- > 0 && e->retrying.head != NULL) {
        struct weft__op *op = e->retrying.head;
        weft__epoll_retry_not(e, op);
        weft__epoll_try_again(e, op);
    }
    bool failed = e->retrying_count >= before;
    pause_ns = failed ? 2 * pause_ns : FIRST_PAUSE_NS;
    e->retry_ns = pause_ns < LONGEST_PAUSE_NS ? pause_ns : LONGEST_PAUSE_NS;
    e->retry_at = weft__clock_ns() + e->retry_ns;
}
