// serve.c - one listener per carrier, one virtual thread per connection.
//
// First all carriers open their listeners, then all accept: a server that cannot listen everywhere
// says so before it has taken a single connection.
#include <errno.h>

#include <weft/net.h>
#include <weft/scope.h>
#include <weft/task.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "net/addr.h"
#include "net/latch.h"
#include "net/listener.h"
#include "net/socket.h"
#include "sched/crew.h"
#include "task/scope.h"

struct server;

/// What one carrier does; all but the first two fields are that carrier's alone.
struct lane {
    struct server *server;
    int carrier;
    struct weft__listener *listener;
    size_t live;             // connections being served
    struct weft__wait *full; // the acceptor, waiting for one to end
};

struct server {
    weft_fn handler;
    struct weft_serve_options options;
    struct weft_socket_options socket;
    struct weft_addr addr;
    struct weft__crew *crew;
    int count;
    bool shares;               // the first lane's socket is everybody's
    struct weft__latch accept; // where it is: the lanes that still do
    struct lane *lanes;
};

static int open_lane(void *arg)
{
    struct lane *lane = arg;
    struct server *server = lane->server;
    struct weft__carrier *carrier = &server->crew->carriers[lane->carrier];
    struct lane *first = &server->lanes[0];
    if (lane != first && server->shares) {
        return weft__listener_share(&lane->listener, carrier, first->listener);
    }
    return weft__listener_open(&lane->listener, carrier, &server->addr, &server->socket);
}

static int close_lane(void *arg)
{
    struct lane *lane = arg;
    return weft_listener_close(lane->listener);
}

static int serve_one(void *arg)
{
    struct weft__conn *conn = arg;
    struct lane *lane = conn->lane;
    int rc = lane->server->handler(conn);
    lane->live--;
    weft__conn_wake(&lane->full);
    return rc;
}

