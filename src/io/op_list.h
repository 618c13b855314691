// op_list.h - a queue of ops from whose middle one can leave.
//
// An op stands in one list at a time; `next` and `link` of struct weft__op are the list's.
#ifndef WEFT_IO_OP_LIST_H
#define WEFT_IO_OP_LIST_H

#include "sched/op.h"

struct weft__op_list {
    struct weft__op *head;
    struct weft__op **tail; // where the next one goes
};

static inline void weft__op_list_init(struct weft__op_list *list)
{
    list->head = NULL;
    list->tail = &list->head;
}

static inline bool weft__op_list_empty(const struct weft__op_list *list)
{
    return list->head == NULL;
}

static inline void weft__op_list_push(struct weft__op_list *list, struct weft__op *op)
{
    op->next = NULL;
    op->link = list->tail;
    *list->tail = op;
    list->tail = &op->next;
}

static inline void weft__op_list_remove(struct weft__op_list *list, struct weft__op *op)
{
    *op->link = op->next;
    if (op->next != NULL) {
        op->next->link = op->link;
    } else {
        list->tail = op->link;
    }
}

static inline struct weft__op *weft__op_list_pop(struct weft__op_list *list)
{
    struct weft__op *op = list->head;
    if (op != NULL) {
        weft__op_list_remove(list, op);
    }
    return op;
}

#endif
