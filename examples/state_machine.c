// state_machine.c - a protocol as a stackless state machine, over real descriptors.
//
// Each session reads a line and answers it in capitals, and ends when after that it has heard nothing
// for longer than its patience lasts.
// It needs no stack: a struct of a few hundred bytes is all there is of it, and the macros of
// weft/machine.h let it read like a function.
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <weft.h>

struct session {
    struct weft_machine machine; // first member
    int fd;
    struct weft_io_future io; // one operation at a time
    struct weft_timeout idle; // around it
    char data[64];
    int lines;
    weft_time patience_ns;
};

static enum weft_poll session_poll(struct weft_future *future, weft_waker *waker)
{
    struct session *s = (struct session *)(void *)future;
    WEFT_MACHINE_BEGIN(&s->machine);
    for (;;) {
        weft_read_future(&s->io, s->fd, s->data, sizeof s->data);
        weft_timeout_init(&s->idle, &s->io.future,
                          s->lines > 0 ? weft_after(s->patience_ns) : WEFT_FOREVER);
        WEFT_MACHINE_AWAIT(&s->machine, &s->idle.future, waker);
        if (s->idle.future.result <= 0) {
            break; // the end, an error, cancelled, or silence for too long
        }
        for (int i = 0; i < s->io.future.result; i++) {
            s->data[i] = (char)toupper((unsigned char)s->data[i]);
        }
        s->lines++;
        weft_write_future(&s->io, s->fd, s->data, (size_t)s->io.future.result);
        WEFT_MACHINE_AWAIT(&s->machine, &s->io.future, waker);
        if (s->io.future.result < 0) {
            WEFT_MACHINE_RETURN(&s->machine, s->io.future.result);
        }
    }
    WEFT_MACHINE_END(&s->machine, s->idle.future.result);
}

static void session_init(struct session *s, int fd, weft_time patience_ns)
{
    weft_machine_init(&s->machine, session_poll);
    s->fd = fd;
    s->lines = 0;
    s->patience_ns = patience_ns;
}

enum { SESSIONS = 3 };

/// The other end: an ordinary virtual thread. Session 0 says two lines and hangs up, the others one, and
/// keep silent.
static int talk(int fd, int number)
{
    char answer[64];
    for (int i = 0; i < (number == 0 ? 2 : 1); i++) {
        ssize_t n = weft_write(fd, "hello", 5, WEFT_FOREVER);
        n = n < 0 ? n : weft_read(fd, answer, sizeof answer, WEFT_FOREVER);
        if (n != 5 || memcmp(answer, "HELLO", 5) != 0) {
            return n < 0 ? (int)n : -EPROTO;
        }
        printf("session %d says %.5s\n", number, answer);
    }
    return number == 0 ? weft_close(fd) : 0;
}

static int run(void *arg)
{
    (void)arg;
    static struct session sessions[SESSIONS];
    weft_task *tasks[SESSIONS];
    int ends[SESSIONS][2];
    int results[SESSIONS];
    int rc = 0;
    for (int i = 0; i < SESSIONS; i++) {
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends[i]) < 0) {
            return -errno;
        }
        session_init(&sessions[i], ends[i][0], i == 1 ? 5 * WEFT_MS : 3600 * WEFT_S);
        rc = weft_spawn_future(&tasks[i], &sessions[i].machine.future, NULL);
        if (rc < 0) {
            return rc;
        }
    }
    for (int i = 0; i < SESSIONS && rc == 0; i++) {
        rc = talk(ends[i][1], i);
    }
    weft_task_cancel(tasks[2]); // this one does not wait for the silence to be long enough
    int joined = weft_join_all(results, tasks, SESSIONS, WEFT_FOREVER);
    if (rc < 0 || joined < 0) {
        return rc < 0 ? rc : joined;
    }
    for (int i = 0; i < SESSIONS; i++) {
        printf("session %d: %d lines, %s\n", i, sessions[i].lines,
               results[i] == 0 ? "hung up" : strerror(-results[i]));
    }
    printf("%zu bytes each\n", sizeof(struct session));
    return results[0] == 0 && results[1] == -ETIMEDOUT && results[2] == -ECANCELED ? 0 : -EPROTO;
}

int main(void)
{
    return weft_run(run, NULL, NULL) < 0;
}
