// weft.c - the load generator on weft: one virtual thread for each connection, on one carrier.
//
// In an open loop one more thread keeps the time for all connections and writes to them; the
// connections' own threads only read. A wheel's tick is too coarse for it, so it yields through the
// last part of each wait.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>

#include "run.h"

#define CONNECT_NS (10 * WEFT_S)

struct link {
    struct load_link load;
    struct load *owner;
    weft_conn *conn;
    bool last; // open loop: no request follows those that were sent
};

struct load {
    const struct load_plan *plan;
    char *pattern, *replies; // what is sent, what should come
    struct link *links;
    uint64_t *stamps;
    struct load_run run;
};

static int connect_one(struct link *link)
{
    const struct load_plan *plan = link->owner->plan;
    int fd = load_socket(&plan->address, link->load.index);
    if (fd < 0) {
        return fd;
    }
    int rc = weft_connect(fd, &plan->address.any, plan->address.size, weft_after(CONNECT_NS));
    rc = rc < 0 ? rc : weft_conn_adopt(&link->conn, fd);
    if (rc < 0) {
        weft_close(fd);
        return rc;
    }
    // A thread that waits to write does not read, and the server may wait for that.
    struct weft_conn_limits limits = { 0 };
    limits.output_bytes = (plan->depth + 1) * plan->size_bytes + LOAD_CHUNK;
    limits.frame_bytes = load_reply_bytes(plan);
    weft_conn_set_limits(link->conn, &limits);
    return 0;
}

static void weft_core_close(struct load *load)
{
    for (unsigned i = 0; load->links != NULL && i < load->plan->connections; i++) {
        weft_conn_abort(load->links[i].conn);
    }
    free(load->replies);
    free(load->pattern);
    free(load->stamps);
    free(load->links);
    free(load);
}

static int weft_core_open(struct load **out, const struct load_plan *plan)
{
    *out = NULL;
    struct load *load = calloc(1, sizeof *load);
    if (load == NULL) {
        return -ENOMEM;
    }
    load->plan = plan;
    load->links = calloc(plan->connections, sizeof *load->links);
    load->stamps = calloc((size_t)plan->connections * plan->depth, sizeof *load->stamps);
    load->pattern = load_pattern(plan->request, plan->size_bytes);
    load->replies = load_pattern(plan->request != NULL ? plan->reply : NULL,
                                 load_reply_bytes(plan));
    bool whole = load->links != NULL && load->stamps != NULL && load->pattern != NULL;
    int rc = whole && load->replies != NULL ? 0 : -ENOMEM;
    rc = rc == 0 && load_allow_files(plan->connections) < plan->connections ? -EMFILE : rc;
    for (unsigned i = 0; i < plan->connections && rc == 0; i++) {
        struct link *link = &load->links[i];
        link->owner = load;
        link->load.index = i;
        link->load.sent_at = load->stamps + (size_t)i * plan->depth;
        rc = connect_one(link);
    }
    if (rc < 0) {
        weft_core_close(load);
        return rc;
    }
    *out = load;
    return 0;
}

static int ask(struct link *link, uint64_t requests)
{
    struct load *load = link->owner;
    size_t owed = requests * load->plan->size_bytes;
    load_run_sent(&load->run, &link->load, requests);
    while (owed > 0) {
        // Whole requests, or pieces of one that is larger than a chunk: the pattern goes on.
        size_t size = load->plan->size_bytes, at = (size - owed % size) % size;
        size_t n = owed < LOAD_CHUNK ? owed : LOAD_CHUNK;
        int rc = weft_conn_write(link->conn, load->pattern + at, n, WEFT_FOREVER);
        if (rc < 0) {
            return rc;
        }
        owed -= n;
    }
    return 0;
}

