// serve.c - one listener per carrier, one virtual thread per connection.
//
// First all carriers open their listeners, then all accept: a server that cannot listen everywhere
// says so before it has taken a single connection. Later it follows the size of the runtime:
//
//     the caller                    the carrier, when told             the lane's thread, there
//     waits for news       <--        to stay: OFF -> WANTED
//     WANTED -> RUNS, spawns  ------------------------------------->   listens, accepts
//                                     to leave: the listener ends -->  takes what is queued, closes it
//                                     to stay again               -->  listens again
//                                                                      no connection is left: OFF
//
//   Y1  A lane's state goes OFF -> WANTED -> RUNS -> OFF. The first step is the carrier's, the second the
//       caller's, the third that of the lane's thread, on the carrier: so no carrier that was told to
//       stay is overlooked, and a lane never has two threads.
//   Y2  A carrier that leaves is asked by its thread whenever that may have slept, not remembered.
//   Y3  The first carrier never leaves. Its lane owns a socket that is shared, and whoever borrows that
//       is in the latch as long as he does.
//   Y4  Of those who wait at a socket that is shared the kernel wakes one for each peer. If that one stops
//       just then nobody is woken in its place. So who stops says so first, then ends its accept op, and
//       then has another one look again that has not said so. If that one stops meanwhile it does the same.
//       Who begins says so before it looks. One that was asked already, and has not begun, is not asked twice.
//   Y5  The owner of a socket that is shared is started last: it waits for the others to close theirs, and if
//       one of them could not be started then neither is the owner.
//
// Rejected: moving the listener of a carrier that leaves to another one (the kernel would go on to send
// this one its part of all peers, and the next resize would have to find it).
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <weft/net.h>
#include <weft/notify.h>
#include <weft/scope.h>
#include <weft/task.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/log.h"
#include "net/addr.h"
#include "net/latch.h"
#include "net/listener.h"
#include "net/socket.h"
#include "sched/crew.h"
#include "sched/size_watch.h"
#include "task/host.h"
#include "task/scope.h"

struct server;

enum lane_state { OFF, WANTED, RUNS };

/// What one carrier does; all but the first five fields are that carrier's alone.
struct lane {
    struct server *server;
    int carrier;
    _Atomic int state;  // enum lane_state; Y1
    _Atomic bool takes; // peers, from a socket that is shared; Y4
    _Atomic bool asked; // to look again; Y4
    struct weft__listener *listener;
    bool told;               // its carrier was, since the lane last listened
    size_t live;             // connections being served
    struct weft__wait *news; // its thread, waiting for one to end, or for what its carrier is told
};

struct server {
    weft_fn handler;
    struct weft_serve_options options;
    struct weft_socket_options socket;
    struct weft_addr addr;
    struct weft__crew *crew;
    int count;   // lanes that it begins with
    bool shares; // the first lane's socket is everybody's, so that any with room may accept
    struct weft__latch accept; // where it is: the lanes that have it
    struct lane *lanes;        // one for each carrier that there may ever be
    struct weft_scope *scope;  // of the lanes' threads
    struct weft__size_watch watch;
    struct weft_notify news; // a lane is wanted
};

static struct weft__carrier *carrier_of(const struct lane *lane)
{
    return &lane->server->crew->carriers[lane->carrier];
}

static bool is_first(const struct lane *lane)
{
    return lane == &lane->server->lanes[0];
}

/// Lets the other carriers listen on the port, but only now that it is ours: with SO_REUSEPORT from the
/// start a second copy of the program would take half of the peers, and nobody would be told.
static int open_to_more(struct lane *lane)
{
    struct server *server = lane->server;
    if (server->crew->capacity == 1 || server->shares || server->socket.reuseport) {
        return 0;
    }
    server->socket.reuseport = true;
    return weft__socket_set(lane->listener->fd, SOL_SOCKET, SO_REUSEPORT, 1, carrier_of(lane));
}

static int borrow(struct lane *lane)
{
    struct server *server = lane->server;
    if (!weft__latch_join(&server->accept)) {
        return -ECANCELED; // the owner has stopped
    }
    int rc = weft__listener_share(&lane->listener, carrier_of(lane), server->lanes[0].listener);
    if (rc < 0) {
        weft__latch_arrive(&server->accept);
    }
    return rc;
}

static void set_takes(struct lane *lane, bool takes)
{
    atomic_store_explicit(&lane->takes, takes, memory_order_seq_cst);
}

