// sim_ops.c - the simulator as a driver: ops wait, end, are cancelled, and use buffers.
//
//                  submit                    a try succeeds           poll
//     (caller's) ----------> WAITING ----------------------> READY --------> done(), (caller's)
//                  |            | cancel                       ^       |
//                  |            v                              |       | MORE: done(), then
//                  |          ASKED --- the next poll ---------+       v
//                  +------ a try succeeds, by draw ------------+    WAITING, or NOTIFYING
//
//   D1  Whether an op that can end at once does so inside submit() is drawn; so is whether a cancel
//       takes effect at once or at the next poll, where what arrives first wins, whether a MULTI op
//       goes on, whether a SEND_ZC borrows its bytes, and how many results one poll delivers.
//   D2  An op that waits stands in a list of the socket that its descriptor names: closing that
//       descriptor ends it. `scratch` is the number of its carrier.
//   D3  READY ops touch no socket any more. Of one that has MORE to come, ASKED_READY and
//       ASKED_DONE remember that it shall end.
#include "runtime/sim_ops.h"

#include <errno.h>

#include "runtime/sim_socket.h"
#include "runtime/sim_transfer.h"
#include "sched/carrier.h"

enum stage {
    NOT_IN_FLIGHT,
    WAITING,
    ASKED,       // waits, and shall end at the next poll
    READY,       // in the carrier's `ready`
    ASKED_READY, // likewise, with MORE, and shall end after that
    IN_DONE,     // done() is being called, with MORE
    ASKED_DONE,  // likewise, and shall end after that
    NOTIFYING,   // a SEND_ZC whose bytes are still borrowed
};

// Waiting.

static struct weft__op **list_for(struct weft__sim_socket *socket, const struct weft__op *op)
{
    switch (op->code) {
    case WEFT__OP_READ:
    case WEFT__OP_READV:
    case WEFT__OP_RECV:
    case WEFT__OP_RECVMSG:
    case WEFT__OP_ACCEPT: return &socket->readers;
    case WEFT__OP_POLL: return &socket->pollers;
    default: return &socket->writers;
    }
}

static void append(struct weft__op **list, struct weft__op *op)
{
    while (*list != NULL) {
        list = &(*list)->next;
    }
    op->next = NULL;
    op->link = list;
    op->stage = WAITING;
    *list = op;
}

static void unlink_op(struct weft__sim_net *net, struct weft__op *op)
{
    *op->link = op->next;
    if (op->next != NULL) {
        op->next->link = op->link;
    }
    op->link = NULL;
    net->carriers[op->scratch].asked -= op->stage == ASKED;
}

/// Draws what follows a result: one more of a MULTI op, or the release of borrowed bytes.
static void decide_more(struct weft__sim_carrier *carrier, struct weft__op *op, int64_t result)
{
    struct weft__sim_net *net = carrier->net;
    bool accepted = op->code == WEFT__OP_ACCEPT && result >= 0;
    bool received = op->code == WEFT__OP_RECV && result > 0;
    if ((op->mode & WEFT__OP_MULTI) != 0 && (accepted || received)) {
        bool more = op->stage != ASKED && weft__rng_below(&net->rng, 4) != 0;
        op->result_flags |= more ? WEFT__OP_MORE : 0;
        if (!more) {
            weft__count(&carrier->counts.multishot_ends);
        }
    } else if (op->code == WEFT__OP_SEND_ZC && result > 0 && weft__rng_below(&net->rng, 2) == 0) {
        op->result_flags |= WEFT__OP_MORE;
    }
}

void weft__sim_end(struct weft__sim_net *net, struct weft__op *op, int64_t result)
{
    struct weft__sim_carrier *carrier = &net->carriers[op->scratch];
    op->result = result;
    op->stage = READY;
    op->next = NULL;
    *carrier->ready_last = op;
    carrier->ready_last = &op->next;
    carrier->ready_count++;
    carrier->kicked = true;
}