// Compares what has arrived of one reply, or of many, and gives it back.
static int take(struct link *link, const struct weft_slice *in, uint64_t *replies)
{
    struct load *load = link->owner;
    size_t size = load_reply_bytes(load->plan), whole = in->size - in->size % size;
    for (size_t at = 0; at < whole;) {
        size_t n = whole - at < LOAD_CHUNK ? whole - at : LOAD_CHUNK;
        if (memcmp(in->data + at, load->replies + at % size, n) != 0) {
            return -EBADMSG;
        }
        at += n;
    }
    weft_conn_consume(link->conn, whole);
    *replies = whole / size;
    return 0;
}

static bool is_over(const struct link *link)
{
    bool last = link->owner->plan->rate > 0 ? link->last : link->owner->run.stage == LOAD_DRAIN;
    return last && link->load.done == link->load.sent;
}

static int one_connection(void *arg)
{
    struct link *link = arg;
    struct load *load = link->owner;
    struct load_run *run = &load->run;
    bool open_loop = load->plan->rate > 0;
    int rc = open_loop ? 0 : ask(link, load->plan->depth);
    while (rc == 0 && !is_over(link)) {
        struct weft_slice in;
        uint64_t replies;
        int n = weft_conn_peek(link->conn, &in, load_reply_bytes(load->plan), WEFT_FOREVER);
        if (n <= 0) {
            return n == 0 || n == -ENODATA ? -EPIPE : n;
        }
        run->now = load_now();
        rc = take(link, &in, &replies);
        if (rc == 0 && !load_run_received(run, &link->load, replies)) {
            rc = -EBADMSG;
        }
        if (rc == 0 && !open_loop && run->stage != LOAD_DRAIN) {
            rc = ask(link, replies);
        }
    }
    return rc;
}

static int wait_until(struct load_run *run, uint64_t due)
{
    int rc = 0;
    while (rc == 0 && (run->now = load_now()) < due && run->stage != LOAD_DRAIN) {
        load_run_advance(run);
        uint64_t left = due - run->now, spin = run->plan->shares_cpu ? 0 : LOAD_SPIN_NS;
        rc = left > spin ? weft_sleep_until(due - spin) : weft_yield();
    }
    return rc;
}

// A connection's thread that has nothing in flight would wait for ever when the run is over, so each
// gets one request more.
static int one_more_each(struct load *load)
{
    int rc = 0;
    for (unsigned i = 0; i < load->plan->connections && rc == 0; i++) {
        load->links[i].last = true;
        rc = ask(&load->links[i], 1);
    }
    return rc;
}

static int keep_time(void *arg)
{
    struct load *load = arg;
    struct load_run *run = &load->run;
    int rc = 0;
    while (rc == 0 && run->stage != LOAD_DRAIN) {
        struct link *link = &load->links[run->sent % load->plan->connections];
        rc = wait_until(run, load_run_due(run, &link->load, link->load.sent));
        if (rc == 0 && run->stage != LOAD_DRAIN) {
            rc = ask(link, 1);
        }
    }
    return rc < 0 ? rc : one_more_each(load);
}

static int weft_core_run(struct load *load, struct load_result *out)
{
    struct weft_scope scope;
    uint64_t span_ns = load->plan->duration_ns;
    weft_time deadline = span_ns > 0 ? weft_after(load->plan->warm_ns + span_ns + LOAD_STALL_NS)
                                     : WEFT_FOREVER;
    load_run_begin(&load->run, load->plan, out);
    int rc = weft_scope_init(&scope, WEFT_SCOPE_ALL, deadline);
    if (rc < 0) {
        return rc;
    }
    // A spawn that fails makes the scope fail.
    for (unsigned i = 0; i < load->plan->connections; i++) {
        load->links[i].load.base = load->links[i].load.sent;
        load->links[i].last = false;
        (void)weft_scope_spawn(&scope, one_connection, &load->links[i]);
    }
    if (load->plan->rate > 0) {
        (void)weft_scope_spawn(&scope, keep_time, load);
    }
    return weft_scope_join(&scope);
}

const struct load_core load_weft = { "weft", weft_core_open, weft_core_run, weft_core_close };
