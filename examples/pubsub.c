// pubsub.c - one publishes, everyone who has subscribed gets everything. The publisher never waits: a
// subscriber that is too slow misses the oldest news and learns how many. A watch tells all of them the
// latest state of something, here how loud they should be.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <weft.h>

#define SUBSCRIBERS 3
#define NEWS 40
#define KEPT 8

struct desk {
    weft_broadcast *news;
    weft_watch *loudness;
    struct weft_wait_group ready; // those who still have to subscribe
};

struct subscriber {
    struct desk *desk;
    const char *name;
    weft_time needs_ns; // for each item
    uint64_t heard;
    uint64_t missed;
};

static int listen(void *arg)
{
    struct subscriber *s = arg;
    struct weft_broadcast_receiver receiver;
    uint64_t item;
    uint64_t seen;
    int missed;
    weft_broadcast_subscribe(&receiver, s->desk->news);
    weft_wait_group_done(&s->desk->ready);
    while ((missed = weft_broadcast_recv(&item, &receiver, WEFT_FOREVER)) >= 0) {
        const int *loud = weft_watch_borrow(&seen, s->desk->loudness);
        if (missed > 0 && *loud > 0) {
            printf("  %s: missed %d before number %" PRIu64 "\n", s->name, missed, item);
        }
        weft_watch_return(s->desk->loudness, loud);
        s->heard++;
        s->missed += (uint64_t)missed;
        if (s->needs_ns > 0) {
            (void)weft_sleep(s->needs_ns);
        }
    }
    printf("  %s: heard %" PRIu64 ", missed %" PRIu64 "\n", s->name, s->heard, s->missed);
    return weft_broadcast_unsubscribe(&receiver);
}

static int publish(struct desk *desk)
{
    int rc = weft_wait_group_wait(&desk->ready, WEFT_FOREVER);
    for (uint64_t i = 0; i < NEWS && rc >= 0; i++) {
        if (i == NEWS / 2) {
            int quiet = 0;
            rc = weft_watch_set(desk->loudness, &quiet);
        }
        rc = rc < 0 ? rc : weft_broadcast_send(desk->news, &i);
        rc = rc < 0 ? rc : weft_sleep(WEFT_MS);
    }
    weft_broadcast_close(desk->news); // they get what is left, and end
    return rc;
}

static int run_desk(struct desk *desk)
{
    struct subscriber subscribers[SUBSCRIBERS] = {
        { .desk = desk, .name = "fast" },
        { .desk = desk, .name = "busy", .needs_ns = 500 * WEFT_US },
        { .desk = desk, .name = "slow", .needs_ns = 5 * WEFT_MS },
    };
    struct weft_scope scope;
    int rc = weft_wait_group_add(&desk->ready, SUBSCRIBERS);
    if (rc < 0) {
        return rc;
    }
    weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER);
    for (int i = 0; i < SUBSCRIBERS; i++) {
        weft_scope_spawn(&scope, listen, &subscribers[i]);
    }
    int published = publish(desk);
    rc = weft_scope_join(&scope);
    rc = rc < 0 ? rc : published < 0 ? published : 0;
    for (int i = 0; i < SUBSCRIBERS && rc == 0; i++) {
        rc = subscribers[i].heard + subscribers[i].missed == NEWS ? 0 : -EPROTO;
    }
    return rc;
}

static int run(void *arg)
{
    struct desk desk = { .news = NULL };
    int loud = 1;
    (void)arg;
    weft_wait_group_init(&desk.ready);
    int rc = weft_broadcast_create(&desk.news, sizeof(uint64_t), KEPT);
    rc = rc < 0 ? rc : weft_watch_create(&desk.loudness, sizeof loud, &loud);
    rc = rc < 0 ? rc : run_desk(&desk);
    (void)weft_broadcast_destroy(desk.news);
    (void)weft_watch_destroy(desk.loudness);
    return rc;
}

int main(void)
{
    return weft_run(run, NULL, NULL) < 0;
}