static void try_list(struct weft__sim_net *net, struct weft__sim_socket *socket,
                     struct weft__op *op, bool in_order)
{
    while (op != NULL) {
        struct weft__op *next = op->next;
        struct weft__sim_carrier *carrier = &net->carriers[op->scratch];
        int64_t result = weft__sim_try(carrier, socket, op);
        if (result != WEFT__SIM_WAIT) {
            decide_more(carrier, op, result);
            unlink_op(net, op);
            weft__sim_end(net, op, result);
        } else if (in_order) {
            return;
        }
        op = next;
    }
}

void weft__sim_touch(struct weft__sim_net *net, struct weft__sim_socket *socket)
{
    if (socket != NULL && !socket->touched) {
        socket->touched = true;
        socket->touched_next = NULL;
        *net->touched_last = socket;
        net->touched_last = &socket->touched_next;
    }
}

void weft__sim_touch_stuck(struct weft__sim_net *net)
{
    for (uint32_t i = 0; i < net->slot_count && net->stuck > 0; i++) {
        struct weft__sim_socket *socket = net->slots[i].socket;
        if (socket != NULL && socket->stuck) {
            socket->stuck = false;
            net->stuck--;
            weft__sim_touch(net, socket);
        }
    }
}

void weft__sim_settle(struct weft__sim_net *net)
{
    while (net->touched_first != NULL) {
        struct weft__sim_socket *socket = net->touched_first;
        net->touched_first = socket->touched_next;
        if (net->touched_first == NULL) {
            net->touched_last = &net->touched_first;
        }
        socket->touched = false;
        try_list(net, socket, socket->readers, true);
        try_list(net, socket, socket->writers, true);
        try_list(net, socket, socket->pollers, false);
    }
}

// Submitting.

/// The result of an op at submission, or WEFT__SIM_WAIT: then it stands in a list, unless there is
/// no such socket.
static int64_t start(struct weft__sim_carrier *carrier, struct weft__op *op)
{
    struct weft__sim_net *net = carrier->net;
    struct weft__sim_socket *socket = weft__sim_of_fd(net, op->fd);
    if (socket == NULL) {
        return weft__sim_bad_fd(op->fd);
    }
    if ((op->mode & WEFT__OP_SELECT) != 0) {
        int rc = weft__sim_buffers_make(carrier);
        if (rc < 0) {
            return rc;
        }
    }
    struct weft__op **list = list_for(socket, op);
    if (*list == NULL || op->code == WEFT__OP_POLL) {
        int64_t result = weft__sim_try(carrier, socket, op);
        if (result != WEFT__SIM_WAIT) {
            return result;
        }
    }
    append(list, op);
    return WEFT__SIM_WAIT;
}

static void note_end(struct weft__sim_carrier *carrier, const struct weft__op *op)
{
    uint64_t what = (uint64_t)op->code << 56 ^ (uint64_t)(uint32_t)op->fd << 24 ^ op->result_flags;
    weft__sim_note(carrier->net->clock, what ^ (uint64_t)op->result << 8);
}

static bool sim_submit(void *state, struct weft__op *op)
{
    struct weft__sim_carrier *carrier = state;
    struct weft__sim_net *net = carrier->net;
    weft__count(&carrier->counts.submitted);
    op->stage = NOT_IN_FLIGHT;
    op->scratch = (uint8_t)carrier->number;
    op->link = NULL;
    op->result_flags = 0;
    int64_t result = start(carrier, op);
    bool at_once = false;
    if (result != WEFT__SIM_WAIT) {
        decide_more(carrier, op, result);
        at_once = (op->result_flags & WEFT__OP_MORE) == 0 && weft__rng_below(&net->rng, 2) == 0;
        if (at_once) {
            op->result = result;
            weft__count(&carrier->counts.completed);
            note_end(carrier, op);
        } else {
            weft__sim_end(net, op, result);
        }
    }
    weft__sim_settle(net);
    return at_once;
}

// Ending early.

/// Of an op that waits: the next poll ends it.
static void ask(struct weft__sim_net *net, struct weft__op *op)
{
    struct weft__sim_carrier *carrier = &net->carriers[op->scratch];
    op->stage = ASKED;
    carrier->asked++;
    carrier->kicked = true;
}

