// node.h - the link by which tasks, timers and operations stand in lanes, and the owner's FIFO.
#ifndef WEFT_BASE_NODE_H
#define WEFT_BASE_NODE_H

#include "base/base.h"

enum weft__node_kind {
    WEFT__NODE_TASK,    ///< a task to run
    WEFT__NODE_REQUEST, ///< a function to call on the carrier (sched/carrier.h)
};

struct weft__node {
    struct weft__node *next;
    uint8_t kind;
    int32_t ahead; // where one stands that comes later in a long list, in lines from here; a hint
};

/// For whoever walks a long list: each node may be a cache miss, and the next one is not known before.
static inline void weft__node_hint(struct weft__node *node, const struct weft__node *later)
{
    intptr_t lines = ((intptr_t)later - (intptr_t)node) / WEFT__LINE;
    node->ahead = lines == (int32_t)lines ? (int32_t)lines : 0;
}

static inline void weft__node_prefetch(const struct weft__node *node)
{
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a hint may be stale, so it is no object's address
    __builtin_prefetch((const void *)((intptr_t)node + (intptr_t)node->ahead * WEFT__LINE), 1);
}

/// A queue that only its owner touches. Empty when head is NULL; then tail is undefined.
struct weft__fifo {
    struct weft__node *head;
    struct weft__node *tail;
    size_t count;
};

static inline void weft__fifo_push(struct weft__fifo *fifo, struct weft__node *node)
{
    node->next = NULL;
    if (fifo->head == NULL) {
        fifo->head = node;
    } else {
        fifo->tail->next = node;
    }
    fifo->tail = node;
    fifo->count++;
}

static inline struct weft__node *weft__fifo_pop(struct weft__fifo *fifo)
{
    struct weft__node *node = fifo->head;
    if (node != NULL) {
        fifo->head = node->next;
        fifo->count--;
    }
    return node;
}

#endif
