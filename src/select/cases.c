// cases.c - making cases, and what each kind of them waits for.
#include <errno.h>

#include "chan/case.h"
#include "select/select.h"
#include "sync/case.h"

/// Only the words that matter before a select are written, so a case costs a few stores. They are
/// written as what they are declared as, for compilers that look at both sides.
static inline struct weft_case make(enum weft__case_kind kind, uint64_t object, uint64_t want)
{
    struct weft_case made;
    made.result = 0;
    made.opaque[0] = want;
    made.opaque[1] = object;
    made.opaque[2] = kind;
    return made;
}
_Static_assert(offsetof(struct weft__case, want) == offsetof(struct weft_case, opaque[0]),
               "layout");
_Static_assert(offsetof(struct weft__case, object) == offsetof(struct weft_case, opaque[1]),
               "layout");
_Static_assert(offsetof(struct weft__case, kind) == offsetof(struct weft_case, opaque[2]),
               "layout");

static struct weft_case make_for(enum weft__case_kind kind, const void *object, uint64_t want)
{
    return make(object != NULL ? kind : WEFT__CASE_NONE, (uintptr_t)object, want);
}

struct weft_case weft_case_none(void)
{
    return make(WEFT__CASE_NONE, 0, 0);
}

struct weft_case weft_case_recv(weft_chan *chan, void *item)
{
    return make_for(WEFT__CASE_RECV, chan, (uintptr_t)item);
}

struct weft_case weft_case_send(weft_chan *chan, const void *item)
{
    return make_for(WEFT__CASE_SEND, chan, (uintptr_t)item);
}

struct weft_case weft_case_reserve(weft_chan *chan)
{
    return make_for(WEFT__CASE_RESERVE, chan, 0);
}

struct weft_case weft_case_mailbox(weft_mailbox *mailbox, void *item)
{
    return make_for(WEFT__CASE_MAILBOX, mailbox, (uintptr_t)item);
}

struct weft_case weft_case_broadcast(struct weft_broadcast_receiver *receiver, void *item)
{
    return make_for(WEFT__CASE_BROADCAST, receiver, (uintptr_t)item);
}

struct weft_case weft_case_watch(weft_watch *watch, uint64_t seen)
{
    return make_for(WEFT__CASE_WATCH, watch, seen);
}

struct weft_case weft_case_oneshot(struct weft_oneshot *oneshot, void *value)
{
    return make_for(WEFT__CASE_ONESHOT, oneshot, (uintptr_t)value);
}

struct weft_case weft_case_oneshot_closed(struct weft_oneshot *oneshot)
{
    return make_for(WEFT__CASE_ONESHOT_CLOSED, oneshot, 0);
}

struct weft_case weft_case_token(struct weft_token *token)
{
    return make_for(WEFT__CASE_TOKEN, token, 0);
}

struct weft_case weft_case_event(struct weft_event *event)
{
    return make_for(WEFT__CASE_EVENT, event, 0);
}

struct weft_case weft_case_notify(struct weft_notify *notify)
{
    return make_for(WEFT__CASE_NOTIFY, notify, 0);
}

struct weft_case weft_case_semaphore(struct weft_semaphore *semaphore, uint64_t count)
{
    return make_for(WEFT__CASE_SEMAPHORE, semaphore, count);
}

struct weft_case weft_case_join(weft_task *task)
{
    return make_for(WEFT__CASE_JOIN, task, 0);
}

struct weft_case weft_case_time(weft_time when)
{
    return make(when != WEFT_FOREVER ? WEFT__CASE_TIME : WEFT__CASE_NONE, 0, when);
}

struct weft_case weft_case_fd(int fd, int events)
{
    return make(fd >= 0 ? WEFT__CASE_FD : WEFT__CASE_NONE, (unsigned)fd, (unsigned)events);
}

void weft__case_prepare(struct weft__case *c)
{
    struct weft__waiter *waiter = &c->wait.waiter;
    switch ((enum weft__case_kind)c->kind) {
    case WEFT__CASE_RECV: weft__chan_recv_case(waiter, c->object, c->want); break;
    case WEFT__CASE_SEND: weft__chan_send_case(waiter, c->object, c->want); break;
    case WEFT__CASE_RESERVE: weft__chan_reserve_case(waiter, c->object); break;
    case WEFT__CASE_MAILBOX: weft__mailbox_recv_case(waiter, c->object, c->want); break;
    case WEFT__CASE_BROADCAST: weft__broadcast_recv_case(waiter, c->object, c->want); break;
    case WEFT__CASE_WATCH: weft__watch_wait_case(waiter, c->object, c->want); break;
    case WEFT__CASE_ONESHOT: weft__oneshot_recv_case(waiter, c->object, c->want); break;
    case WEFT__CASE_ONESHOT_CLOSED: weft__oneshot_closed_case(waiter, c->object); break;
    case WEFT__CASE_TOKEN: weft__token_case(waiter, c->object); break;
    case WEFT__CASE_EVENT: weft__event_case(waiter, c->object); break;
    case WEFT__CASE_NOTIFY: weft__notify_case(waiter, c->object); break;
    case WEFT__CASE_SEMAPHORE: weft__semaphore_case(waiter, c->object, c->want); break;
    case WEFT__CASE_NONE:
    case WEFT__CASE_TIME:
    case WEFT__CASE_JOIN:
    case WEFT__CASE_FD: weft_assert(!"a case without a waiter"); break;
    }
}

int weft__case_refuses(const struct weft__case *c, struct weft__task *self)
{
    if (c->kind == WEFT__CASE_JOIN) {
        const struct weft__task *task = c->object;
        return task == self ? -EDEADLK : weft__runtime_refuses(task->crew, weft__carrier_self());
    }
    return c->kind == WEFT__CASE_FD && self == NULL ? weft__no_task() : 0;
}
