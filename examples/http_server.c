// http_server.c - a small HTTP server.
//
//     http_server [ADDRESS]                  default: tcp://127.0.0.1:7003
//     curl http://127.0.0.1:7003/            calls a function that blocks for 50 ms; others go on
//     curl http://127.0.0.1:7003/parallel    two children in a scope, on the carrier of the request
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <weft.h>

enum { MAX_HEAD = 8192, MAX_BODY = 256, MAX_NAME = 16 };

/// Stands for a library that knows nothing of weft: it runs on a thread of the pool.
static int block_for_50_ms(void *arg)
{
    (void)arg;
    return -clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){ .tv_nsec = 50000000 }, NULL);
}

static int front_page(char *body)
{
    snprintf(body, MAX_BODY, "hello after 50 ms\n");
    return weft_blocking(block_for_50_ms, NULL, WEFT_FOREVER);
}

static int child(void *name) // on the parent's stack, which stays until the scope is joined
{
    int rc = weft_sleep(10 * WEFT_MS);
    return rc < 0 ? rc : -pthread_getname_np(pthread_self(), name, MAX_NAME);
}

static int parallel(char *body)
{
    char here[MAX_NAME] = "?";
    char first[MAX_NAME] = "?";
    char second[MAX_NAME] = "?";
    struct weft_scope scope;
    pthread_getname_np(pthread_self(), here, MAX_NAME);
    weft_scope_init(&scope, WEFT_SCOPE_ALL, weft_after(WEFT_S));
    weft_scope_spawn(&scope, child, first); // both sleep at the same time
    weft_scope_spawn(&scope, child, second);
    int rc = weft_scope_join(&scope);
    snprintf(body, MAX_BODY, "request on %s, children on %s and %s\n", here, first, second);
    return rc;
}

static int reply(weft_conn *conn, const char *status, const char *body, bool keep)
{
    char text[512];
    int size = snprintf(text, sizeof text,
                        "HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n"
                        "Connection: %s\r\n\r\n%s",
                        status, strlen(body), keep ? "keep-alive" : "close", body);
    int rc = weft_conn_write(conn, text, (size_t)size, weft_after(30 * WEFT_S));
    return rc < 0 ? rc : keep;
}

static int answer(weft_conn *conn, const char *path, bool keep)
{
    char body[MAX_BODY];
    int rc;
    if (strcmp(path, "/") == 0) {
        rc = front_page(body);
    } else if (strcmp(path, "/parallel") == 0) {
        rc = parallel(body);
    } else {
        return reply(conn, "404 Not Found", "not found\n", keep);
    }
    return rc < 0 ? reply(conn, "503 Service Unavailable", strerror(-rc), keep)
                  : reply(conn, "200 OK", body, keep);
}

/// Copies the head of the next request, up to its empty line: 1; 0 at the end; or a negative errno.
static int read_head(weft_conn *conn, char *head)
{
    struct weft_slice in = { NULL, 0 };
    while (in.size < MAX_HEAD) {
        int rc = weft_conn_peek(conn, &in, in.size + 1, weft_after(30 * WEFT_S));
        if (rc <= 0) {
            return rc;
        }
        const char *end = memmem(in.data, in.size, "\r\n\r\n", 4);
        if (end != NULL && end - in.data < MAX_HEAD) {
            size_t size = (size_t)(end - in.data);
            memcpy(head, in.data, size);
            head[size] = '\0';
            weft_conn_consume(conn, size + 4);
            return 1;
        }
    }
    return -EMSGSIZE;
}

/// Answers one request. 1: the connection stays open; 0 or a negative errno: it is over.
static int serve_request(weft_conn *conn)
{
    char head[MAX_HEAD];
    char method[8];
    char path[256];
    int minor;
    int rc = read_head(conn, head); // idle: a shutdown ends this at once
    if (rc <= 0 && rc != -EMSGSIZE) {
        return rc;
    }
    if (rc < 0 || sscanf(head, "%7s %255s HTTP/1.%d", method, path, &minor) != 3) {
        return reply(conn, "400 Bad Request", "not a request\n", false);
    }
    if (strcmp(method, "GET") != 0) { // others may have a body, which we would not skip
        return reply(conn, "405 Method Not Allowed", "only GET\n", false);
    }
    weft_work_begin(); // from here on it waits for us
    rc = answer(conn, path, minor > 0 && strcasestr(head, "\r\nConnection: close") == NULL);
    weft_work_end();
    return rc;
}

static int handle(void *conn)
{
    int rc;
    while ((rc = serve_request(conn)) > 0) {
    }
    weft_conn_close(conn);
    return rc;
}

static void say_where(void *arg, const struct weft_addr *addr)
{
    (void)arg;
    printf("listening on http://127.0.0.1:%d/\n", weft_addr_port(addr));
    fflush(stdout);
}

static int serve(void *address)
{
    struct weft_serve_options options = WEFT_SERVE_OPTIONS_INIT;
    options.ready = say_where;
    return weft_serve(address, handle, &options);
}

int main(int argc, char **argv)
{
    char *address = argc > 1 ? argv[1] : (char[]){ "tcp://127.0.0.1:7003" };
    int rc = weft_run(serve, address, NULL);
    fprintf(stderr, "http_server: %s: %s\n", address, strerror(-rc));
    return 1;
}
