// fdfault_test.c - lets the nth system call behind the calls on descriptors fail, with each errno that
// is plausible for it, and the nth operation of a ring, too. Each time a call fails or does not; nothing
// crashes, hangs or is left open.
//
// The linker sends the static library's calls through the __wrap_ functions below (--wrap, see
// tests/meson.build).
#include "support/faults.h"
#include "support/fds.h"
#include "support/gather.h"

#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#ifdef WEFT_HAVE_URING
#include <liburing.h>
#endif

/// What can be made to fail.
enum fault {
    FAULT_RECV,
    FAULT_SEND,
    FAULT_RECVMSG,
    FAULT_SENDMSG,
    FAULT_READV,
    FAULT_WRITEV,
    FAULT_ACCEPT,
    FAULT_CONNECT,
    FAULT_POLL,
    FAULT_SPLICE,
    FAULT_FSYNC,
    FAULT_FCNTL,
    FAULT_FSTAT,
    FAULT_GETSOCKOPT,
    FAULT_SEEK,
    FAULT_SENDFILE,
    FAULT_RANGE,
    FAULT_PIPE,
    FAULT_CLOSE,
    FAULT_EPOLL_CTL,
    FAULT_EPOLL_WAIT,
    FAULT_MEMORY,
    FAULT_THREAD,
    FAULT_ENTER,     // a system call of the ring
    FAULT_OPERATION, // an operation of the ring
    FAULTS,
};

WRAP(FAULT_RECV, ssize_t, recv, (int fd, void *data, size_t size, int flags),
     (fd, data, size, flags), -1)
WRAP(FAULT_SEND, ssize_t, send, (int fd, const void *data, size_t size, int flags),
     (fd, data, size, flags), -1)
WRAP(FAULT_RECVMSG, ssize_t, recvmsg, (int fd, struct msghdr *message, int flags),
     (fd, message, flags), -1)
WRAP(FAULT_SENDMSG, ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags),
     (fd, message, flags), -1)
WRAP(FAULT_READV, ssize_t, preadv64v2,
     (int fd, const struct iovec *parts, int count, off64_t offset, int flags),
     (fd, parts, count, offset, flags), -1)
WRAP(FAULT_WRITEV, ssize_t, pwritev64v2,
     (int fd, const struct iovec *parts, int count, off64_t offset, int flags),
     (fd, parts, count, offset, flags), -1)
WRAP(FAULT_ACCEPT, int, accept4, (int fd, struct sockaddr *addr, socklen_t *size, int flags),
     (fd, addr, size, flags), -1)
WRAP(FAULT_CONNECT, int, connect, (int fd, const struct sockaddr *addr, socklen_t size),
     (fd, addr, size), -1)
WRAP(FAULT_POLL, int, poll, (struct pollfd * fds, nfds_t count, int timeout), (fds, count, timeout),
     -1)
WRAP(FAULT_SPLICE, ssize_t, splice,
     (int in, off64_t *in_offset, int out, off64_t *out_offset, size_t size, unsigned flags),
     (in, in_offset, out, out_offset, size, flags), -1)
WRAP(FAULT_FSYNC, int, fsync, (int fd), (fd), -1)
WRAP(FAULT_FSYNC, int, fdatasync, (int fd), (fd), -1)
WRAP(FAULT_FSTAT, int, fstat64, (int fd, struct stat64 *status), (fd, status), -1)
WRAP(FAULT_GETSOCKOPT, int, getsockopt, (int fd, int level, int name, void *value, socklen_t *size),
     (fd, level, name, value, size), -1)
WRAP(FAULT_SEEK, off64_t, lseek64, (int fd, off64_t offset, int whence), (fd, offset, whence), -1)
WRAP(FAULT_SENDFILE, ssize_t, sendfile64, (int out, int in, off64_t *offset, size_t size),
     (out, in, offset, size), -1)
