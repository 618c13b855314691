// driver_thread.c - the thread that has the real driver; remote.h has the rules.
#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/sys.h"
#include "io/remote.h"

#define THREAD_NAME_BYTES 16 // the kernel's limit
#define MOST_BUFFERS 32768u  // the kernel's, of a ring

/// So many connections one accept brings, before its owner has to ask again (R7).
#define MOST_ACCEPTS WEFT__SIZED(64, 2)

/// Carriers are rung when all is done that there is to do, once each.
static void answer(struct weft__driver_thread *thread, struct weft__remote *remote,
                   struct weft__node *node, enum weft__letter kind)
{
    node->kind = (uint8_t)kind;
    weft__inbox_push(&remote->answers, node);
    if (!remote->due) {
        remote->due = true;
        remote->next_due = thread->due;
        thread->due = remote;
    }
}

static void ring_due(struct weft__driver_thread *thread)
{
    struct weft__remote *remote;
    while ((remote = thread->due) != NULL) {
        thread->due = remote->next_due;
        remote->due = false;
        weft__doorbell_ring(&remote->bell, WEFT__DOORBELL_RUNG);
    }
}

// Results.

static struct weft__parcel *make_parcel(struct weft__driver_thread *thread)
{
    struct weft__parcel *parcel = weft__alloc(thread->allocator, sizeof *parcel,
                                              _Alignof(struct weft__parcel));
    if (parcel != NULL) {
        parcel->single = true;
    }
    return parcel;
}

static void send_parcel(struct weft__driver_thread *thread, struct weft__errand *errand,
                        struct weft__parcel *parcel, uint32_t flags)
{
    parcel->errand = errand;
    parcel->result = errand->op.result;
    parcel->result_flags = errand->op.result_flags | flags;
    answer(thread, errand->remote, &parcel->node, WEFT__ANSWER_RESULT);
}

/// Its last touch of an errand for which no cancel is under way.
static void end(struct weft__driver_thread *thread, struct weft__errand *errand)
{
    errand->over = true;
    if (errand->next_parcel != NULL) {
        weft__free(thread->allocator, errand->next_parcel, sizeof *errand->next_parcel);
        errand->next_parcel = NULL;
    }
    answer(thread, errand->remote, &errand->node, WEFT__ANSWER_LAST);
}

/// R4, R7. What tells of the result if the op, which has ended, goes on; NULL: it does not.
static struct weft__parcel *goes_on_with(struct weft__driver_thread *thread,
                                         struct weft__errand *errand)
{
    struct weft__op *op = &errand->op;
    struct weft__parcel *parcel = errand->next_parcel;
    if (errand->asked || op->result < 0) {
        return NULL;
    }
    if (op->code == WEFT__OP_RECV) {
        bool more = (op->result_flags & WEFT__OP_BUFFER) != 0 && op->result > 0 &&
                    errand->remote->buffers_out < thread->share;
        return more ? &thread->parcels[weft__op_buffer(op)] : NULL;
    }
    if (parcel == NULL || errand->accepts++ >= MOST_ACCEPTS) {
        return NULL;
    }
    errand->next_parcel = make_parcel(thread);
    return parcel;
}

/// Counts a receive buffer that the carrier has from now on. Returns whether there is one.
static bool count_buffer(struct weft__driver_thread *thread, struct weft__errand *errand)
{
    if ((errand->op.result_flags & WEFT__OP_BUFFER) == 0) {
        return false;
    }
    thread->parcels[weft__op_buffer(&errand->op)].remote = errand->remote;
    errand->remote->buffers_out++;
    thread->buffers_out++;
    return true;
}

static void finished(struct weft__driver_thread *thread, struct weft__errand *errand)
{
    struct weft__op *op = &errand->op;
    do {
        bool buffer = count_buffer(thread, errand);
        if ((op->result_flags & WEFT__OP_MORE) != 0) {
            send_parcel(thread, errand,
                        buffer ? &thread->parcels[weft__op_buffer(op)] : &errand->parcel, 0);
            return;
        }
        struct weft__parcel *parcel = errand->goes_on ? goes_on_with(thread, errand) : NULL;
        if (parcel == NULL) {
            end(thread, errand);
            return;
        }
        send_parcel(thread, errand, parcel, WEFT__OP_MORE);
        op->result = 0;
        op->result_flags = 0;
    } while (thread->driver->submit(thread->state, op));
}

