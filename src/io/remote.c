// remote.c - the driver of a carrier whose operations are in the hands of a driver thread; remote.h has
// the rules.
#include "io/remote.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/sys.h"
#include "io/direct.h"
#include "io/event.h"
#include "io/io.h"
#include "io/sockets.h"
#include "sched/crew.h"

/// A peer that never acknowledges bytes sent without a copy is not waited for.
#define DRAIN_LIMIT_NS (1 * WEFT_S)

static inline void count(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/// NULL: beyond the table.
static inline struct weft__remote_fd *entry_of(struct weft__remote *r, int fd)
{
    return (unsigned)fd < WEFT__REMOTE_FDS ? &r->fds[fd] : NULL;
}

static inline void call_thread(struct weft__remote *r)
{
    if (r->wrote || r->gave) {
        weft__driver_thread_call(r->thread, r->wrote);
        r->wrote = r->gave = false;
    }
}

// Errands.

static struct weft__errand *take_errand(struct weft__remote *r)
{
    struct weft__errand *errand = r->idle;
    if (errand != NULL) {
        r->idle = errand->next;
    } else {
        errand = weft__alloc(r->allocator, sizeof *errand, _Alignof(struct weft__errand));
        if (errand == NULL) {
            return NULL;
        }
        errand->remote = r;
        errand->made_before = r->all;
        r->all = errand;
    }
    errand->next = r->out;
    errand->link = &r->out;
    if (errand->next != NULL) {
        errand->next->link = &errand->next;
    }
    r->out = errand;
    r->out_count++;
    return errand;
}

/// R3.
static void put_back_if_free(struct weft__remote *r, struct weft__errand *errand)
{
    if (!errand->ended || errand->asking) {
        return;
    }
    *errand->link = errand->next;
    if (errand->next != NULL) {
        errand->next->link = errand->link;
    }
    errand->next = r->idle;
    r->idle = errand;
    r->out_count--;
}

static inline bool is_write(const struct weft__op *op)
{
    switch (op->code) {
    case WEFT__OP_WRITE:
    case WEFT__OP_WRITEV:
    case WEFT__OP_SEND:
    case WEFT__OP_SEND_ZC:
    case WEFT__OP_SENDMSG: return true;
    default: return false;
    }
}

static inline bool is_of_sockets(const struct weft__op *op)
{
    return op->code == WEFT__OP_RECV || op->code == WEFT__OP_SEND || op->code == WEFT__OP_SEND_ZC;
}

static void note_use(struct weft__remote *r, const struct weft__op *op)
{
    struct weft__remote_fd *entry = entry_of(r, op->fd);
    if (entry != NULL) {
        entry->ops++;
        entry->writers += is_write(op);
        entry->touched = true;
        entry->is_socket |= is_of_sockets(op);
        entry->goes_on |= (op->mode & WEFT__OP_MULTI) != 0;
    }
    entry = op->code == WEFT__OP_SPLICE ? entry_of(r, op->from_fd) : NULL;
    if (entry != NULL) {
        entry->ops++;
        entry->touched = true;
    }
}

static void note_end(struct weft__remote *r, const struct weft__op *op)
{
    struct weft__remote_fd *entry = entry_of(r, op->fd);
    if (entry != NULL) {
        entry->ops--;
        entry->writers -= is_write(op);
    }
    entry = op->code == WEFT__OP_SPLICE ? entry_of(r, op->from_fd) : NULL;
    if (entry != NULL) {
        entry->ops--;
    }
}

static inline bool may_go_on(const struct weft__op *op)
{
    if ((op->mode & WEFT__OP_MULTI) == 0) {
        return false;
    }
    if (op->code == WEFT__OP_RECV) {
        return (op->mode & WEFT__OP_SELECT) != 0;
    }
    // Or each would overwrite the address of the one before.
    return op->code == WEFT__OP_ACCEPT && op->data == NULL;
}

static bool remote_submit(void *state, struct weft__op *op)
{
    struct weft__remote *r = state;
    struct weft__errand *errand = take_errand(r);
    if (weft__unlikely(errand == NULL)) {
        op->result = -ENOMEM;
        op->result_flags = 0;
        return true;
    }
    errand->op = *op;
    errand->op.done = weft__errand_done;
    errand->op.stage = errand->op.scratch = 0;
    errand->op.result_flags = 0;
    errand->op.result = 0;
    errand->owner = op;
    errand->goes_on = may_go_on(op);
    errand->op.mode &= (uint8_t)~WEFT__OP_MULTI; // R7
    errand->asked = errand->over = false;
    errand->asking = errand->ended = errand->notifies = false;
    op->extra = errand;
    op->stage = 1;
    note_use(r, op);
    weft__op_count(&r->counts.submitted, op);
    errand->node.kind = WEFT__LETTER_SUBMIT;
    weft__post_put(&r->thread->post, &errand->node);
    r->wrote = true;
    return false;
}

static void ask(struct weft__remote *r, struct weft__errand *errand)
{
    if (!errand->asking && !errand->ended) {
        errand->asking = true;
        count(&r->counts.cancels);
        errand->cancel.kind = WEFT__LETTER_CANCEL;
        weft__post_put(&r->thread->post, &errand->cancel);
        r->wrote = true;
    }
}

static void remote_cancel(void *state, struct weft__op *op)
{
    if (op->stage != 0) {
        ask(state, op->extra);
    }
}

// Answers.

/// After drain() nobody wants to know; what it brought must not be lost.
static void drop(const struct weft__op *op, int64_t result)
{
    if (op->code == WEFT__OP_ACCEPT && result >= 0) {
        weft__sys_close((int)result);
    }
}

static void take_result(struct weft__remote *r, struct weft__parcel *parcel)
{
    struct weft__errand *errand = parcel->errand;
    struct weft__op *owner = errand->owner;
    int64_t result = parcel->result;
    uint32_t flags = parcel->result_flags;
    errand->notifies = errand->op.code == WEFT__OP_SEND_ZC;
    if (parcel->single) {
        weft__free(r->allocator, parcel, sizeof *parcel);
    }
    if (weft__unlikely(r->drained)) {
        drop(&errand->op, result);
        return;
    }
    owner->result = result;
    owner->result_flags = flags;
    owner->done(owner);
}

static void take_last(struct weft__remote *r, struct weft__errand *errand)
{
    struct weft__op *owner = errand->owner;
    int64_t result = errand->op.result;
    uint32_t flags = errand->op.result_flags;
    note_end(r, &errand->op);
    weft__op_count(&r->counts.completed, &errand->op);
    errand->ended = true;
    if (weft__unlikely(r->drained)) {
        drop(&errand->op, result);
        put_back_if_free(r, errand);
        return;
    }
    put_back_if_free(r, errand);
    owner->stage = 0;
    owner->extra = NULL;
    owner->result = result;
    owner->result_flags = flags;
    owner->done(owner);
}

/// Returns how many results there were.
static int take_answers(struct weft__remote *r)
{
    int events = 0;
    struct weft__node *node = weft__inbox_take(&r->answers);
    while (node != NULL) {
        struct weft__node *next = node->next;
        switch ((enum weft__letter)node->kind) {
        case WEFT__ANSWER_RESULT:
            take_result(r, weft__container_of(node, struct weft__parcel, node));
            events++;
            break;
        case WEFT__ANSWER_LAST:
            take_last(r, weft__container_of(node, struct weft__errand, node));
            events++;
            break;
        default: {
            struct weft__errand *errand = weft__container_of(node, struct weft__errand, cancel);
            errand->asking = false;
            put_back_if_free(r, errand);
        }
        }
        node = next;
    }
    return events;
}

static int remote_poll(void *state)
{
    struct weft__remote *r = state;
    call_thread(r);
    return take_answers(r);
}

static int remote_wait(void *state, weft_time until)
{
    struct weft__remote *r = state;
    uint32_t enough = r->drained ? WEFT__DOORBELL_RUNG | WEFT__DOORBELL_KICKED
                                 : WEFT__DOORBELL_KICKED;
    call_thread(r);
    for (;;) {
        uint32_t why = weft__doorbell_take(&r->bell, false);
        int events = take_answers(r);
        if (events > 0 || (why & enough) != 0 ||
            (until != WEFT_FOREVER && weft__clock_ns() >= until)) {
            return events;
        }
        weft__doorbell_sleep(&r->bell, until);
    }
}

static int remote_lookout(void *state, int *fd, weft_time *until)
{
    struct weft__remote *r = state;
    if (r->bell.fd < 0) {
        int rc = weft__sys_eventfd(0);
        if (rc < 0) {
            return rc;
        }
        r->bell.fd = rc;
    }
    call_thread(r);
    weft__event_drain(r->bell.fd); // first: who rings from now on signals again
    (void)weft__doorbell_take(&r->bell, true);
    *fd = r->bell.fd;
    *until = WEFT_FOREVER;
    int events = take_answers(r);
    call_thread(r); // what that led to
    return events;
}

static void remote_kick(void *state, void *from)
{
    struct weft__remote *r = state;
    (void)from;
    weft__doorbell_ring(&r->bell, WEFT__DOORBELL_KICKED);
}

// The rest.

/// R5.
static void wait_for_thread(struct weft__remote *r, int fd)
{
    r->forget_fd = fd;
    atomic_store_explicit(&r->forgetting, 1, memory_order_relaxed);
    r->forget.kind = WEFT__LETTER_FORGET;
    weft__post_put(&r->thread->post, &r->forget);
    r->wrote = true;
    call_thread(r);
    while (atomic_load_explicit(&r->forgetting, memory_order_acquire) != 0) {
        (void)weft__futex_wait(&r->forgetting, 1, WEFT_FOREVER);
    }
}

/// R5.
static void stop_going_on(struct weft__remote *r, int fd)
{
    for (struct weft__errand *errand = r->out; errand != NULL; errand = errand->next) {
        // One that has ended waits for ASKED (R3), and its owner may be gone.
        if (errand->goes_on && !errand->ended && errand->owner->fd == fd) {
            ask(r, errand);
        }
    }
}

static void remote_forget(void *state, int fd)
{
    struct weft__remote *r = state;
    struct weft__remote_fd *entry = entry_of(r, fd);
    if (fd < 0 || (entry != NULL && !entry->touched)) {
        return;
    }
    bool needed = entry == NULL || entry->ops > 0 || r->thread->driver == &weft__epoll_driver;
    if (entry == NULL || (entry->goes_on && entry->ops > 0)) {
        stop_going_on(r, fd);
    }
    if (entry != NULL) {
        entry->touched = entry->is_socket = entry->goes_on = false;
    }
    if (needed) { // a ring remembers nothing but ops in flight
        wait_for_thread(r, fd);
    }
}

/// The carrier calls send() itself: it does not wait, so nobody else is needed. Not before ops that are
/// under way.
static int64_t remote_write_now(void *state, int fd, const void *data, size_t size)
{
    struct weft__remote *r = state;
    const struct weft__remote_fd *entry = entry_of(r, fd);
    if (entry == NULL || !entry->is_socket || entry->writers > 0) {
        return -EAGAIN;
    }
    int64_t n = weft__send(fd, data, size, 0);
    if (weft__unlikely(n == -ENOTSOCK || n == -EAGAIN || n == -EWOULDBLOCK || n == -EINTR)) {
        return -EAGAIN;
    }
    count(&r->counts.submitted);
    count(&r->counts.completed);
    if (weft__unlikely(n >= 0 && (size_t)n < size)) {
        count(&r->counts.short_writes);
    }
    return n;
}

static void *remote_buffer(void *state, uint16_t number)
{
    struct weft__driver_thread *thread = ((struct weft__remote *)state)->thread;
    return thread->driver->buffer(thread->state, number);
}

static void remote_give(void *state, uint16_t number)
{
    struct weft__remote *r = state;
    struct weft__parcel *parcel = &r->thread->parcels[number];
    parcel->node.kind = WEFT__LETTER_GIVE;
    weft__post_put(&r->thread->post, &parcel->node);
    r->gave = true;
}

static const struct weft__op_counts *remote_counts(void *state)
{
    return &((struct weft__remote *)state)->counts;
}

// Coming and going.

#define FDS_BYTES (WEFT__REMOTE_FDS * sizeof(struct weft__remote_fd))

static int remote_open(void **state, const struct weft__driver_config *config)
{
    struct weft__carrier *carrier = config->carrier;
    struct weft__driver_threads *threads = carrier->crew->driver_threads;
    void *memory;
    *state = NULL;
    struct weft__remote *r = weft__alloc(config->allocator, sizeof *r,
                                         _Alignof(struct weft__remote));
    if (r == NULL) {
        return -ENOMEM;
    }
    int rc = weft__sys_map(&memory, FDS_BYTES, weft__sys_page_bytes());
    if (rc < 0) {
        weft__free(config->allocator, r, sizeof *r);
        return rc;
    }
    unsigned most = threads->buffers_each / 4 * 3;
    carrier->buffers_limit = most < carrier->buffers_limit ? most : carrier->buffers_limit;
    r->fds = memory;
    r->bell.fd = -1;
    r->allocator = config->allocator;
    r->thread = &threads->threads[carrier->number % threads->count];
    *state = r;
    return 0;
}

/// Whether the peers of SEND_ZC are all that is waited for.
static bool only_notices(const struct weft__remote *r)
{
    for (const struct weft__errand *errand = r->out; errand != NULL; errand = errand->next) {
        if (!errand->notifies) {
            return false;
        }
    }
    return true;
}

static void remote_drain(void *state)
{
    struct weft__remote *r = state;
    if (r->drained) {
        return;
    }
    r->drained = true;
    for (struct weft__errand *errand = r->out; errand != NULL; errand = errand->next) {
        ask(r, errand);
    }
    weft_time limit = weft__clock_ns() + DRAIN_LIMIT_NS;
    while (r->out_count > 0) {
        weft_time until = only_notices(r) ? limit : WEFT_FOREVER;
        if (until == limit && weft__clock_ns() >= limit) {
            break;
        }
        (void)remote_wait(r, until);
    }
    wait_for_thread(r, -1); // it rings no more for what is over
}

static void remote_close(void *state)
{
    struct weft__remote *r = state;
    r->drained = true;
    (void)take_answers(r); // of those that drain() did not wait for
    for (struct weft__errand *errand = r->all; errand != NULL;) {
        struct weft__errand *next = errand->made_before;
        weft__free(r->allocator, errand, sizeof *errand);
        errand = next;
    }
    if (r->bell.fd >= 0) {
        weft__sys_close(r->bell.fd);
    }
    weft__sys_unmap(r->fds, FDS_BYTES);
    weft__free(r->allocator, r, sizeof *r);
}

#define COMMON                                                                                     \
    .open = remote_open, .close = remote_close, .drain = remote_drain, .poll = remote_poll,        \
    .wait = remote_wait, .lookout = remote_lookout, .kick = remote_kick, .submit = remote_submit,  \
    .write_now = remote_write_now, .cancel = remote_cancel, .forget = remote_forget,               \
    .buffer = remote_buffer, .give = remote_give, .counts = remote_counts

static const struct weft__driver remote_epoll = {
    .name = "epoll",
    COMMON,
    .sockets = &weft__sockets_nonblocking,
};

#ifdef WEFT_HAVE_URING
static const struct weft__driver remote_uring = {
    .name = "uring",
    COMMON,
    .sockets = &weft__sockets_blocking,
};
#endif

const struct weft__driver *weft__remote_driver(const struct weft__driver *driver)
{
#ifdef WEFT_HAVE_URING
    if (driver == &weft__uring_driver) {
        return &remote_uring;
    }
#endif
    return driver == &weft__epoll_driver ? &remote_epoll : driver;
}
