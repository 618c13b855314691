// queue.c - tries the bounded queue of queue.h in the simulator: a consumer first in line that is
// woken and cancelled at the same moment, in 200 orders.
#include "queue.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define SEEDS 200
#define ITEMS 10

static int fickle_got;

/// Waits for one item, if it is let.
static int fickle(void *arg)
{
    int item;
    return queue_get(&item, arg, WEFT_FOREVER);
}

static int producer(void *arg)
{
    struct queue *queue = arg;
    int result = 0;
    weft_task *task = NULL;
    struct weft_attr elsewhere = WEFT_ATTR_INIT;
    elsewhere.place = WEFT_PLACE_CARRIER;
    int rc = weft_spawn(&task, fickle, queue, &elsewhere);
    if (rc < 0) {
        return rc;
    }
    weft_sleep(2 * WEFT_MS); // now it waits, and the consumer behind it
    rc = queue_put(queue, 0, WEFT_FOREVER);
    weft_yield();
    weft_task_cancel(task);
    weft_join(&result, task, WEFT_FOREVER);
    weft_sleep(1 * WEFT_MS);
    if (queue->count != 0) {
        return -EDEADLK; // nobody took it, although the consumer waits
    }
    fickle_got += result == 0;
    for (int i = result == 0 ? 0 : 1; i < ITEMS && rc == 0; i++) { // it got number 0? then again
        rc = queue_put(queue, i, WEFT_FOREVER);
    }
    return rc;
}

static int consumer(void *arg)
{
    struct queue *queue = arg;
    weft_sleep(1 * WEFT_MS);
    for (int i = 0; i < ITEMS; i++) {
        int item = -1;
        int rc = queue_get(&item, queue, WEFT_FOREVER);
        if (rc < 0 || item != i) {
            return rc < 0 ? rc : -EPROTO;
        }
        weft_sleep(i * WEFT_US); // slower and slower: the queue fills up
    }
    int none;
    return queue_get(&none, queue, weft_after(1 * WEFT_MS)) == -ETIMEDOUT ? 0 : -EPROTO;
}

static int test_body(void *arg)
{
    (void)arg;
    struct queue queue = { .lock = PTHREAD_MUTEX_INITIALIZER };
    struct weft_scope scope;
    struct weft_attr elsewhere = WEFT_ATTR_INIT;
    elsewhere.place = WEFT_PLACE_CARRIER;
    elsewhere.carrier = 1;
    weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER);
    weft_scope_spawn(&scope, consumer, &queue);
    weft_scope_spawn_task(NULL, &scope, producer, &queue, &elsewhere);
    return weft_scope_join(&scope);
}

int main(void)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct weft_sim_options options = { .seed = seed, .carriers = 2 };
        int rc = weft_sim_run(NULL, test_body, NULL, &options);
        if (rc < 0) {
            printf("seed %" PRIu64 " fails: %s\n", seed,
                   rc == -EDEADLK ? "a wake got lost" : "wrong items");
            return 1;
        }
    }
    printf("%d orders: the fickle consumer got its item %d times, and left without it %d times\n",
           SEEDS, fickle_got, SEEDS - fickle_got);
    printf("the other one got all of its %d items, in order, every time\n", ITEMS);
    return 0;
}