static void end_cancelled(struct weft__sim_net *net, struct weft__op *op)
{
    unlink_op(net, op);
    op->result_flags = 0;
    weft__sim_end(net, op, -ECANCELED);
    weft__sim_touch(net, weft__sim_of_fd(net, op->fd)); // for whoever stood behind it
}

static void cancel(struct weft__sim_net *net, struct weft__op *op)
{
    weft__count(&net->carriers[op->scratch].counts.cancels);
    switch (op->stage) {
    case WAITING:
        if (weft__rng_below(&net->rng, 2) == 0) {
            ask(net, op);
        } else {
            end_cancelled(net, op);
        }
        break;
    case READY: op->stage = (op->result_flags & WEFT__OP_MORE) != 0 ? ASKED_READY : READY; break;
    case IN_DONE: op->stage = ASKED_DONE; break;
    default: break; // asked already, or about to end
    }
}

static void sim_cancel(void *state, struct weft__op *op)
{
    struct weft__sim_net *net = ((struct weft__sim_carrier *)state)->net;
    cancel(net, op);
    weft__sim_settle(net);
}

/// Calls fn for every op on the descriptor that waits and is the carrier's; NULL: of all carriers.
static void each_waiting(struct weft__sim_net *net, struct weft__sim_socket *socket, int fd,
                         const struct weft__sim_carrier *carrier,
                         void (*fn)(struct weft__sim_net *net, struct weft__op *op))
{
    struct weft__op *lists[] = { socket->readers, socket->writers, socket->pollers };
    for (size_t i = 0; i < WEFT__ARRAY_LEN(lists); i++) {
        struct weft__op *op = lists[i];
        while (op != NULL) {
            struct weft__op *next = op->next;
            if (op->fd == fd && (carrier == NULL || carrier->number == op->scratch)) {
                fn(net, op);
            }
            op = next;
        }
    }
}

/// Results of the descriptor's MULTI ops that are about to be delivered are the last (D3).
static void end_ready(struct weft__sim_carrier *carrier, int fd)
{
    for (struct weft__op *op = carrier->ready; op != NULL; op = op->next) {
        if (op->fd == fd && (op->result_flags & WEFT__OP_MORE) != 0) {
            op->stage = ASKED_READY;
        }
    }
    if (carrier->delivering != NULL && carrier->delivering->fd == fd) {
        carrier->delivering->stage = ASKED_DONE;
    }
}

static void sim_forget(void *state, int fd)
{
    struct weft__sim_carrier *carrier = state;
    struct weft__sim_socket *socket = weft__sim_of_fd(carrier->net, fd);
    if (socket != NULL) {
        end_ready(carrier, fd);
        each_waiting(carrier->net, socket, fd, carrier, cancel);
        weft__sim_settle(carrier->net);
    }
}

void weft__sim_end_all(struct weft__sim_net *net, struct weft__sim_socket *socket, int fd)
{
    for (int i = 0; i < net->carrier_count; i++) {
        end_ready(&net->carriers[i], fd);
    }
    each_waiting(net, socket, fd, NULL, end_cancelled);
}

static void end_asked(struct weft__sim_carrier *carrier)
{
    struct weft__sim_net *net = carrier->net;
    for (uint32_t i = 0; i < net->slot_count && carrier->asked > 0; i++) {
        struct weft__sim_socket *socket = net->slots[i].socket;
        if (socket == NULL) {
            continue;
        }
        struct weft__op *lists[] = { socket->readers, socket->writers, socket->pollers };
        for (size_t k = 0; k < WEFT__ARRAY_LEN(lists); k++) {
            for (struct weft__op *next, *op = lists[k]; op != NULL; op = next) {
                next = op->next;
                if (op->stage == ASKED && op->scratch == carrier->number) {
                    end_cancelled(net, op);
                }
            }
        }
    }
}

// Delivering.

