// remote_model.c - a carrier and its driver thread (io/remote.h, R1 to R6).
//
// The real driver is played: an op ends at once or at the next wait, as the explorer chooses, with bytes
// that are plain; a cancelled one ends at the next wait. A carrier submits, cancels, forgets and drains;
// what the driver writes must be ordered before done(), no op may be left behind, and nobody may touch
// what is freed when the carrier and the thread have gone. A receive that goes on must not begin anew once
// its descriptor is forgotten, and buffers come back.
//
// Sources: io/remote.c io/driver_thread.c io/post.c sched/inbox.c
// With: stage.c stage_alloc.c
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/sys.h"
#include "io/event.h"
#include "io/io.h"
#include "io/remote.h"
#include "io/sockets.h"
#include "mc.h"
#include "sched/crew.h"
#include "stage.h"

enum { FD = 3, OPS = 2, BYTES = 7, BUFFERS = 4, MESSAGES = 2 };

// The real driver: one state, of the driver thread alone.

static struct played {
    struct weft__op *pending[OPS];
    int count;
    int forgotten;        // plain: how often
    int received;         // messages of MESSAGES; no more come
    int buffers[BUFFERS]; // plain
    bool out[BUFFERS];
} played;
static int kernel; // its address is the event

static int played_open(void **state, const struct weft__driver_config *config)
{
    (void)config;
    *state = &played;
    return 0;
}

static void played_close(void *state)
{
    (void)state;
    mc_assert(played.count == 0);
}

static bool selects(const struct weft__op *op)
{
    return (op->mode & WEFT__OP_SELECT) != 0;
}

static void finish(struct weft__op *op, int64_t result)
{
    op->stage = 0;
    op->result = result;
    op->result_flags = 0;
    if (result > 0 && selects(op)) {
        uint32_t number = (uint32_t)played.received++;
        played.out[number] = true;
        played.buffers[number] = BYTES;
        op->result_flags = WEFT__OP_BUFFER | number << 16;
    } else if (result > 0) {
        *(int *)op->data = BYTES;
    }
}

/// Whether it ends without being cancelled.
static bool will_end(const struct weft__op *op)
{
    return !selects(op) || played.received < MESSAGES;
}

/// What is submitted meanwhile ends at the next one.
static int played_poll(void *state)
{
    (void)state;
    int events = 0;
    for (int left = played.count; left > 0; left--) {
        struct weft__op *op = played.pending[0];
        played.count--;
        memmove(&played.pending[0], &played.pending[1], sizeof played.pending[0] * (OPS - 1));
        if (op->result == 0 && !will_end(op)) {
            played.pending[played.count++] = op;
            continue;
        }
        finish(op, op->result < 0 ? op->result : 1);
        op->done(op);
        events++;
    }
    return events;
}

static int played_wait(void *state, weft_time until)
{
    (void)until;
    int events = played_poll(state);
    if (events == 0) {
        mc_event_wait(&kernel);
    }
    return events;
}

static void played_kick(void *state, void *from)
{
    (void)state;
    (void)from;
    mc_event_set(&kernel);
}

static bool played_submit(void *state, struct weft__op *op)
{
    (void)state;
    op->result = 0;
    mc_assert(!selects(op) || played.forgotten == 0); // R5
    if (will_end(op) && mc_choose(2) == 0) {
        finish(op, 1);
        return true;
    }
    op->stage = 1;
    played.pending[played.count++] = op;
    return false;
}

static void played_cancel(void *state, struct weft__op *op)
{
    (void)state;
    if (op->stage != 0 && (!will_end(op) || mc_choose(2) == 0)) {
        op->result = -ECANCELED;
    }
}

static void played_forget(void *state, int fd)
{
    (void)state;
    mc_assert(fd == FD);
    for (int i = 0; i < played.count; i++) {
        if (!will_end(played.pending[i]) || mc_choose(2) == 0) { // or bytes win
            played.pending[i]->result = -ECANCELED;
        }
    }
    played.forgotten++;
}

static void *played_buffer(void *state, uint16_t number)
{
    (void)state;
    return &played.buffers[number];
}

static void played_give(void *state, uint16_t number)
{
    (void)state;
    mc_assert(played.out[number]);
    played.out[number] = false;
}

const struct weft__driver weft__epoll_driver = {
    .name = "played",
    .open = played_open,
    .close = played_close,
    .poll = played_poll,
    .wait = played_wait,
    .kick = played_kick,
    .submit = played_submit,
    .cancel = played_cancel,
    .forget = played_forget,
    .buffer = played_buffer,
    .give = played_give,
};
#ifdef WEFT_HAVE_URING
const struct weft__driver weft__uring_driver;
const struct weft__sockets weft__sockets_blocking;
#endif
const struct weft__sockets weft__sockets_nonblocking;

// The machine.

static struct weft__remote_fd fds[8];
static void *(*thread_body)(void *arg);

int weft__sys_map(void **base, size_t size_bytes, size_t align)
{
    (void)size_bytes;
    (void)align;
    *base = fds;
    return 0;
}

void weft__sys_unmap(void *base, size_t size_bytes)
{
    (void)base;
    (void)size_bytes;
}

size_t weft__sys_page_bytes(void)
{
    return 4096;
}

int weft__sys_eventfd(unsigned initial)
{
    (void)initial;
    return -EMFILE;
}

int weft__sys_close(int fd)
{
    (void)fd;
    return 0;
}

void weft__event_signal(int fd)
{
    mc_fail("nobody watches %d", fd);
}

void weft__event_drain(int fd)
{
    (void)fd;
}

