// graceful.c - a server that ends well: on SIGINT or SIGTERM it takes no more connections, closes idle
// ones, finishes the requests it has begun, and is gone. A second signal does not wait for them.
//
//     graceful [ADDRESS]        default: tcp://127.0.0.1:7002
//
// A request is a line with a number: for so many milliseconds the server works, then it answers.
//
//     $ nc 127.0.0.1 7002
//     2000
//     working for 2000 ms
//     done
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <weft.h>

enum { MAX_LINE = 64 };

/// Lends the next line: 1; 0 at the end; or a negative errno.
static int peek_line(weft_conn *conn, struct weft_slice *line)
{
    size_t at_least = 1;
    for (;;) {
        int rc = weft_conn_peek(conn, line, at_least, WEFT_FOREVER);
        if (rc <= 0) {
            return rc;
        }
        const char *end = memchr(line->data, '\n', line->size);
        if (end != NULL) {
            line->size = (size_t)(end - line->data) + 1;
            return 1;
        }
        if (line->size >= MAX_LINE) {
            return -EMSGSIZE;
        }
        at_least = line->size + 1;
    }
}

static int answer(weft_conn *conn, const struct weft_slice *line)
{
    char text[MAX_LINE];
    snprintf(text, sizeof text, "%.*s", (int)line->size, line->data);
    unsigned ms = (unsigned)atoi(text);
    int length = snprintf(text, sizeof text, "working for %u ms\n", ms);
    int rc = weft_conn_write(conn, text, (size_t)length, WEFT_FOREVER);
    if (rc == 0) {
        rc = weft_sleep(ms * WEFT_MS); // -ECANCELED after a second signal
    }
    return rc < 0 ? rc : weft_conn_write(conn, "done\n", 5, WEFT_FOREVER);
}

static int handle(void *arg)
{
    weft_conn *conn = arg;
    struct weft_slice line;
    int rc;
    while ((rc = peek_line(conn, &line)) > 0) { // idle: a shutdown ends this at once
        weft_work_begin();                      // from here on it waits for us
        rc = answer(conn, &line);
        weft_conn_consume(conn, line.size);
        weft_work_end();
        if (rc < 0) {
            break;
        }
    }
    weft_conn_close(conn); // sends what was written, also in a cancelled task
    return rc;
}

/// Passes signals on as requests to shut down: the first drains, the second forces.
static int watch_signals(void *arg)
{
    int fd = *(const int *)arg;
    struct signalfd_siginfo info;
    weft_work_begin(); // or the first one would end the watch for the second
    while (weft_read(fd, &info, sizeof info, WEFT_FOREVER) == sizeof info) {
        printf("%s: %s\n", strsignal((int)info.ssi_signo),
               weft_shutting_down() ? "ending now" : "finishing what has begun");
        fflush(stdout);
        weft_shutdown_request(NULL);
    }
    weft_work_end();
    return 0;
}

static void say_where(void *arg, const struct weft_addr *addr)
{
    char text[WEFT_ADDR_TEXT_BYTES];
    (void)arg;
    weft_addr_format(addr, text, sizeof text);
    printf("listening on %s\n", text);
    fflush(stdout);
}

struct server {
    const char *address;
    int signals;
};

static int serve(void *arg)
{
    struct server *server = arg;
    struct weft_serve_options options = WEFT_SERVE_OPTIONS_INIT;
    weft_task *watcher;
    options.ready = say_where;
    int rc = weft_spawn(&watcher, watch_signals, &server->signals, NULL);
    if (rc < 0) {
        return rc;
    }
    rc = weft_serve(server->address, handle, &options); // returns when the last handler has
    weft_task_cancel(watcher);
    weft_join(NULL, watcher, WEFT_FOREVER);
    return rc;
}

int main(int argc, char **argv)
{
    struct server server = { .address = argc > 1 ? argv[1] : "tcp://127.0.0.1:7002" };
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL); // before weft_run(): carriers inherit it
    server.signals = signalfd(-1, &signals, SFD_CLOEXEC);
    if (server.signals < 0) {
        perror("graceful: signalfd");
        return 1;
    }
    int rc = weft_run(serve, &server, NULL);
    close(server.signals);
    if (rc != -ECANCELED) { // that is how a shutdown ends it
        fprintf(stderr, "graceful: %s: %s\n", server.address, strerror(-rc));
        return 1;
    }
    printf("ended well\n");
    return 0;
}