void weft__errand_done(struct weft__op *op)
{
    struct weft__errand *errand = weft__container_of(op, struct weft__errand, op);
    finished(errand->remote->thread, errand);
}

// Letters.

static void start(struct weft__driver_thread *thread, struct weft__errand *errand)
{
    bool accepts = errand->goes_on && errand->op.code == WEFT__OP_ACCEPT;
    errand->next_parcel = accepts ? make_parcel(thread) : NULL;
    errand->accepts = 0;
    if (thread->driver->submit(thread->state, &errand->op)) {
        finished(thread, errand);
    }
}

static void ask(struct weft__driver_thread *thread, struct weft__errand *errand)
{
    errand->asked = true;
    if (!errand->over) {
        thread->driver->cancel(thread->state, &errand->op);
    }
    answer(thread, errand->remote, &errand->cancel, WEFT__ANSWER_ASKED);
}

/// R5. The carrier may go when it has the answer, so it is rung first.
static void forget(struct weft__driver_thread *thread, struct weft__remote *remote)
{
    if (remote->forget_fd >= 0) {
        thread->driver->forget(thread->state, remote->forget_fd);
    }
    ring_due(thread);
    atomic_store_explicit(&remote->forgetting, 0, memory_order_release);
    weft__futex_wake(&remote->forgetting, 1);
}

static void give(struct weft__driver_thread *thread, const struct weft__parcel *parcel)
{
    thread->buffers_out--;
    parcel->remote->buffers_out--;
    thread->driver->give(thread->state, (uint16_t)(parcel - thread->parcels));
}

static void open_letter(struct weft__driver_thread *thread, struct weft__node *node)
{
    switch ((enum weft__letter)node->kind) {
    case WEFT__LETTER_SUBMIT:
        start(thread, weft__container_of(node, struct weft__errand, node));
        break;
    case WEFT__LETTER_CANCEL:
        ask(thread, weft__container_of(node, struct weft__errand, cancel));
        break;
    case WEFT__LETTER_GIVE:
        give(thread, weft__container_of(node, struct weft__parcel, node));
        break;
    case WEFT__LETTER_FORGET:
        forget(thread, weft__container_of(node, struct weft__remote, forget));
        break;
    default: thread->stop = true;
    }
}

/// False: it is to stop.
static bool open_letters(struct weft__driver_thread *thread)
{
    struct weft__node *node = weft__inbox_take(&thread->post.inbox);
    while (node != NULL) {
        struct weft__node *next = node->next; // its storage may be gone afterwards
        open_letter(thread, node);
        node = next;
    }
    ring_due(thread);
    return !thread->stop;
}

static void serve(struct weft__driver_thread *thread)
{
    while (open_letters(thread)) {
        if (weft__post_sleep(&thread->post, thread->buffers_out >= thread->buffers / 2)) {
            (void)thread->driver->wait(thread->state, WEFT_FOREVER);
            weft__post_awake(&thread->post);
        } else {
            (void)thread->driver->poll(thread->state);
        }
        ring_due(thread);
    }
}

// Coming and going.

static void *thread_main(void *arg)
{
    struct weft__driver_thread *thread = arg;
    char name[THREAD_NAME_BYTES];
    (void)snprintf(name, sizeof name, "weft-driver-%d", thread->number);
    (void)pthread_setname_np(pthread_self(), name);
    int rc = thread->driver->open(&thread->state, thread->config); // a ring is its thread's
    thread->start_error = rc;
    atomic_store_explicit(&thread->reported, 1, memory_order_release);
    weft__futex_wake(&thread->reported, 1); // by its address; after an error the memory may be gone
    if (rc < 0) {
        return NULL;
    }
    serve(thread);
    if (thread->driver->drain != NULL) {
        thread->driver->drain(thread->state);
    }
    return NULL;
}

