// container_test.c - a process in a container that forbids io_uring just runs.
//
// Containers refuse in different ways: an error for every call of io_uring (Docker's default profile),
// "no such call" (older ones, gVisor), an error for some calls only, or death for what comes after a
// refusal, because a program that goes on must be up to something. Each test is a process of its own
// and puts itself into such a container before it starts weft.
#include "support/temp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <weft.h>

#define LATE (20 * WEFT_S)

enum { ECHOES = 50, CARRIERS = 3 };

/// What the container answers to each of the three calls: an errno, 0 for "let it pass", or DEATH.
struct container {
    int setup;
    int enter;
    int reg;
};

#define DEATH (-1)

static unsigned answer(int error)
{
    if (error == DEATH) {
        return SECCOMP_RET_KILL_PROCESS;
    }
    return error == 0 ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | (unsigned)error;
}

/// There is no way back. All threads of later inherit it.
static void enter_container(struct container container)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, answer(container.setup)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_enter, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, answer(container.enter)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_register, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, answer(container.reg)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof code / sizeof *code, code };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        SKIP("no seccomp filters here");
    }
}

// What a program does there.

static int echo(void *arg)
{
    int fd = *(int *)arg;
    char data[64];
    ssize_t n;
    while ((n = weft_read(fd, data, sizeof data, weft_after(LATE))) > 0) {
        CHECK_EQ(weft_write(fd, data, (size_t)n, weft_after(LATE)), n);
    }
    CHECK_EQ(n, 0);
    return weft_close(fd);
}

static void use_socketpair(void)
{
    int fds[2];
    struct weft_scope scope;
    char data[64];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, weft_after(LATE)));
    CHECK_OK(weft_scope_spawn(&scope, echo, &fds[1]));
    for (int i = 0; i < ECHOES; i++) {
        CHECK_EQ(weft_write(fds[0], "hello", 5, weft_after(LATE)), 5);
        CHECK_EQ(weft_read(fds[0], data, sizeof data, weft_after(LATE)), 5);
        CHECK_EQ(memcmp(data, "hello", 5), 0);
    }
    CHECK_EQ(weft_read(fds[0], data, sizeof data, weft_after(1 * WEFT_MS)), -ETIMEDOUT);
    CHECK_OK(weft_close(fds[0]));
    CHECK_OK(weft_scope_join(&scope));
}

static int serve_one(void *arg)
{
    weft_listener *listener = arg;
    weft_conn *conn;
    struct weft_slice in;
    int n;
    CHECK_OK(weft_accept(&conn, listener, weft_after(LATE)));
    while ((n = weft_conn_peek(conn, &in, 1, weft_after(LATE))) > 0) {
        CHECK_OK(weft_conn_write(conn, in.data, in.size, weft_after(LATE)));
        weft_conn_consume(conn, in.size);
    }
    CHECK_EQ(n, 0);
    return weft_conn_close(conn);
}

static void use_connection(void)
{
    weft_listener *listener;
    weft_conn *conn;
    struct weft_addr address;
    struct weft_scope scope;
    struct weft_slice in;
    char text[WEFT_ADDR_TEXT_BYTES];
    CHECK_OK(weft_listen(&listener, "tcp://127.0.0.1:0", NULL));
    CHECK_OK(weft_listener_addr(listener, &address));
    CHECK_OK(weft_addr_format(&address, text, sizeof text));
    CHECK_OK(weft_scope_init(&scope, WEFT_SCOPE_ALL, weft_after(LATE)));
    CHECK_OK(weft_scope_spawn(&scope, serve_one, listener));
    CHECK_OK(weft_dial(&conn, text, NULL, weft_after(LATE)));
    for (int i = 0; i < ECHOES; i++) {
        CHECK_OK(weft_conn_write(conn, "hello", 5, weft_after(LATE)));
        CHECK_EQ(weft_conn_peek(conn, &in, 5, weft_after(LATE)), 5);
        weft_conn_consume(conn, 5);
    }
    CHECK_OK(weft_conn_close(conn));
    CHECK_OK(weft_scope_join(&scope));
    CHECK_OK(weft_listener_close(listener));
}

