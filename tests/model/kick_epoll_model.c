// kick_epoll_model.c - kicks into a carrier that waits in epoll, and jobs that come back from the
// blocking pool (io/token.h, K1 to K3; io/epoll.c, E1 and E2; io/epoll_jobs.c, J1 to J3).
//
// epoll is an event here: a signal of the eventfd is an edge, several may count as one. A job's bytes
// are plain, so that the race detector proves J1; the driver's memory is forbidden once close() has
// waited for the jobs, which proves J3.
//
// Sources: io/epoll.c io/epoll_jobs.c sched/inbox.c
// Headers: io/token.h
// With: stage.c stage_kick.c
#include <string.h>
#include <sys/epoll.h>

#include "base/alloc.h"
#include "base/sys.h"
#include "io/epoll.h"
#include "io/event.h"
#include "io/io.h"
#include "io/perform.h"
#include "mc.h"
#include "stage.h"
#include "stage_kick.h"

enum { FD = 0, JOBS = 2, RESULT = 7 };

static struct weft__epoll epoll;
static struct weft__slot piece[WEFT__SLOTS_PER_PIECE];
static struct weft__slot *pieces[1];

// The kernel.

void weft__event_signal(int fd)
{
    (void)fd;
    stage_bell_ring();
}

int epoll_wait(int fd, struct epoll_event *events, int room, int timeout)
{
    (void)fd;
    mc_assert(room > 0);
    if (!stage_bell_wait(timeout < 0)) {
        return 0;
    }
    events[0] = (struct epoll_event){ .events = EPOLLIN, .data.u64 = UINT64_MAX };
    return 1;
}

weft_time weft__clock_ns(void)
{
    return 1;
}

// Jobs: sent to threads of the model, which are the pool.

static struct weft__op ops[JOBS];
static int bytes[JOBS]; // what the jobs read, plain
static int jobs_sent, jobs_back;
static bool sends_none; // close() finds the jobs in the pool

int64_t weft__perform_blocking(const struct weft__op *op)
{
    bytes[op - ops] = RESULT;
    return RESULT;
}

void weft__epoll_work(struct weft__epoll *e)
{
    weft__epoll_take_finished(e);
}

void weft__epoll_came_back(struct weft__epoll *e, struct weft__op *op, int64_t result)
{
    mc_assert(result == RESULT && bytes[op - ops] == RESULT); // J1
    jobs_back++;
    e->ended++;
}

void *weft__alloc(const struct weft_allocator *allocator, size_t size, size_t align)
{
    (void)allocator;
    (void)align;
    return mc_alloc(size);
}

void weft__free(const struct weft_allocator *allocator, void *block, size_t size)
{
    (void)allocator;
    (void)size;
    mc_free(block);
}

static void pool_thread(void *job)
{
    ((struct weft__job *)job)->run(job);
}

static int to_pool(void *pool, struct weft__job *job)
{
    (void)pool;
    jobs_sent++;
    mc_thread(pool_thread, job);
    return 0;
}

static bool from_pool(void *pool, struct weft__job *job)
{
    (void)pool;
    (void)job;
    return false;
}

static void send_and_close(void *unused)
{
    (void)unused;
    for (int i = 0; i < JOBS; i++) {
        bool has_ended = weft__epoll_offload(&epoll, &ops[i]);
        mc_assert(!has_ended);
    }
    while (!sends_none && jobs_back < JOBS) {
        weft__epoll_driver.wait(&epoll, WEFT_FOREVER);
    }
    weft__epoll_await_jobs(&epoll);
    mc_forbid(&epoll, sizeof epoll); // J3
}

// Setup.

static void reset(void)
{
    mc_allow(&epoll, sizeof epoll);
    memset(&epoll, 0, sizeof epoll);
    memset(piece, 0, sizeof piece);
    memset(ops, 0, sizeof ops);
    memset(bytes, 0, sizeof bytes);
    jobs_sent = jobs_back = 0;
    sends_none = false;
    pieces[0] = piece;
    epoll.slots.pieces = pieces;
    epoll.slots.count = 1;
    epoll.timer_fd = -1;
    epoll.timer_at = WEFT_FOREVER;
    epoll.waiting = 1; // or poll() does not look
    epoll.offload = (struct weft__offload){ to_pool, from_pool, NULL };
    mc_name(&epoll.token, sizeof epoll.token, "token");
    mc_name(&epoll.finished, sizeof epoll.finished, "finished");
    mc_name(&epoll.jobs_out, sizeof epoll.jobs_out, "jobs_out");
}

static void one_kicker(void)
{
    reset();
    stage_kick_init(&weft__epoll_driver, &epoll, 1, 2, false);
}

static void two_kickers(void)
{
    reset();
    stage_kick_init(&weft__epoll_driver, &epoll, 2, 1, false);
}

static void polled(void)
{
    reset();
    stage_kick_init(&weft__epoll_driver, &epoll, 2, 1, true);
}

static void jobs(void)
{
    reset();
    mc_thread(send_and_close, NULL);
}

static void jobs_at_close(void)
{
    reset();
    sends_none = true;
    mc_thread(send_and_close, NULL);
}

static void check_jobs(void)
{
    mc_assert(jobs_sent == JOBS);
}

const struct mc_model mc_models[] = {
    { .name = "kick_epoll_again", .setup = one_kicker },
    { .name = "kick_epoll_two_kickers", .setup = two_kickers },
    { .name = "kick_epoll_polled", .setup = polled },
    { .name = "kick_epoll_jobs", .setup = jobs, .check = check_jobs },
    { .name = "kick_epoll_jobs_at_close", .setup = jobs_at_close, .check = check_jobs },
    { .name = NULL },
};
