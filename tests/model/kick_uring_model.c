// kick_uring_model.c - kicks into a carrier that waits in a ring (io/token.h, K1 to K3; io/uring.c,
// U1 to U3).
//
// The kernel is played by what the driver calls of liburing. A kick comes as the ring's flags say: it
// becomes a completion when the owner enters (DEFER_TASKRUN), or the kicker's own thread adds it to
// the queue. It may also be dropped, once, with -EBADR. Where there are no messages it is the eventfd:
// its poll may end at any completion, and what is signalled before the next one is armed must not be
// lost. The queue of completions orders nothing, less than a kernel does.
//
// Sources: io/uring.c
// Headers: io/token.h
// With: stage.c stage_kick.c
// Flags: -DWEFT_HAVE_URING=1
#include <errno.h>
#include <string.h>

#include "base/sys.h"
#include "io/event.h"
#include "io/io.h"
#include "io/uring.h"
#include "mc.h"
#include "stage.h"
#include "stage_kick.h"

enum { ENTRIES = 8, RING_FD = 3 };

static enum { DEFERRED, DIRECT, BY_EVENT } way;
static struct weft__uring uring;
static unsigned sq_head, sq_tail, sq_flags, sq_array[ENTRIES];
static unsigned cq_head;
static _Atomic unsigned cq_tail;
static struct io_uring_sqe sqes[ENTRIES];
static struct io_uring_cqe cqes[ENTRIES];
static int drops_left;
static _Atomic unsigned readable; // the eventfd
static bool is_armed;             // its poll
// The kernel knows its own words: adding this reads the last value, and is not made a load of any.
static const volatile unsigned zero;

// The kernel.

// Entries were filled in by setup: DIRECT shows that the driver needs no more than the number.
static void post(uint64_t data, int result, uint32_t flags)
{
    unsigned tail = atomic_load_explicit(&cq_tail, memory_order_relaxed);
    cqes[tail % ENTRIES] = (struct io_uring_cqe){ .user_data = data,
                                                  .res = result,
                                                  .flags = flags };
    atomic_store_explicit(&cq_tail, tail + 1, memory_order_relaxed);
}

int io_uring_register(unsigned fd, unsigned opcode, const void *arg, unsigned count)
{
    (void)fd;
    (void)opcode;
    (void)count;
    mc_assert(((const struct io_uring_sqe *)arg)->fd == RING_FD);
    if (way == BY_EVENT) {
        return -EINVAL;
    }
    if (way == DIRECT) {
        atomic_fetch_add_explicit(&cq_tail, 1, memory_order_relaxed);
    }
    stage_bell_ring();
    return 0;
}

void weft__event_signal(int fd)
{
    (void)fd;
    atomic_store_explicit(&readable, 1, memory_order_relaxed);
    stage_bell_ring();
}

void weft__event_drain(int fd)
{
    (void)fd;
    (void)atomic_exchange_explicit(&readable, 0, memory_order_relaxed);
}

static void fire_poll(void)
{
    is_armed = mc_choose(2) == 1;
    post(WEFT__TAG_EVENT, 1, is_armed ? IORING_CQE_F_MORE : 0);
}

static void submit_polls(unsigned count)
{
    mc_assert(count <= 1 && !is_armed);
    sq_head += count;
    if (count > 0) {
        is_armed = true;
        if (atomic_fetch_or_explicit(&readable, zero, memory_order_relaxed) != 0) {
            fire_poll();
        }
    }
}

// A bell that rang while no poll was armed was not heard by the ring; the eventfd knows.
static int take_bell(bool rang)
{
    if (!rang || way == DIRECT || (way == BY_EVENT && !is_armed)) {
        return 0;
    }
    if (drops_left > 0 && mc_choose(2) == 1) {
        drops_left--;
        return -EBADR;
    }
    if (way == BY_EVENT) {
        fire_poll();
    } else {
        post(WEFT__TAG_MESSAGE, 0, 0);
    }
    return 0;
}