static void use_file(void)
{
    char data[16];
    int fd = temp_file();
    CHECK_EQ(weft_pwrite(fd, "hello", 5, 3, weft_after(LATE)), 5);
    CHECK_EQ(weft_pread(fd, data, sizeof data, 3, weft_after(LATE)), 5);
    CHECK_EQ(memcmp(data, "hello", 5), 0);
    CHECK_OK(weft_fsync(fd, weft_after(LATE)));
    CHECK_OK(weft_close(fd));
}

static int program(void *arg)
{
    use_socketpair();
    use_connection();
    use_file();
    CHECK_OK(weft_sleep(1 * WEFT_MS));
    *(bool *)arg = true;
    return 0;
}

/// What the log said about the choice.
static _Atomic int warnings;
static _Atomic int chosen;
static _Atomic int refused;

static void watch_log(void *ctx, enum weft_log_level level, const char *module, const char *message)
{
    (void)ctx;
    if (strcmp(module, "io") != 0) {
        return;
    }
    if (level == WEFT_LOG_WARN && strstr(message, "epoll instead of io_uring") != NULL) {
        warnings++;
    } else if (level == WEFT_LOG_INFO && strstr(message, "driver: ") != NULL) {
        chosen++;
    } else if (level == WEFT_LOG_ERROR) {
        refused++;
    }
}

static int run_with(enum weft_io io)
{
    struct weft_options options = WEFT_OPTIONS_INIT;
    bool ran = false;
    CHECK_EQ(unsetenv("WEFT_IO"), 0);
    CHECK_EQ(unsetenv("WEFT_POLLER"), 0); // some decide about the driver
    options.carriers = CARRIERS;
    options.io = io;
    options.log = watch_log;
    options.log_level = WEFT_LOG_INFO;
    int rc = weft_run(program, &ran, &options);
    CHECK_EQ(ran, rc == 0);
    return rc;
}

/// It runs, and says once why it is not on io_uring.
static void check_runs_on_epoll(struct container container)
{
    if (!test_uring_available()) {
        SKIP("io_uring is not to be had anyway");
    }
    enter_container(container);
    CHECK_EQ(run_with(WEFT_IO_AUTO), 0);
    CHECK_EQ(atomic_load(&warnings), 1);
    CHECK_EQ(atomic_load(&chosen), 0);
    CHECK_EQ(atomic_load(&refused), 0);
    CHECK_LT(run_with(WEFT_IO_URING), 0); // who insists is told
    CHECK_EQ(atomic_load(&refused), 1);
    CHECK_EQ(run_with(WEFT_IO_EPOLL), 0);
    CHECK_EQ(atomic_load(&warnings), 1);
    CHECK_EQ(atomic_load(&chosen), 1);
}

TEST(no_such_system_call)
{
    check_runs_on_epoll((struct container){ ENOSYS, ENOSYS, ENOSYS });
}

TEST(not_permitted)
{
    check_runs_on_epoll((struct container){ EPERM, EPERM, EPERM });
}

TEST(denied_by_a_security_module)
{
    check_runs_on_epoll((struct container){ EACCES, EACCES, EACCES });
}

TEST(who_goes_on_after_a_refusal_is_killed)
{
    check_runs_on_epoll((struct container){ EPERM, DEATH, DEATH });
}

TEST(a_ring_that_cannot_be_entered)
{
    check_runs_on_epoll((struct container){ 0, EPERM, EPERM });
}

// Messages between rings and buffer rings need registration, on this or that kernel; operations do
// not. Whatever the choice is, the program runs, and the choice is told once.
TEST(nothing_can_be_registered)
{
    enter_container((struct container){ 0, 0, EPERM });
    CHECK_EQ(run_with(WEFT_IO_AUTO), 0);
    CHECK_EQ(atomic_load(&warnings) + atomic_load(&chosen), 1);
}

// The annex of a remedy cannot do without.
TEST(nothing_can_be_registered_and_there_is_a_remedy)
{
    CHECK_EQ(setenv("WEFT_STUCK_REMEDY", "spare", 1), 0);
    check_runs_on_epoll((struct container){ 0, 0, EPERM });
}

TEST(epoll_never_asks_for_a_ring)
{
    enter_container((struct container){ DEATH, DEATH, DEATH });
    CHECK_EQ(run_with(WEFT_IO_EPOLL), 0);
    CHECK_EQ(atomic_load(&warnings), 0);
    CHECK_EQ(atomic_load(&chosen), 1);
}
