// chat.c - a chat room: what one says, everyone reads.
//
//     chat [ADDRESS]        default: tcp://127.0.0.1:7005
//
// Everyone is served on one carrier, so the room needs no lock: a virtual thread is interrupted only
// where it waits, and while it changes the list it does not wait. Each member has a reader and a writer;
// readers only append to the queues of the others, so a slow member holds up nobody. One who falls too
// far behind is thrown out.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft.h>

enum { MAX_LINE = 512, MAX_QUEUE = 64 * 1024 };

struct member {
    struct member *next;
    weft_conn *conn;
    struct weft_scope scope;   // of reader and writer
    struct weft_notify queued; // something is in the queue
    size_t size;
    char queue[MAX_QUEUE];
};

static struct member *room;

static void say(const char *text, size_t size)
{
    for (struct member *member = room; member != NULL; member = member->next) {
        if (size > MAX_QUEUE - member->size) {
            weft_scope_cancel(&member->scope);
            continue;
        }
        memcpy(member->queue + member->size, text, size);
        member->size += size;
        weft_notify_one(&member->queued);
    }
}

static int write_queue(void *arg)
{
    struct member *member = arg;
    int rc = 0;
    while (rc == 0 && (rc = weft_notify_wait(&member->queued, WEFT_FOREVER)) == 0) {
        char text[MAX_LINE];
        while (rc == 0 && member->size > 0) { // a piece at a time: it grows while we write
            size_t size = member->size < sizeof text ? member->size : sizeof text;
            memcpy(text, member->queue, size);
            member->size -= size;
            memmove(member->queue, member->queue + size, member->size);
            rc = weft_conn_write(member->conn, text, size, WEFT_FOREVER);
        }
    }
    return rc;
}

/// Reads lines and says them, until the member leaves: 0, or a negative errno.
static int read_lines(struct member *member, const char *name)
{
    struct weft_slice in;
    size_t at_least = 1;
    int rc;
    while ((rc = weft_conn_peek(member->conn, &in, at_least, WEFT_FOREVER)) > 0) {
        char text[MAX_LINE + 32];
        const char *end = memchr(in.data, '\n', in.size);
        if (end == NULL && in.size < MAX_LINE) {
            at_least = in.size + 1;
            continue;
        }
        size_t size = end != NULL ? (size_t)(end - in.data) : MAX_LINE;
        size = size < MAX_LINE ? size : MAX_LINE;
        int length = snprintf(text, sizeof text, "%s: %.*s\n", name, (int)size, in.data);
        say(text, (size_t)length);
        weft_conn_consume(member->conn, size + (end != NULL && end - in.data == (long)size));
        at_least = 1;
    }
    return rc;
}

static int talk(void *arg)
{
    static int count;
    char name[32];
    char text[64];
    struct member *member = calloc(1, sizeof *member);
    if (member == NULL) {
        weft_conn_abort(arg);
        return -ENOMEM;
    }
    member->conn = arg;
    snprintf(name, sizeof name, "guest%d", ++count);
    weft_scope_init(&member->scope, WEFT_SCOPE_ALL, WEFT_FOREVER);
    weft_scope_spawn(&member->scope, write_queue, member);
    member->next = room;
    room = member;
    say(text, (size_t)snprintf(text, sizeof text, "* %s comes in\n", name));
    int rc = read_lines(member, name);
    struct member **link = &room;
    while (*link != member) {
        link = &(*link)->next;
    }
    *link = member->next;
    say(text, (size_t)snprintf(text, sizeof text, "* %s leaves\n", name));
    weft_scope_cancel(&member->scope); // the writer waits for ever
    weft_scope_join(&member->scope);
    rc < 0 ? weft_conn_abort(member->conn) : weft_conn_close(member->conn);
    free(member);
    return rc;
}

static int serve(void *address)
{
    char where[WEFT_ADDR_TEXT_BYTES];
    struct weft_addr addr;
    weft_listener *listener;
    weft_conn *conn;
    int rc = weft_listen(&listener, address, NULL);
    if (rc < 0) {
        return rc;
    }
    weft_listener_addr(listener, &addr);
    weft_addr_format(&addr, where, sizeof where);
    printf("listening on %s\n", where);
    fflush(stdout);
    while ((rc = weft_accept(&conn, listener, WEFT_FOREVER)) == 0) {
        if (weft_go(talk, conn) < 0) { // on this carrier
            weft_conn_abort(conn);
        }
    }
    weft_listener_close(listener);
    return rc;
}

int main(int argc, char **argv)
{
    char *address = argc > 1 ? argv[1] : (char[]){ "tcp://127.0.0.1:7005" };
    int rc = weft_run(serve, address, NULL);
    fprintf(stderr, "chat: %s: %s\n", address, strerror(-rc));
    return 1;
}