WRAP(FAULT_RANGE, ssize_t, copy_file_range,
     (int in, off64_t *in_offset, int out, off64_t *out_offset, size_t size, unsigned flags),
     (in, in_offset, out, out_offset, size, flags), -1)
WRAP(FAULT_PIPE, int, pipe2, (int fds[2], int flags), (fds, flags), -1)
WRAP(FAULT_CLOSE, int, close, (int fd), (fd), (__real_close(fd), errno = fault_errno, -1))
WRAP(FAULT_EPOLL_CTL, int, epoll_ctl, (int epoll, int op, int fd, struct epoll_event *event),
     (epoll, op, fd, event), -1)
WRAP(FAULT_EPOLL_WAIT, int, epoll_wait,
     (int epoll, struct epoll_event *events, int room, int timeout), (epoll, events, room, timeout),
     -1)
WRAP(FAULT_EPOLL_WAIT, int, epoll_pwait2,
     (int epoll, struct epoll_event *events, int room, const struct timespec *timeout,
      const sigset_t *mask),
     (epoll, events, room, timeout, mask), -1)
WRAP(FAULT_MEMORY, void *, calloc, (size_t count, size_t size), (count, size), NULL)
WRAP(FAULT_MEMORY, int, posix_memalign, (void **memory, size_t align, size_t size),
     (memory, align, size), ENOMEM)
WRAP(FAULT_MEMORY, void *, aligned_alloc, (size_t align, size_t size), (align, size), NULL)
WRAP(FAULT_THREAD, int, pthread_create,
     (pthread_t * thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg),
     (thread, attr, fn, arg), EAGAIN)

int __real_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...)
{
    va_list list;
    va_start(list, command);
    long arg = va_arg(list, long);
    va_end(list);
    return fails(FAULT_FCNTL) ? -1 : __real_fcntl64(fd, command, arg);
}

#ifdef WEFT_HAVE_URING
// An operation fails without having done anything: it becomes another one, that does nothing and says
// what it is told to say (Linux 6.10; before, it says -EINVAL).

#define NOP_INJECT_RESULT 1u

static _Thread_local struct io_uring *ring; // of this carrier

int __real_io_uring_queue_init(unsigned entries, struct io_uring *it, unsigned flags);
int __wrap_io_uring_queue_init(unsigned entries, struct io_uring *it, unsigned flags);
int __wrap_io_uring_queue_init(unsigned entries, struct io_uring *it, unsigned flags)
{
    int rc = __real_io_uring_queue_init(entries, it, flags);
    ring = rc == 0 ? it : NULL;
    return rc;
}

/// Only operations on descriptors of the test, which are told by their user_data: a pointer.
static void spoil_operations(void)
{
    const struct io_uring_sq *sq = &ring->sq;
    for (unsigned at = *sq->khead; at != *sq->ktail; at++) {
        struct io_uring_sqe *sqe = &sq->sqes[at & sq->ring_mask];
        if (sqe->user_data >= 4096 && sqe->opcode != IORING_OP_NOP && fails(FAULT_OPERATION)) {
            uint64_t user_data = sqe->user_data;
            *sqe = (struct io_uring_sqe){ .opcode = IORING_OP_NOP, .user_data = user_data };
            sqe->len = (uint32_t)-fault_errno;
            sqe->rw_flags = NOP_INJECT_RESULT;
        }
    }
}

int __real_io_uring_enter2(unsigned fd, unsigned submit, unsigned want, unsigned flags,
                           sigset_t *mask, size_t size);
int __wrap_io_uring_enter2(unsigned fd, unsigned submit, unsigned want, unsigned flags,
                           sigset_t *mask, size_t size);
int __wrap_io_uring_enter2(unsigned fd, unsigned submit, unsigned want, unsigned flags,
                           sigset_t *mask, size_t size)
{
    if (fails(FAULT_ENTER)) {
        return -fault_errno;
    }
    if (ring != NULL && submit > 0 && atomic_load(&countdown) > 0) {
        spoil_operations();
    }
    return __real_io_uring_enter2(fd, submit, want, flags, mask, size);
}
#endif

