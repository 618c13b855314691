// pipeline.c - stages joined by channels: each receives, works, sends on. Closing travels down the
// pipeline when there is nothing left, and up when nobody wants more.
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <weft.h>

#define WORKERS 3

struct pipeline {
    uint64_t last; // numbers go from 1 to this
    weft_chan *numbers;
    weft_chan *squares;
    _Atomic int workers; // that still run; the last one closes what they send into
};

static int count(void *arg)
{
    struct pipeline *p = arg;
    uint64_t n = 1;
    while (n <= p->last && weft_chan_send(p->numbers, &n, WEFT_FOREVER) == 0) {
        n++;
    }
    printf("  count: %s\n", n > p->last ? "sent all" : "nobody wants more");
    weft_chan_close(p->numbers);
    return 0;
}

static int square(void *arg)
{
    struct pipeline *p = arg;
    uint64_t n;
    while (weft_chan_recv(&n, p->numbers, WEFT_FOREVER) == 0) {
        n *= n;
        if (weft_chan_send(p->squares, &n, WEFT_FOREVER) < 0) {
            break;
        }
    }
    weft_chan_close(p->numbers); // in case they are not wanted any more
    if (atomic_fetch_sub(&p->workers, 1) == 1) {
        weft_chan_close(p->squares);
    }
    return 0;
}

/// Adds up the first `most` squares that come, and stops.
static uint64_t sum(struct pipeline *p, uint64_t most)
{
    uint64_t total = 0;
    uint64_t n;
    while (most-- > 0 && weft_chan_recv(&n, p->squares, WEFT_FOREVER) == 0) {
        total += n;
    }
    weft_chan_close(p->squares);
    return total;
}

static int run_pipeline(uint64_t *total, uint64_t last, uint64_t most)
{
    struct pipeline p = { .last = last, .workers = WORKERS };
    struct weft_scope scope;
    int rc = weft_chan_create(&p.numbers, sizeof(uint64_t), 8);
    rc = rc < 0 ? rc : weft_chan_create(&p.squares, sizeof(uint64_t), 8);
    if (rc == 0) {
        weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER);
        weft_scope_spawn(&scope, count, &p);
        for (int i = 0; i < WORKERS; i++) {
            weft_scope_spawn(&scope, square, &p);
        }
        *total = sum(&p, most);
        rc = weft_scope_join(&scope); // nobody uses the channels any more
    }
    (void)weft_chan_destroy(p.numbers);
    (void)weft_chan_destroy(p.squares);
    return rc;
}

static int run(void *arg)
{
    uint64_t all = 0;
    uint64_t some = 0;
    (void)arg;
    puts("all squares up to 1000:");
    int rc = run_pipeline(&all, 1000, UINT64_MAX);
    printf("  sum: %" PRIu64 "\n", all);
    puts("ten squares of very many:");
    rc = rc < 0 ? rc : run_pipeline(&some, UINT64_MAX, 10);
    printf("  sum: %" PRIu64 "\n", some);
    if (rc < 0) {
        return rc;
    }
    return all == UINT64_C(1000) * 1001 * 2001 / 6 && some >= 385 ? 0 : -EPROTO;
}

int main(void)
{
    return weft_run(run, NULL, NULL) < 0;
}