/// Waits until one more connection may be served.
static int wait_for_room(struct lane *lane)
{
    size_t most = lane->server->options.max_connections;
    while (most != 0 && lane->live >= most) {
        weft__listener_pause(lane->listener);
        int rc = weft__conn_wait(&lane->full, weft__thread_self(), WEFT__WAIT_WITHDRAW,
                                 "connections to end", WEFT_FOREVER);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/// weft_scope_spawn() would cancel the other handlers if there is no memory for one more.
static int spawn_handler(struct weft_scope *handlers, struct weft__conn *conn)
{
    const struct weft__spawn spawn = {
        .fn = serve_one,
        .arg = conn,
        .scope = weft__scope_of(handlers),
        .file = __FILE__,
        .line = __LINE__,
    };
    return weft__spawn(NULL, conn->carrier->crew, conn->carrier, &spawn);
}

static int accept_one(struct lane *lane, struct weft_scope *handlers)
{
    weft_conn *conn = NULL;
    int rc = wait_for_room(lane);
    if (rc == 0) {
        rc = weft_accept(&conn, lane->listener, WEFT_FOREVER);
    }
    if (rc < 0) {
        return rc;
    }
    weft_assert(conn != NULL);
    conn->lane = lane;
    lane->live++;
    rc = spawn_handler(handlers, conn);
    if (rc < 0) {
        lane->live--;
        (void)weft_conn_abort(conn);
    }
    return rc == -ENOMEM ? 0 : rc; // one peer less; memory may come back
}

/// From now on peers are refused, while handlers may still take their time. The owner of a socket that
/// is shared waits for the others, who stop for the same reason and at the same time.
static void stop_listening(struct lane *lane)
{
    struct server *server = lane->server;
    bool lends = server->shares && lane == &server->lanes[0];
    if (lends) {
        weft__latch_wait(&server->accept, weft__thread_self());
    }
    (void)weft_listener_close(lane->listener);
    lane->listener = NULL;
    if (server->shares && !lends) {
        weft__latch_arrive(&server->accept);
    }
}

static int accept_all(void *arg)
{
    struct lane *lane = arg;
    struct weft_scope handlers;
    int rc = weft_scope_init(&handlers, WEFT_SCOPE_COLLECT, WEFT_FOREVER);
    while (rc == 0) {
        rc = accept_one(lane, &handlers);
    }
    stop_listening(lane);
    if (rc != -ECANCELED) {
        weft_scope_cancel(&handlers);
    }
    (void)weft_scope_join(&handlers); // what handlers return is their own business
    return rc;
}

/// Runs `fn` on the lanes from `first` on, each on its carrier, and waits for all.
static int on_lanes(struct server *server, int first, int count, weft_fn fn, int flags)
{
    struct weft_scope scope;
    int rc = weft_scope_init(&scope, flags, WEFT_FOREVER);
    if (rc < 0) {
        return rc;
    }
    for (int i = first; i < first + count; i++) {
        struct weft_attr attr = WEFT_ATTR_INIT;
        attr.name = "accept";
        attr.place = WEFT_PLACE_CARRIER;
        attr.carrier = server->lanes[i].carrier;
        int spawned = weft_scope_spawn_task_at(NULL, &scope, fn, &server->lanes[i], &attr, __FILE__,
                                               __LINE__);
        if (spawned < 0 && fn == accept_all) {
            weft__latch_arrive(&server->accept); // it does not and never will
        }
    }
    return weft_scope_join(&scope);
}

/// The first lane decides the port, if the address leaves it open.
static int open_lanes(struct server *server)
{
    int rc = on_lanes(server, 0, 1, open_lane, WEFT_SCOPE_ALL);
    if (rc == 0 && !weft__addr_is_unix(weft__addr_const(&server->addr))) {
        rc = weft_listener_addr(server->lanes[0].listener, &server->addr);
    }
    if (rc == 0) {
        rc = on_lanes(server, 1, server->count - 1, open_lane, WEFT_SCOPE_ALL);
    }
    return rc;
}

static int run(struct server *server)
{
    int rc = open_lanes(server);
    if (rc == 0 && server->options.ready != NULL) {
        server->options.ready(server->options.arg, &server->addr);
    }
    if (rc == 0) {
        rc = on_lanes(server, 0, server->count, accept_all, WEFT_SCOPE_ALL);
    }
    // Shielded: listeners are closed also when the caller is cancelled; borrowers before the owner.
    (void)on_lanes(server, 1, server->count - 1, close_lane,
                   WEFT_SCOPE_COLLECT | WEFT_SCOPE_SHIELD);
    (void)on_lanes(server, 0, 1, close_lane, WEFT_SCOPE_COLLECT | WEFT_SCOPE_SHIELD);
    return rc;
}

int weft_serve(const char *address, weft_fn handler, const struct weft_serve_options *options)
{
    struct weft__task *task = weft__thread_self();
    struct server server = { .handler = handler };
    if (task == NULL) {
        return weft__no_task();
    }
    if (handler == NULL || (options != NULL && options->size != sizeof *options)) {
        return -EINVAL;
    }
    if (options != NULL) {
        server.options = *options;
    }
    int rc = weft__conn_address(&server.addr, address);
    if (rc < 0) {
        return rc;
    }
    server.crew = task->crew;
    server.count = weft__crew_active(task->crew);
    server.shares = server.count > 1 && weft__addr_is_unix(weft__addr_const(&server.addr));
    atomic_init(&server.accept.left, server.count);
    weft_socket_options_init(&server.socket);
    if (server.options.socket != NULL) {
        server.socket = *server.options.socket;
    }
    server.socket.reuseport = server.count > 1 || server.socket.reuseport;
    size_t size = (size_t)server.count * sizeof *server.lanes;
    server.lanes = weft__alloc(task->crew->allocator, size, _Alignof(struct lane));
    if (server.lanes == NULL) {
        return -ENOMEM;
    }
    for (int i = 0; i < server.count; i++) {
        server.lanes[i] = (struct lane){ .server = &server, .carrier = i };
    }
    rc = run(&server);
    weft__free(task->crew->allocator, server.lanes, size);
    return rc;
}