static bool has_completions(void)
{
    return atomic_fetch_add_explicit(&cq_tail, zero, memory_order_relaxed) != cq_head;
}

int io_uring_enter2(unsigned fd, unsigned queued, unsigned want, unsigned flags, sigset_t *arg,
                    size_t size)
{
    (void)fd;
    (void)flags;
    (void)arg;
    (void)size;
    if (queued > 0) {
        submit_polls(queued);
    }
    int rc = take_bell(stage_bell_wait(want > 0 && !has_completions()));
    (void)has_completions(); // who returns from the kernel has seen what it has seen
    return rc < 0 ? rc : (int)queued;
}

// The rest of the driver, which has no ops here.

void weft__uring_judge(struct weft__uring *u)
{
    u->audit = false;
}

void weft__uring_buffers_offer(struct weft__uring *u)
{
    (void)u;
}

// Setup.

static void reset(int how, int drops)
{
    way = how;
    drops_left = drops;
    memset(&uring, 0, sizeof uring);
    memset(sqes, 0, sizeof sqes);
    memset(cqes, 0, sizeof cqes);
    for (unsigned i = 0; i < ENTRIES; i++) {
        cqes[i].user_data = WEFT__TAG_MESSAGE;
    }
    sq_head = sq_tail = sq_flags = cq_head = 0;
    atomic_init(&cq_tail, 0);
    atomic_init(&readable, 0);
    is_armed = true;
    uring.ring_fd = RING_FD;
    uring.has_messages = how != BY_EVENT;
    uring.ring.sq = (struct io_uring_sq){
        .khead = &sq_head,
        .ktail = &sq_tail,
        .kflags = &sq_flags,
        .array = sq_array,
        .sqes = sqes,
        .ring_mask = ENTRIES - 1,
        .ring_entries = ENTRIES,
    };
    uring.ring.cq = (struct io_uring_cq){
        .khead = &cq_head,
        .ktail = (unsigned *)&cq_tail,
        .cqes = cqes,
        .ring_mask = ENTRIES - 1,
        .ring_entries = ENTRIES,
    };
    weft__op_list_init(&uring.backlog);
    weft__op_list_init(&uring.starved);
    weft__op_list_init(&uring.ended);
    weft__op_list_init(&uring.unsent);
    weft__op_list_init(&uring.tracked);
    weft__op_list_init(&uring.suspects);
    mc_name(&uring.token, sizeof uring.token, "token");
    mc_name(&cq_tail, sizeof cq_tail, "tail");
    mc_name(&readable, sizeof readable, "readable");
}

static void message(void)
{
    reset(DEFERRED, 0);
    stage_kick_init(&weft__uring_driver, &uring, 2, 1, false);
}

static void message_again(void)
{
    reset(DEFERRED, 1);
    stage_kick_init(&weft__uring_driver, &uring, 1, 2, false);
}

static void message_polled(void)
{
    reset(DEFERRED, 1);
    stage_kick_init(&weft__uring_driver, &uring, 2, 1, true);
}

static void direct(void)
{
    reset(DIRECT, 0);
    stage_kick_init(&weft__uring_driver, &uring, 2, 1, false);
}

static void event(void)
{
    reset(BY_EVENT, 0);
    stage_kick_init(&weft__uring_driver, &uring, 2, 1, false);
}

static void event_again(void)
{
    reset(BY_EVENT, 0);
    stage_kick_init(&weft__uring_driver, &uring, 1, 2, false);
}

const struct mc_model mc_models[] = {
    { .name = "kick_uring_message", .setup = message },
    { .name = "kick_uring_message_again", .setup = message_again },
    { .name = "kick_uring_message_polled", .setup = message_polled },
    { .name = "kick_uring_direct", .setup = direct },
    { .name = "kick_uring_event", .setup = event },
    { .name = "kick_uring_event_again", .setup = event_again },
    { .name = NULL },
};