// The dialogue. Whatever fails ends its part; others wait no longer than this for what then never
// comes.
#define PATIENCE weft_after(30 * WEFT_MS)

static bool is_answer(int64_t rc)
{
    return rc >= 0 || (rc == -fault_errno && rc != -EINTR) || rc == -ETIMEDOUT || rc == -ENOMEM ||
           rc == -EAGAIN || rc == -EPIPE || rc == -EBADF;
}

/// Goes on to the next call only if this one has done something.
static bool did(int64_t rc, int64_t least, const char *call)
{
    if (!is_answer(rc)) {
        FAIL("%s is %lld; fault %d, errno %d", call, (long long)rc, (int)fault, fault_errno);
    }
    return rc >= least;
}

#define TRY_LEAST(call, least)                                                                     \
    do {                                                                                           \
        if (!did((call), (least), #call)) {                                                        \
            return 0;                                                                              \
        }                                                                                          \
    } while (0)
#define TRY(call) TRY_LEAST(call, 1)    // moves bytes
#define TRY_OK(call) TRY_LEAST(call, 0) // does not

struct stage {
    struct channel channels[3]; // pipe, Unix, TCP
    struct channel spare;
    int listener;
    int client;
    int accepted;
    int files[2];
    uint16_t port;
};

static int write_later(void *arg)
{
    struct stage *stage = arg;
    (void)weft_yield();
    for (int i = 0; i < 3; i++) {
        TRY(weft_write(stage->channels[i].to, "hello", 5, PATIENCE));
    }
    return 0;
}

static int act_reading(void *arg)
{
    struct stage *stage = arg;
    char data[8];
    struct iovec part = { data, sizeof data };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    struct sockaddr_storage addr;
    uint32_t size = sizeof addr;
    for (int i = 0; i < 3; i++) { // what write_later() writes
        TRY(weft_read_full(NULL, stage->channels[i].from, data, 5, PATIENCE));
    }
    TRY(weft_send(stage->channels[1].to, "send", 4, 0, PATIENCE));
    TRY(weft_recv(stage->channels[1].from, data, sizeof data, 0, PATIENCE));
    TRY(weft_sendmsg(stage->channels[2].to, &message, 0, PATIENCE));
    TRY(weft_recvmsg(stage->channels[2].from, &message, 0, PATIENCE));
    TRY(weft_writev(stage->channels[0].to, &part, 1, PATIENCE));
    TRY(weft_poll(stage->channels[0].from, POLLIN, PATIENCE));
    TRY(weft_readv(stage->channels[0].from, &part, 1, PATIENCE));
    TRY(weft_send(stage->channels[1].to, "all", 3, 0, PATIENCE));
    TRY(weft_recv(stage->channels[1].from, data, 3, MSG_WAITALL, PATIENCE));
    TRY(weft_send(stage->channels[1].to, "from", 4, 0, PATIENCE));
    TRY(weft_recvfrom(stage->channels[1].from, data, sizeof data, 0, (struct sockaddr *)&addr,
                      &size, PATIENCE));
    return 0;
}

static int act_connecting(void *arg)
{
    struct stage *stage = arg;
    struct sockaddr_in addr = loopback(stage->port);
    TRY_OK(weft_connect(stage->client, (struct sockaddr *)&addr, sizeof addr, PATIENCE));
    stage->accepted = weft_accept_fd(stage->listener, NULL, NULL, SOCK_CLOEXEC, PATIENCE);
    TRY_OK(stage->accepted);
    return 0;
}

static int act_on_files(void *arg)
{
    struct stage *stage = arg;
    char data[8] = "contents";
    int64_t offset = 0;
    TRY(weft_pwrite(stage->files[0], data, sizeof data, 0, PATIENCE));
    TRY(weft_pread(stage->files[0], data, sizeof data, 0, PATIENCE));
    TRY(weft_read(stage->files[0], data, sizeof data, PATIENCE));
    TRY_OK(weft_fsync(stage->files[0], PATIENCE));
    TRY_OK(weft_fdatasync(stage->files[0], PATIENCE));
    TRY(weft_sendfile(stage->channels[1].to, stage->files[0], &offset, 8, PATIENCE));
    offset = 0;
    TRY(weft_splice(stage->files[0], &offset, stage->channels[0].to, NULL, 8, 0, PATIENCE));
    TRY(weft_splice(stage->channels[0].from, NULL, stage->channels[1].to, NULL, 8, 0, PATIENCE));
    TRY_OK(weft_copy(NULL, stage->files[1], stage->files[0], 100, PATIENCE));
    return 0;
}

static int act_copying(void *arg)
{
    struct stage *stage = arg;
    TRY(weft_write(stage->spare.to, "to be copied", 12, PATIENCE));
    TRY_OK(weft_copy(NULL, stage->channels[1].to, stage->spare.from, 12, PATIENCE));
    TRY_OK(weft_copy(NULL, stage->channels[0].to, stage->channels[1].from, 12, PATIENCE));
    TRY_OK(weft_copy(NULL, stage->files[1], stage->channels[0].from, 12, PATIENCE));
    return 0;
}

static void stage_open(struct stage *stage)
{
    for (int i = 0; i < 3; i++) {
        stage->channels[i] = channel_open((enum channel_kind)i, i != 2);
    }
    stage->spare = channel_open(CHANNEL_UNIX, true);
    stage->listener = listen_tcp(&stage->port, 4);
    stage->client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    stage->accepted = -1;
    stage->files[0] = temp_file();
    stage->files[1] = temp_file();
}

static void close_leniently(int fd)
{
    int rc = weft_close(fd);
    CHECK(rc == 0 || (rc == -fault_errno && rc != -EINTR));
}

static void stage_close(struct stage *stage)
{
    for (int i = 0; i < 3; i++) {
        close_leniently(stage->channels[i].from);
        close_leniently(stage->channels[i].to);
    }
    close_leniently(stage->spare.from);
    close_leniently(stage->spare.to);
    close_leniently(stage->listener);
    close_leniently(stage->client);
    close_leniently(stage->files[0]);
    close_leniently(stage->files[1]);
    if (stage->accepted >= 0) {
        close_leniently(stage->accepted);
    }
}

/// True if the fault was reached.
static bool attempt(enum fault which, int error, int nth)
{
    static const weft_fn acts[] = { write_later, act_reading, act_connecting, act_on_files,
                                    act_copying };
    struct stage stage;
    weft_task *tasks[5];
    stage_open(&stage);
    for (int i = 0; i < 5; i++) {
        CHECK_OK(weft_spawn(&tasks[i], acts[i], &stage, NULL));
    }
    fault_errno = error;
    fault = which;
    atomic_store(&reached, false);
    atomic_store(&countdown, nth);
    for (int i = 0; i < 5; i++) {
        CHECK_OK(weft_join(NULL, tasks[i], WEFT_FOREVER));
    }
    stage_close(&stage);
    atomic_store(&countdown, 0);
    fault = FAULTS;
    return atomic_load(&reached);
}

static uint64_t in_flight(void)
{
    struct weft_io_stats stats = { .size = sizeof stats };
    CHECK_OK(weft_io_stats(weft_runtime_current(), -1, &stats));
    return stats.submitted - stats.completed;
}

/// What may go wrong with each, ended by 0. Nothing that the kernel never says to such a call: a
/// driver may rely on what -EAGAIN means.
static const int errnos[FAULTS][5] = {
    [FAULT_RECV] = { EINTR, ECONNRESET, ENOMEM },
    [FAULT_SEND] = { EINTR, ECONNRESET, ENOBUFS, ENOMEM },
    [FAULT_RECVMSG] = { EINTR, ECONNRESET, ENOMEM },
    [FAULT_SENDMSG] = { EINTR, EPIPE, ENOBUFS, ENOMEM },
    [FAULT_READV] = { EINTR, EIO, ENOMEM, EOPNOTSUPP },
    [FAULT_WRITEV] = { EINTR, EIO, ENOSPC, EOPNOTSUPP },
    [FAULT_ACCEPT] = { EINTR, EMFILE, ENOMEM, ECONNABORTED },
    [FAULT_CONNECT] = { EINTR, ECONNREFUSED, ENETUNREACH },
    [FAULT_POLL] = { EINTR, ENOMEM },
    [FAULT_SPLICE] = { EINTR, EINVAL, ENOMEM, EIO },
    [FAULT_FSYNC] = { EIO, ENOSPC },
    [FAULT_FCNTL] = { EINVAL, EPERM },
    [FAULT_FSTAT] = { ENOMEM, EIO },
    [FAULT_GETSOCKOPT] = { ENOBUFS, ENOMEM },
    [FAULT_SEEK] = { ESPIPE },
    [FAULT_SENDFILE] = { EINTR, EINVAL, EIO, ENOMEM },
    [FAULT_RANGE] = { EINTR, EXDEV, EIO, ENOSPC },
    [FAULT_PIPE] = { EMFILE, ENFILE },
    [FAULT_CLOSE] = { EINTR, EIO },
    [FAULT_EPOLL_CTL] = { ENOMEM, ENOSPC },
    [FAULT_EPOLL_WAIT] = { EINTR },
    [FAULT_MEMORY] = { ENOMEM },
    [FAULT_THREAD] = { EAGAIN },
    [FAULT_ENTER] = { EINTR, EAGAIN, EBUSY, ENOMEM },
    [FAULT_OPERATION] = { EINTR, EAGAIN, EIO, ENOMEM, ECONNRESET },
};

static int total; // failures

/// Every call of one kind in the dialogue fails once, in every way.
static int sweep(void *arg)
{
    enum fault which = *(enum fault *)arg;
    CHECK(!attempt(FAULTS, 0, 1)); // what is made once is made
    int before = count_descriptors();
    for (int k = 0; k < 5 && errnos[which][k] != 0; k++) {
        int nth = 1;
        while (attempt(which, errnos[which][k], nth)) {
            CHECK_EQ(count_descriptors(), before);
            CHECK_EQ(in_flight(), 0);
            nth++;
        }
        total += nth - 1;
    }
    CHECK(!attempt(FAULTS, 0, 1)); // and everything still works
    CHECK_EQ(count_descriptors(), before);
    printf("up to fault %d: %d failures\n", (int)which, total);
    return 0;
}

static void sweep_range(enum fault first, enum fault last)
{
    signal(SIGPIPE, SIG_DFL);
    for (enum fault which = first; which <= last; which++) {
        struct weft_options options = WEFT_OPTIONS_INIT;
        options.carriers = 1;
        options.blocking_idle_ns = which == FAULT_THREAD ? 1 : 0;
        CHECK_EQ(weft_run(sweep, &which, &options), 0);
    }
}

TEST_DRIVERS(the_nth_call_for_an_operation_fails)
{
    sweep_range(FAULT_RECV, FAULT_PIPE);
    CHECK_GT(total, 50);
}

TEST_DRIVERS(the_nth_close_fails)
{
    sweep_range(FAULT_CLOSE, FAULT_CLOSE);
    CHECK_GT(total, 20);
}

TEST_DRIVERS(the_nth_call_of_the_driver_fails)
{
    sweep_range(FAULT_EPOLL_CTL, FAULT_OPERATION);
    CHECK_GT(total, 20);
}
