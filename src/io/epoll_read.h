// epoll_read.h - the read that nearly all are: what a stream has, without flags. Inlined where it is
// tried first and where its event comes.
//
// The rules are in epoll_ops.c.
#ifndef WEFT_IO_EPOLL_READ_H
#define WEFT_IO_EPOLL_READ_H

#include "io/direct.h"
#include "io/epoll.h"

/// A read of a stream came back short (epoll_ops.c, W2). The op's owner may rely on that where it is certain.
static inline void weft__slot_emptied(struct weft__slot *slot, struct weft__op *op)
{
    if (weft__unlikely((slot->hints & WEFT__SLOT_WARY) != 0)) {
        return;
    }
    if (slot->kind == WEFT__FD_LOCAL) {
        slot->hints |= WEFT__SLOT_EMPTY | WEFT__SLOT_GUESSED; // T4 in epoll_trust.c
        return;
    }
    slot->hints |= WEFT__SLOT_EMPTY;
    op->result_flags |= weft__op_is_managed(op) ? WEFT__OP_EMPTY : 0;
}

/// Performs a SIMPLE op: the system call's result, -ENOTSOCK if it is no stream after all, or
/// WEFT__NO_BUFFER.
static inline int64_t weft__epoll_read_stream(struct weft__epoll *e, struct weft__slot *slot,
                                              struct weft__op *op)
{
    struct weft__receive *receive = &e->receive;
    bool select = (op->mode & WEFT__OP_SELECT) != 0;
    char *data = op->data;
    size_t size = op->size;
    uint16_t number = 0;
    if (select) {
        if (weft__unlikely(receive->free_count == 0)) {
            return WEFT__NO_BUFFER;
        }
        number = receive->free[receive->free_count - 1];
        data = receive->memory + number * receive->stride;
        size = receive->size;
    }
    int64_t n = weft__recv(op->fd, data, size, 0);
    if (weft__unlikely(n <= 0)) {
        return n;
    }
    if ((size_t)n < size) {
        weft__slot_emptied(slot, op);
    }
    if (select) {
        receive->free_count--;
        op->result_flags |= WEFT__OP_BUFFER | (uint32_t)number << 16;
    }
    return n;
}

#endif
