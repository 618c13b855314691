// queue.h - a bounded queue made of weft_park() and wakers, for tasks on any carriers of a runtime;
// queue.c tries it out. Zeroed storage is an empty queue.
//
// The trap is a waiter that is woken and cancelled (or late) at once: it leaves, so it must pass the
// wake on, or the next in line sleeps beside an item.
#ifndef QUEUE_H
#define QUEUE_H

#include <pthread.h>
#include <weft.h>

#define QUEUE_ROOM 2

struct queue_waiter { // on the stack of the one who waits
    weft_waker waker;
    struct queue_waiter *next;
    bool woken;
};

struct queue {
    pthread_mutex_t lock; // never held across a park
    int items[QUEUE_ROOM], first, count;
    struct queue_waiter *getters, *putters; // the first in line first
};

static inline void queue_wake_first(struct queue_waiter **line)
{
    struct queue_waiter *waiter = *line;
    if (waiter != NULL) {
        *line = waiter->next;
        waiter->woken = true;
        weft_waker_wake(&waiter->waker); // still there: it needs the lock to leave
    }
}

/// Stands in line until woken. The caller holds the lock; a wake is a hint to look again.
static inline int queue_wait(struct queue_waiter **line, struct queue *queue, weft_time deadline)
{
    struct queue_waiter self = { .woken = false };
    struct queue_waiter **place = line;
    int rc = weft_waker_self(&self.waker);
    if (rc < 0) {
        return rc;
    }
    for (; *place != NULL; place = &(*place)->next) {
    }
    *place = &self;
    while (rc == 0 && !self.woken) { // a park may end for no reason
        pthread_mutex_unlock(&queue->lock);
        rc = weft_park(deadline);
        pthread_mutex_lock(&queue->lock);
    }
    if (self.woken && rc < 0) {
        queue_wake_first(line); // woken, but we give up: pass the wake on
    } else if (rc < 0) {
        for (place = line; *place != &self; place = &(*place)->next) {
        }
        *place = self.next;
        weft_waker_drop(&self.waker);
    }
    return rc;
}

/// 0, -ETIMEDOUT or -ECANCELED; -EPERM if there is no room and the caller is not a virtual thread.
static inline int queue_put(struct queue *queue, int item, weft_time deadline)
{
    int rc = 0;
    pthread_mutex_lock(&queue->lock);
    while (rc == 0 && queue->count == QUEUE_ROOM) {
        rc = queue_wait(&queue->putters, queue, deadline);
    }
    if (rc == 0) {
        queue->items[(queue->first + queue->count++) % QUEUE_ROOM] = item;
        queue_wake_first(&queue->getters);
    }
    pthread_mutex_unlock(&queue->lock);
    return rc;
}

/// As queue_put(). On an error no item was taken.
static inline int queue_get(int *item, struct queue *queue, weft_time deadline)
{
    int rc = 0;
    pthread_mutex_lock(&queue->lock);
    while (rc == 0 && queue->count == 0) {
        rc = queue_wait(&queue->getters, queue, deadline);
    }
    if (rc == 0) {
        *item = queue->items[queue->first];
        queue->first = (queue->first + 1) % QUEUE_ROOM;
        queue->count--;
        queue_wake_first(&queue->putters);
    }
    pthread_mutex_unlock(&queue->lock);
    return rc;
}

#endif