static int open_lane(void *arg)
{
    struct lane *lane = arg;
    struct server *server = lane->server;
    int rc = server->shares && !is_first(lane)
                 ? borrow(lane)
                 : weft__listener_open(&lane->listener, carrier_of(lane), &server->addr,
                                       &server->socket);
    if (rc == 0 && is_first(lane)) {
        rc = open_to_more(lane);
    }
    if (rc < 0) {
        return rc; // a listener that is there is closed with the others
    }
    lane->listener->one_each = server->shares && server->options.max_connections != 0;
    set_takes(lane, true);
    return 0;
}

/// From now on peers are refused, while handlers may still take their time. The owner of a socket that
/// is shared waits for the others, who stop for the same reason and at the same time.
static int close_lane(void *arg)
{
    struct lane *lane = arg;
    struct server *server = lane->server;
    if (lane->listener == NULL) {
        return 0;
    }
    set_takes(lane, false);
    if (server->shares && is_first(lane)) {
        weft__latch_wait(&server->accept, weft__thread_self());
    }
    (void)weft_listener_close(lane->listener);
    lane->listener = NULL;
    if (server->shares && !is_first(lane)) {
        weft__latch_arrive(&server->accept);
    }
    return 0;
}

static int serve_one(void *arg)
{
    struct weft__conn *conn = arg;
    struct lane *lane = conn->lane;
    int rc = lane->server->handler(conn);
    lane->live--;
    weft__conn_wake(&lane->news);
    return rc;
}

/// Parks until a connection has ended, or the carrier was told something.
static int wait_for_news(struct lane *lane, const char *what)
{
    return weft__conn_wait(&lane->news, weft__thread_self(), WEFT__WAIT_WITHDRAW, what,
                           WEFT_FOREVER);
}

static struct weft_attr attr_of(const struct lane *lane, const char *name)
{
    struct weft_attr attr = WEFT_ATTR_INIT;
    attr.name = name;
    attr.place = WEFT_PLACE_CARRIER;
    attr.carrier = lane->carrier;
    return attr;
}

/// Starts a thread of a lane. weft_scope_spawn() would end the server if it cannot.
static int start_thread(struct lane *lane, const char *name, weft_fn fn)
{
    struct weft_attr attr = attr_of(lane, name);
    const struct weft__spawn spawn = {
        .fn = fn,
        .arg = lane,
        .attr = &attr,
        .scope = weft__scope_of(lane->server->scope),
        .file = __FILE__,
        .line = __LINE__,
    };
    return weft__spawn(NULL, lane->server->crew, weft__carrier_self(), &spawn);
}

static int look_again(void *arg)
{
    struct lane *lane = arg;
    atomic_store_explicit(&lane->asked, false, memory_order_seq_cst); // then look
    if (lane->listener != NULL) {
        weft__listener_pause(lane->listener); // whoever accepts begins anew, and so looks first
    }
    return 0;
}

/// Without memory for a thread nobody looks before the next peer comes.
static void ask_to_look(struct lane *lane)
{
    if (!atomic_exchange_explicit(&lane->asked, true, memory_order_seq_cst) &&
        start_thread(lane, "look again", look_again) < 0) {
        atomic_store_explicit(&lane->asked, false, memory_order_seq_cst);
    }
}

/// Y4.
static void let_another_look(struct lane *lane)
{
    struct server *server = lane->server;
    int count = server->crew->capacity;
    for (int i = 1; i < count; i++) {
        struct lane *other = &server->lanes[(lane->carrier + i) % count];
        if (atomic_load_explicit(&other->takes, memory_order_seq_cst)) {
            ask_to_look(other);
            return;
        }
    }
}

/// Peers are left to the others, if there are any, or wait in the backlog.
static void give_way(struct lane *lane)
{
    set_takes(lane, false);
    weft__listener_stop(lane->listener);
    let_another_look(lane);
}

