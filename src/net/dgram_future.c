// dgram_future.c - sending and receiving one message as futures.
//
// Each is one op on the socket's carrier, and a user of the socket until that has ended (dgram.h, G1). So
// closing ends it and waits for it, whether anybody polls it or not.
#include <errno.h>

#include <weft/async_net.h>

#include "net/dgram.h"
#include "net/leaf.h"

/// The carrier's while it waits; nothing points into it before it is begun.
struct exchange {
    struct weft__leaf leaf;
    struct weft__op op; // the driver's while in flight
    struct msghdr header;
    struct weft__envelope envelope;
    struct weft_dgram_message message;
    struct weft__dgram *dgram;
    struct weft_addr *from; // receiving: where to say who has sent it, or NULL
    bool receives;
    bool asked; // to end early
};
_Static_assert(sizeof(struct exchange) <= sizeof(struct weft_dgram_future), "public size");

static struct exchange *of(struct weft__leaf *leaf)
{
    return weft__container_of(leaf, struct exchange, leaf);
}

static bool submit(struct exchange *exchange)
{
    struct weft__carrier *carrier = exchange->dgram->carrier;
    return carrier->driver->submit(carrier->driver_state, &exchange->op);
}

/// What the op's end means. WAITS: a signal has cut it short, and it is in flight again.
static int64_t outcome(struct exchange *exchange)
{
    struct weft__dgram *dgram = exchange->dgram;
    while (exchange->op.result == -EINTR && !exchange->asked && !dgram->closed) {
        if (!submit(exchange)) {
            return WEFT__LEAF_WAITS;
        }
    }
    int64_t result = exchange->op.result;
    if (result == -ECANCELED || result == -EINTR) {
        return exchange->asked ? -ECANCELED : -EBADF;
    }
    if (result < 0 || !exchange->receives) {
        return result < 0 ? result : 0;
    }
    weft__dgram_open_up(&exchange->message, &exchange->header, (size_t)result,
                        (enum weft_addr_kind)dgram->kind);
    if (exchange->from != NULL) {
        *exchange->from = exchange->message.addr;
    }
    return result;
}

static void op_done(struct weft__op *op)
{
    struct exchange *exchange = weft__container_of(op, struct exchange, op);
    int64_t result = outcome(exchange);
    if (result != WEFT__LEAF_WAITS) {
        weft__dgram_leave(exchange->dgram);
        weft__leaf_end(&exchange->leaf, result);
    }
}

static void prepare(struct exchange *exchange)
{
    struct weft__dgram *dgram = exchange->dgram;
    exchange->op = (struct weft__op){
        .done = op_done,
        .code = exchange->receives ? WEFT__OP_RECVMSG : WEFT__OP_SENDMSG,
        .fd = dgram->fd,
        .mode = weft__dgram_mode(dgram),
        .data = &exchange->header,
        .flags = exchange->receives ? MSG_TRUNC : 0,
    };
    if (exchange->receives) {
        weft__dgram_lay_out(&exchange->header, &exchange->envelope, &exchange->message,
                            dgram->kind == WEFT_ADDR_UDP);
    } else {
        weft__dgram_seal(&exchange->header, &exchange->envelope, &exchange->message);
    }
}

static int64_t begin(struct weft__leaf *leaf)
{
    struct exchange *exchange = of(leaf);
    struct weft__dgram *dgram = exchange->dgram;
    int rc = weft__leaf_enter(leaf, dgram->carrier);
    if (rc == 0 && !exchange->receives) {
        rc = weft__dgram_check(dgram, &exchange->message);
    }
    if (rc < 0 || dgram->closed) {
        return rc < 0 ? rc : -EBADF;
    }
    prepare(exchange);
    int64_t result = submit(exchange) ? outcome(exchange) : WEFT__LEAF_WAITS;
    dgram->users += result == WEFT__LEAF_WAITS;
    return result;
}

static void withdraw(struct weft__leaf *leaf)
{
    struct exchange *exchange = of(leaf);
    struct weft__carrier *carrier = exchange->dgram->carrier;
    exchange->asked = true;
    carrier->driver->cancel(carrier->driver_state, &exchange->op); // ends by op_done()
}

static struct exchange *init(struct weft_dgram_future *future, weft_dgram *dgram)
{
    struct exchange *exchange = (struct exchange *)(void *)future;
    weft__leaf_init(&exchange->leaf, begin, withdraw);
    exchange->message = (struct weft_dgram_message){ .data = NULL };
    exchange->dgram = dgram;
    exchange->from = NULL;
    exchange->receives = exchange->asked = false;
    return exchange;
}

void weft_dgram_recv_future(struct weft_dgram_future *future, weft_dgram *dgram, void *data,
                            size_t room, struct weft_addr *from)
{
    struct exchange *exchange = init(future, dgram);
    exchange->message.data = data;
    exchange->message.room = room;
    exchange->from = from;
    exchange->receives = true;
    if (from != NULL) {
        *from = exchange->message.addr;
    }
}

void weft_dgram_send_future(struct weft_dgram_future *future, weft_dgram *dgram, const void *data,
                            size_t size)
{
    struct exchange *exchange = init(future, dgram);
    exchange->message.data = weft__only_read(data);
    exchange->message.size = size;
}

void weft_dgram_send_to_future(struct weft_dgram_future *future, weft_dgram *dgram,
                               const struct weft_addr *to, const void *data, size_t size)
{
    weft_dgram_send_future(future, dgram, data, size);
    ((struct exchange *)(void *)future)->message.addr = *to;
}