weft_time weft__clock_ns(void)
{
    return 1;
}

static _Atomic uint32_t thread_ended;

static void run_thread(void *arg)
{
    (void)thread_body(arg);
    atomic_store_explicit(&thread_ended, 1, memory_order_release);
    mc_futex_wake(&thread_ended, 1);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *), void *arg)
{
    (void)attr;
    memset(thread, 0, sizeof *thread);
    thread_body = body;
    mc_thread(run_thread, arg);
    return 0;
}

int pthread_join(pthread_t thread, void **result)
{
    (void)thread;
    (void)result;
    while (atomic_load_explicit(&thread_ended, memory_order_acquire) == 0) {
        mc_futex_wait(&thread_ended, 0);
    }
    return 0;
}

int pthread_setname_np(pthread_t thread, const char *name)
{
    (void)thread;
    (void)name;
    return 0;
}

int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    (void)how;
    (void)set;
    (void)old;
    return 0;
}

// The carrier.

static struct weft__crew crew;
static struct weft__carrier carrier;
static struct weft__op ops[OPS];
static int bytes[OPS]; // plain
static int ended;

static void done(struct weft__op *op)
{
    mc_assert(op->result == 1 || op->result == -ECANCELED);
    mc_assert(op->result != 1 || bytes[op - ops] == BYTES);
    ended++;
}

static const struct weft__driver *remote;
static void *state;
static int messages;

static void received(struct weft__op *op)
{
    if ((op->result_flags & WEFT__OP_BUFFER) != 0) {
        uint16_t number = weft__op_buffer(op);
        mc_assert(number == messages);
        mc_assert(*(int *)remote->buffer(state, number) == BYTES);
        messages++;
        remote->give(state, number);
    } else {
        mc_assert(op->result == -ECANCELED);
    }
    ended += (op->result_flags & WEFT__OP_MORE) == 0;
}

static void begin(void)
{
    static const struct weft__driver_config for_threads = { .buffers = BUFFERS };
    const struct weft__driver_config config = { .carrier = &carrier };
    int rc = weft__driver_threads_start(&crew.driver_threads, &weft__epoll_driver, 1, 1,
                                        &for_threads);
    mc_assert(rc == 0);
    remote = weft__remote_driver(&weft__epoll_driver);
    rc = remote->open(&state, &config);
    mc_assert(rc == 0);
}

static void submit(int number)
{
    weft__op_init(&ops[number], WEFT__OP_READ, FD, &bytes[number], sizeof bytes[number]);
    ops[number].done = done;
    bool at_once = remote->submit(state, &ops[number]);
    mc_assert(!at_once);
}

static void await(int count)
{
    while (ended < count) {
        (void)remote->wait(state, WEFT_FOREVER);
    }
}

static void finish_all(void)
{
    remote->drain(state);
    weft__driver_threads_stop(crew.driver_threads);
    remote->close(state);
    weft__driver_threads_free(crew.driver_threads);
}

static void run_one(void *unused)
{
    (void)unused;
    begin();
    submit(0);
    await(1);
    finish_all();
}

static void run_cancel(void *unused)
{
    (void)unused;
    begin();
    submit(0);
    (void)remote->poll(state);
    remote->cancel(state, &ops[0]);
    await(1);
    finish_all();
}

static void run_forget(void *unused)
{
    (void)unused;
    begin();
    submit(0);
    remote->forget(state, FD);
    mc_assert(played.forgotten == 1); // R5: ordered
    await(1);
    remote->forget(state, FD); // nothing is remembered
    mc_assert(played.forgotten == 1);
    finish_all();
}

static void run_goes_on(void *unused)
{
    (void)unused;
    begin();
    weft__op_init(&ops[0], WEFT__OP_RECV, FD, NULL, 0);
    ops[0].mode = WEFT__OP_SELECT | WEFT__OP_MULTI;
    ops[0].done = received;
    mc_assert(!remote->submit(state, &ops[0]));
    while (messages == 0) {
        (void)remote->wait(state, WEFT_FOREVER);
    }
    remote->forget(state, FD);
    await(1);
    finish_all();
    for (int i = 0; i < BUFFERS; i++) {
        mc_assert(!played.out[i]);
    }
}

static void run_drain(void *unused)
{
    (void)unused;
    begin();
    submit(0);
    finish_all();
    mc_assert(ended == 0);
}

static void start(void (*body)(void *))
{
    memset(&crew, 0, sizeof crew);
    memset(&carrier, 0, offsetof(struct weft__carrier, wheel));
    memset(&played, 0, sizeof played);
    memset(fds, 0, sizeof fds);
    memset(bytes, 0, sizeof bytes);
    memset(ops, 0, sizeof ops);
    atomic_init(&thread_ended, 0);
    ended = messages = 0;
    carrier.crew = &crew;
    mc_thread(body, NULL);
}

static void one(void)
{
    start(run_one);
}

static void cancelled(void)
{
    start(run_cancel);
}

static void forgotten(void)
{
    start(run_forget);
}

static void goes_on(void)
{
    start(run_goes_on);
}

static void drained(void)
{
    start(run_drain);
}

const struct mc_model mc_models[] = {
    { .name = "remote_one", .setup = one, .max_bound = 1 },
    { .name = "remote_cancelled", .setup = cancelled, .max_bound = 1 },
    { .name = "remote_forgotten", .setup = forgotten, .max_bound = 1 },
    { .name = "remote_goes_on", .setup = goes_on, .max_bound = 1 },
    { .name = "remote_drained", .setup = drained, .max_bound = 1 },
    { .name = NULL },
};