/// After a result with MORE: the op goes on, or ends as it was asked to.
static void go_on(struct weft__sim_carrier *carrier, struct weft__op *op)
{
    struct weft__sim_net *net = carrier->net;
    bool asked = op->stage == ASKED_DONE;
    op->result_flags = 0;
    if (op->code == WEFT__OP_SEND_ZC) {
        struct weft__sim_ref nobody = { 0, 0 };
        struct weft__sim_event *event = weft__sim_event_make(net, WEFT__SIM_NOTIFY, nobody, nobody);
        op->stage = NOTIFYING;
        if (event != NULL) {
            event->op = op;
            weft__sim_event_send(net, event, weft__sim_after(net, weft__sim_delay(net, AF_INET)));
        }
    } else if (asked) {
        weft__sim_end(net, op, -ECANCELED);
    } else {
        struct weft__sim_socket *socket = weft__sim_of_fd(net, op->fd);
        weft_assert(socket != NULL); // D3
        append(list_for(socket, op), op);
        weft__sim_touch(net, socket);
    }
}

static void deliver(struct weft__sim_carrier *carrier, struct weft__op *op)
{
    note_end(carrier, op);
    if ((op->result_flags & WEFT__OP_MORE) == 0) {
        op->stage = NOT_IN_FLIGHT;
        weft__count(&carrier->counts.completed);
        op->done(op); // it may be gone now
        return;
    }
    op->stage = op->stage == ASKED_READY ? ASKED_DONE : IN_DONE;
    carrier->delivering = op;
    op->done(op);
    carrier->delivering = NULL;
    go_on(carrier, op);
}

static struct weft__op *pop_ready(struct weft__sim_carrier *carrier)
{
    struct weft__op *op = carrier->ready;
    carrier->ready = op->next;
    carrier->ready_count--;
    if (carrier->ready == NULL) {
        carrier->ready_last = &carrier->ready;
    }
    return op;
}

static void touch_all(struct weft__sim_net *net)
{
    for (uint32_t i = 0; i < net->slot_count; i++) {
        weft__sim_touch(net, net->slots[i].socket);
    }
}

static int sim_poll(void *state)
{
    struct weft__sim_carrier *carrier = state;
    struct weft__sim_net *net = carrier->net;
    int events = 0;
    if (carrier->asked > 0) {
        end_asked(carrier);
    }
    if (carrier->buffers_came_back) {
        carrier->buffers_came_back = false;
        touch_all(net);
    }
    weft__sim_settle(net);
    // Only what is there now: done() may submit something that ends soon.
    for (unsigned left = carrier->ready_count; left > 0; left--) {
        deliver(carrier, pop_ready(carrier));
        events++;
        if (weft__rng_below(&net->rng, 8) == 0) {
            break;
        }
    }
    weft__sim_settle(net);
    return events;
}

// The rest of the driver: waiting for kicks and for the clock is the loop's business (sim.c).

static int sim_open(void **state, const struct weft__driver_config *config)
{
    (void)config;
    *state = NULL;
    return -ENOTSUP; // weft_sim_run() makes the states of all carriers at once
}

static void sim_close(void *state)
{
    weft__sim_buffers_free(state);
}

static int sim_wait(void *state, weft_time until)
{
    (void)state;
    (void)until;
    return 0;
}

static void sim_kick(void *state, void *from)
{
    (void)from;
    ((struct weft__sim_carrier *)state)->kicked = true;
}

static void *sim_buffer(void *state, uint16_t number)
{
    return ((struct weft__sim_carrier *)state)->buffers[number].memory;
}

static void sim_give(void *state, uint16_t number)
{
    weft__sim_buffer_give(state, number);
}

static const struct weft__op_counts *sim_counts(void *state)
{
    return &((struct weft__sim_carrier *)state)->counts;
}

const struct weft__driver weft__sim_driver = {
    .name = "sim",
    .open = sim_open,
    .close = sim_close,
    .poll = sim_poll,
    .wait = sim_wait,
    .kick = sim_kick,
    .submit = sim_submit,
    .cancel = sim_cancel,
    .forget = sim_forget,
    .buffer = sim_buffer,
    .give = sim_give,
    .counts = sim_counts,
    .sockets = &weft__sim_sockets,
};