/// With all signals blocked: they are for threads that the program knows.
static int make_thread(struct weft__driver_thread *thread)
{
    sigset_t all;
    sigset_t old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = -pthread_create(&thread->thread, NULL, thread_main, thread);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc < 0) {
        return rc;
    }
    while (atomic_load_explicit(&thread->reported, memory_order_acquire) == 0) {
        (void)weft__futex_wait(&thread->reported, 0, WEFT_FOREVER);
    }
    if (thread->start_error < 0) {
        pthread_join(thread->thread, NULL);
    }
    return thread->start_error;
}

static int start_thread(struct weft__driver_threads *threads, int number,
                        const struct weft__driver *driver)
{
    struct weft__driver_thread *thread = &threads->threads[number];
    thread->driver = driver;
    thread->allocator = threads->config.allocator;
    thread->config = &threads->config;
    thread->number = number;
    thread->buffers = threads->config.buffers;
    thread->share = threads->buffers_each / 2;
    thread->stopper.kind = WEFT__LETTER_STOP;
    thread->parcels = weft__alloc(thread->allocator, thread->buffers * sizeof *thread->parcels,
                                  _Alignof(struct weft__parcel));
    return thread->parcels != NULL ? make_thread(thread) : -ENOMEM;
}

/// Receive buffers of all carriers of one thread, a power of two.
static void share_buffers(struct weft__driver_threads *threads, int carriers)
{
    uint32_t served = (uint32_t)((carriers + threads->count - 1) / threads->count);
    uint32_t each = threads->config.buffers;
    uint32_t all = each;
    while (all < each * served && all < MOST_BUFFERS) {
        all *= 2;
    }
    threads->config.buffers = all;
    threads->buffers_each = all / served < each ? all / served : each;
}

int weft__driver_threads_start(struct weft__driver_threads **out, const struct weft__driver *driver,
                               int count, int carriers, const struct weft__driver_config *config)
{
    *out = NULL;
    struct weft__driver_threads *threads = weft__alloc(config->allocator, sizeof *threads,
                                                       _Alignof(struct weft__driver_threads));
    if (threads == NULL) {
        return -ENOMEM;
    }
    threads->config = *config;
    threads->count = count < carriers ? count : carriers;
    share_buffers(threads, carriers);
    threads->threads = weft__alloc(config->allocator,
                                   (size_t)threads->count * sizeof *threads->threads,
                                   _Alignof(struct weft__driver_thread));
    int rc = threads->threads != NULL ? 0 : -ENOMEM;
    for (int i = 0; i < threads->count && rc == 0; i++) {
        rc = start_thread(threads, i, driver);
    }
    if (rc < 0) {
        weft__driver_threads_stop(threads);
        weft__driver_threads_free(threads);
        return rc;
    }
    *out = threads;
    return 0;
}

void weft__driver_threads_stop(struct weft__driver_threads *threads)
{
    for (int i = 0; threads != NULL && threads->threads != NULL && i < threads->count; i++) {
        struct weft__driver_thread *thread = &threads->threads[i];
        if (thread->state != NULL) {
            weft__post_put(&thread->post, &thread->stopper);
            weft__driver_thread_call(thread, true);
            pthread_join(thread->thread, NULL);
            thread->driver->close(thread->state);
            thread->state = NULL;
        }
    }
}

void weft__driver_threads_free(struct weft__driver_threads *threads)
{
    if (threads == NULL) {
        return;
    }
    const struct weft_allocator *allocator = threads->config.allocator;
    for (int i = 0; threads->threads != NULL && i < threads->count; i++) {
        struct weft__driver_thread *thread = &threads->threads[i];
        weft__free(allocator, thread->parcels, thread->buffers * sizeof *thread->parcels);
    }
    weft__free(allocator, threads->threads, (size_t)threads->count * sizeof *threads->threads);
    weft__free(allocator, threads, sizeof *threads);
}

const struct weft__op_counts *weft__driver_threads_counts(
    const struct weft__driver_threads *threads, int number)
{
    if (threads == NULL || number >= threads->count) {
        return NULL;
    }
    const struct weft__driver_thread *thread = &threads->threads[number];
    return thread->driver->counts(thread->state);
}