/// Waits until one more connection may be served. -EAGAIN: the carrier leaves; who is queued is queued for
/// all, because with a limit all share the socket.
static int wait_for_room(struct lane *lane)
{
    size_t most = lane->server->options.max_connections;
    int rc = 0;
    if (most == 0) {
        return 0;
    }
    if (lane->live >= most && !carrier_of(lane)->leaving) {
        give_way(lane);
        while (rc == 0 && lane->live >= most && !carrier_of(lane)->leaving) {
            rc = wait_for_news(lane, "connections to end");
        }
        set_takes(lane, true);
    }
    return rc == 0 && carrier_of(lane)->leaving ? -EAGAIN : rc;
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

/// Takes peers until there is an error; 0: the carrier leaves, and nobody is queued.
static int accept_all(struct lane *lane, struct weft_scope *handlers)
{
    int rc = 0;
    weft__listener_end(lane->listener, carrier_of(lane)->leaving); // Y2
    while (rc == 0) {
        rc = accept_one(lane, handlers);
    }
    return rc == -EAGAIN ? 0 : rc;
}

/// Waits until no connection is left, or the carrier is to stay after all.
static int wait_for_end(struct lane *lane)
{
    int rc = 0;
    while (rc == 0 && lane->live > 0 && (carrier_of(lane)->leaving || !lane->told)) {
        rc = wait_for_news(lane, "connections to end, on a carrier that leaves");
    }
    return rc;
}

static void log_failure(struct lane *lane, int rc)
{
    if (rc != -ECANCELED) {
        weft__log(weft__crew_log(lane->server->crew), WEFT_LOG_ERROR, "serve",
                  "does not listen on carrier %d, which was added: %s", lane->carrier,
                  strerror(-rc));
    }
}

/// The carrier leaves: the same as at the end, but others listen on.
static void leave_socket(struct lane *lane)
{
    bool shared = lane->listener != NULL && lane->server->shares;
    (void)close_lane(lane);
    if (shared) {
        let_another_look(lane);
    }
}

/// Listens, unless it does since the beginning, serves who comes, and ends with the last one when the
/// carrier leaves. 0: it has, or could not listen.
static int work(struct lane *lane, struct weft_scope *handlers)
{
    int rc;
    do {
        int opened = 0;
        lane->told = false;
        if (lane->listener == NULL) {
            opened = carrier_of(lane)->leaving ? -ECANCELED : open_lane(lane);
        }
        rc = opened == 0 ? accept_all(lane, handlers) : 0;
        if (opened < 0) {
            log_failure(lane, opened);
        }
        if (rc < 0 && rc != -ECANCELED) {
            weft__scope_cancel(weft__scope_of(lane->server->scope), rc); // the others stop as well
        }
        if (rc < 0) {
            (void)close_lane(lane);
            break;
        }
        leave_socket(lane);
        rc = wait_for_end(lane);
    } while (rc == 0 && lane->told && !carrier_of(lane)->leaving);
    return rc;
}

/// Its carrier may have been told to stay while the last handler ended.
static void leave(struct lane *lane)
{
    struct server *server = lane->server;
    bool again = lane->told && !carrier_of(lane)->leaving;
    atomic_store_explicit(&lane->state, again ? WANTED : OFF, memory_order_release);
    if (again) {
        weft_notify_one(&server->news);
    }
}

static int run_lane(void *arg)
{
    struct lane *lane = arg;
    struct weft_scope handlers;
    int rc = weft_scope_init(&handlers, WEFT_SCOPE_COLLECT, WEFT_FOREVER);
    if (rc == 0) {
        rc = work(lane, &handlers);
    }
    if (rc < 0 && rc != -ECANCELED) {
        weft_scope_cancel(&handlers);
    }
    (void)weft_scope_join(&handlers); // what handlers return is their own business
    leave(lane);
    return rc;
}

/// What carriers call that were told to stay or to leave.
static void told(struct weft__size_watch *watch, struct weft__carrier *carrier)
{
    struct server *server = weft__container_of(watch, struct server, watch);
    struct lane *lane = &server->lanes[carrier->number];
    int off = OFF;
    lane->told = true;
    if (lane->listener != NULL) {
        weft__listener_end(lane->listener, carrier->leaving);
    }
    weft__conn_wake(&lane->news);
    if (!carrier->leaving &&
        atomic_compare_exchange_strong_explicit(&lane->state, &off, WANTED, memory_order_release,
                                                memory_order_relaxed)) {
        weft_notify_one(&server->news);
    }
}

static void spawn_lanes(struct server *server, int first, int count, weft_fn fn,
                        struct weft_scope *scope)
{
    for (int i = first; i < first + count; i++) {
        struct weft_attr attr = attr_of(&server->lanes[i], "accept");
        (void)weft_scope_spawn_task_at(NULL, scope, fn, &server->lanes[i], &attr, __FILE__,
                                       __LINE__); // the scope fails if it does
    }
}

/// Runs `fn` on the lanes from `first` on, each on its carrier, and waits for all.
static int on_lanes(struct server *server, int first, int count, weft_fn fn, int flags)
{
    struct weft_scope scope;
    int rc = weft_scope_init(&scope, flags, WEFT_FOREVER);
    if (rc < 0) {
        return rc;
    }
    spawn_lanes(server, first, count, fn, &scope);
    return weft_scope_join(&scope);
}

/// The first lane decides the port, or the name, if the address leaves it open.
static int open_lanes(struct server *server)
{
    int rc = on_lanes(server, 0, 1, open_lane, WEFT_SCOPE_ALL);
    if (rc == 0) {
        rc = weft_listener_addr(server->lanes[0].listener, &server->addr);
    }
    if (rc == 0) {
        rc = on_lanes(server, 1, server->count - 1, open_lane, WEFT_SCOPE_ALL);
    }
    return rc;
}

static void start_lane(struct lane *lane)
{
    atomic_store_explicit(&lane->state, RUNS, memory_order_relaxed); // Y1
    int rc = start_thread(lane, "accept", run_lane);
    if (rc < 0) {
        atomic_store_explicit(&lane->state, OFF, memory_order_relaxed);
        log_failure(lane, rc);
    }
}

static void start_wanted(struct server *server)
{
    for (int i = 0; i < server->crew->capacity; i++) {
        struct lane *lane = &server->lanes[i];
        if (atomic_load_explicit(&lane->state, memory_order_acquire) == WANTED) {
            start_lane(lane);
        }
    }
}

static int accept_everywhere(struct server *server)
{
    struct weft_scope scope;
    int rc = weft_scope_init(&scope, WEFT_SCOPE_ALL, WEFT_FOREVER);
    if (rc < 0) {
        return rc;
    }
    server->scope = &scope;
    spawn_lanes(server, 1, server->count - 1, run_lane, &scope);
    spawn_lanes(server, 0, 1, run_lane, &scope); // Y5
    do {
        start_wanted(server);
        rc = weft_notify_wait(&server->news,
                              WEFT_FOREVER); // until a lane fails, or we are cancelled
    } while (rc == 0);
    return weft_scope_join(&scope);
}

static int run(struct server *server)
{
    int rc = open_lanes(server);
    if (rc == 0 && server->options.ready != NULL) {
        server->options.ready(server->options.arg, &server->addr);
    }
    if (rc == 0) {
        rc = accept_everywhere(server);
    }
    // Shielded: listeners are closed also when the caller is cancelled; borrowers before the owner.
    (void)on_lanes(server, 1, server->count - 1, close_lane,
                   WEFT_SCOPE_COLLECT | WEFT_SCOPE_SHIELD);
    (void)on_lanes(server, 0, 1, close_lane, WEFT_SCOPE_COLLECT | WEFT_SCOPE_SHIELD);
    return rc;
}

/// From here on carriers tell; those that are there now the caller starts itself.
static void watch(struct server *server)
{
    struct weft__crew *crew = server->crew;
    for (int i = 0; i < crew->capacity; i++) {
        server->lanes[i] = (struct lane){ .server = server, .carrier = i };
    }
    server->watch.told = told;
    weft__size_watch_add(crew, &server->watch);
    server->count = weft__crew_active(crew);
    for (int i = 0; i < server->count; i++) {
        atomic_store_explicit(&server->lanes[i].state, RUNS, memory_order_relaxed);
    }
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
    struct weft__crew *crew = task->crew;
    server.crew = crew;
    server.shares = crew->capacity > 1 && (server.options.max_connections != 0 ||
                                           weft__addr_is_unix(weft__addr_const(&server.addr)));
    atomic_init(&server.accept.left, 1);
    weft_socket_options_init(&server.socket);
    if (server.options.socket != NULL) {
        server.socket = *server.options.socket;
    }
    size_t size = (size_t)crew->capacity * sizeof *server.lanes;
    server.lanes = weft__alloc(crew->allocator, size, _Alignof(struct lane));
    if (server.lanes == NULL) {
        return -ENOMEM;
    }
    watch(&server);
    rc = run(&server);
    while (!weft__size_watch_remove(crew, &server.watch)) {
        weft__host_yield(task);
    }
    weft__free(crew->allocator, server.lanes, size);
    return rc;
}
