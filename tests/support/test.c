// test.c - the test runner: a process per test, a timeout, TAP on stdout.
//
// Tests fork and do not exec. The runner is single-threaded and starts nothing, so a forked child
// is as good as a fresh process, and forking works the same under qemu-user and valgrind.
//
//   R1  Every child leads its own process group; the group is killed when the test is over, so a
//       test cannot leave processes behind.
//   R2  The group is killed while its leader is still a zombie: the group id cannot be reused.
//   R3  Nothing reads the child's pipe to its end: a stray grandchild may hold it open for ever.
#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__has_feature)
#define HAS_FEATURE(x) __has_feature(x)
#else
#define HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                               \
    HAS_FEATURE(address_sanitizer) || HAS_FEATURE(thread_sanitizer)
#define SANITIZED true
#else
#define SANITIZED false
#endif

enum { EXIT_SKIPPED = 77, DEFAULT_TIMEOUT_S = 60, SLOW_FACTOR = 4, SLOW_TEST_S = 5 };
enum { TAIL_BYTES = 64 * 1024 };

#define SKIP_MARK "skip: "

static struct test_case *first_test;
static struct test_case **last_test = &first_test;
static enum test_driver current_driver;
static uint64_t seed;
static const char *program;
static volatile sig_atomic_t stop_signal;

void test_register(struct test_case *test)
{
    *last_test = test;
    last_test = &test->next;
}

enum test_driver test_driver(void)
{
    return current_driver;
}

uint64_t test_seed(void)
{
    return seed;
}

uint64_t test_random(uint64_t *state) // splitmix64
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

bool test_is_slow(void)
{
    const char *preload = getenv("LD_PRELOAD");
    return SANITIZED || (preload && strstr(preload, "vgpreload"));
}

bool test_is_emulated(void)
{
    return getenv("TEST_EMULATED") != NULL;
}

static uint64_t env_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    if (!text || !*text) {
        return otherwise;
    }
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 0);
    if (errno || *end) {
        fprintf(stderr, "%s: '%s' is not a number\n", name, text);
        exit(2);
    }
    return value;
}

uint64_t test_scaled(uint64_t full)
{
    uint64_t scaled = full * env_number("TEST_SCALE", 100) / 100;
    if (test_is_slow()) {
        scaled /= SLOW_FACTOR;
    }
    return scaled ? scaled : 1;
}

static bool polls_by_tasks(void)
{
    const char *poller = getenv("WEFT_POLLER");
    return poller != NULL && strcmp(poller, "tasks") == 0;
}

bool test_uring_available(void)
{
    if (polls_by_tasks()) {
        return false;
    }
#if TEST_HAVE_URING
    struct io_uring_params params;
    memset(&params, 0, sizeof params);
    long fd = syscall(__NR_io_uring_setup, 2, &params);
    if (fd < 0) {
        return false;
    }
    close((int)fd);
    return true;
#else
    return false;
#endif
}

// Checks. They write with dprintf and end with _exit, so that no lock of stdio can be in the way.

void test_fail(const char *file, int line, const char *format, ...)
{
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    dprintf(STDERR_FILENO, "%s:%d: failed: %s\n", file, line, message);
    _exit(1);
}

void test_skip(const char *reason)
{
    dprintf(STDERR_FILENO, SKIP_MARK "%s\n", reason);
    _exit(EXIT_SKIPPED);
}

bool test_steals(void)
{
    const char *steal = getenv("WEFT_STEAL");
    const char *sched = getenv("WEFT_SCHED");
    return (steal && strcmp(steal, "on") == 0) || (sched && strcmp(sched, "stealing") == 0);
}

struct test_value test_value_signed(long long value)
{
    return (struct test_value){ .type = TEST_SIGNED, .i = value, .d = (double)value };
}

struct test_value test_value_unsigned(unsigned long long value)
{
    return (struct test_value){ .type = TEST_UNSIGNED, .u = value, .d = (double)value };
}

struct test_value test_value_float(double value)
{
    return (struct test_value){ .type = TEST_FLOAT, .d = value };
}

struct test_value test_value_pointer(const volatile void *value)
{
    return (struct test_value){ .type = TEST_POINTER, .u = (uintptr_t)value };
}

static bool is_negative(struct test_value v)
{
    return v.type == TEST_SIGNED && v.i < 0;
}

static uint64_t magnitude(struct test_value v)
{
    return v.type == TEST_SIGNED ? (uint64_t)v.i : v.u;
}

// -1, 0 or 1; 2 when nothing holds (a NaN).
static int order(struct test_value a, struct test_value b)
{
    if (a.type == TEST_FLOAT || b.type == TEST_FLOAT) {
        return a.d < b.d ? -1 : a.d > b.d ? 1 : a.d == b.d ? 0 : 2;
    }
    if (is_negative(a) != is_negative(b)) {
        return is_negative(a) ? -1 : 1;
    }
    uint64_t x = magnitude(a), y = magnitude(b); // two's complement keeps the order of negatives
    return x < y ? -1 : x > y;
}

static const char *show(struct test_value v, char *text, size_t size)
{
    switch (v.type) {
    case TEST_SIGNED: snprintf(text, size, "%lld", v.i); break;
    case TEST_UNSIGNED:
        snprintf(text, size, v.u > 4096 ? "%llu (0x%llx)" : "%llu", v.u, v.u);
        break;
    case TEST_FLOAT: snprintf(text, size, "%.17g", v.d); break;
    case TEST_POINTER: snprintf(text, size, "0x%llx", v.u); break;
    }
    return text;
}

void test_compare(const char *file, int line, const char *text, const char *op, struct test_value a,
                  struct test_value b)
{
    int o = order(a, b);
    bool holds = false;
    switch (op[0]) {
    case '=': holds = o == 0; break;
    case '!': holds = o != 0; break;
    case '<': holds = o == -1 || (op[1] == '=' && o == 0); break;
    case '>': holds = o == 1 || (op[1] == '=' && o == 0); break;
    }
    if (!holds) {
        char x[64], y[64];
        test_fail(file, line, "%s (left is %s, right is %s)", text, show(a, x, sizeof x),
                  show(b, y, sizeof y));
    }
}

void test_compare_str(const char *file, int line, const char *text, const char *a, const char *b)
{
    if (a == b || (a && b && strcmp(a, b) == 0)) {
        return;
    }
    test_fail(file, line, "%s\n  left:  %s\n  right: %s", text, a ? a : "(null)", b ? b : "(null)");
}

void test_check_ok(const char *file, int line, const char *text, long long result)
{
    if (result < 0) {
        const char *name = strerrorname_np((int)-result);
        test_fail(file, line, "%s returned %lld (-%s)", text, result, name ? name : "?");
    }
}

// One test, in this process.

static int run_here(const struct test_case *test)
{
    current_driver = test->driver;
    switch (test->driver) {
    case TEST_DRIVER_URING:
        if (!test_uring_available()) {
            test_skip(polls_by_tasks() ? "WEFT_POLLER=tasks waits in epoll"
                                       : "io_uring is not available");
        }
        setenv("WEFT_IO", "uring", 1);
        break;
    case TEST_DRIVER_EPOLL: setenv("WEFT_IO", "epoll", 1); break;
    case TEST_DRIVER_SIM:
    case TEST_DRIVER_NONE: break;
    }
    test->body();
    return 0;
}

// One test, in a child.

struct tail {
    char data[2 * TAIL_BYTES + 1];
    size_t size;
    bool cut;
};

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

// Keeps the last TAIL_BYTES at least. False at the end of the stream.
static bool drain(int fd, struct tail *tail)
{
    for (;;) {
        if (tail->size == 2 * TAIL_BYTES) {
            memmove(tail->data, tail->data + TAIL_BYTES, TAIL_BYTES);
            tail->size = TAIL_BYTES;
            tail->cut = true;
        }
        ssize_t n = read(fd, tail->data + tail->size, 2 * TAIL_BYTES - tail->size);
        if (n <= 0) {
            return n < 0 && (errno == EAGAIN || errno == EINTR);
        }
        tail->size += (size_t)n;
    }
}

static void run_in_child(const struct test_case *test, int output, const sigset_t *mask)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int null = open("/dev/null", O_RDONLY);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
        dup2(output, STDERR_FILENO) < 0) {
        _exit(2);
    }
    close(null);
    close(output);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    exit(run_here(test));
}

// Waits until the child is a zombie (R2), reading what it prints. False if it ran out of time.
static bool watch(pid_t pid, int fd, struct tail *tail, const sigset_t *mask)
{
    uint64_t timeout_s = env_number("TEST_TIMEOUT", DEFAULT_TIMEOUT_S);
    uint64_t timeout_ms = timeout_s * 1000 * (test_is_slow() ? SLOW_FACTOR : 1);
    uint64_t start = now_ms();
    struct pollfd pipe_end = { .fd = fd, .events = POLLIN };
    for (;;) {
        if (pipe_end.fd >= 0 && !drain(fd, tail)) {
            pipe_end.fd = -1;
        }
        siginfo_t info = { 0 };
        if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid) {
            return true;
        }
        uint64_t spent = now_ms() - start;
        if (stop_signal || (timeout_ms && spent >= timeout_ms)) {
            return false;
        }
        uint64_t left = timeout_ms ? timeout_ms - spent : 3600 * 1000;
        struct timespec ts = { (time_t)(left / 1000), (long)(left % 1000) * 1000000 };
        ppoll(&pipe_end, 1, &ts, mask);
    }
}

static void print_output(struct tail *tail)
{
    if (tail->cut) {
        printf("# (earlier output is left out)\n");
    }
    tail->data[tail->size] = '\0';
    char *rest = tail->data;
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (*line || rest) {
            printf("# %s\n", line);
        }
    }
}

// The reason given by the last SKIP line.
static const char *skip_reason(struct tail *tail)
{
    tail->data[tail->size] = '\0';
    const char *reason = "";
    char *rest = tail->data;
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (strncmp(line, SKIP_MARK, strlen(SKIP_MARK)) == 0) {
            reason = line + strlen(SKIP_MARK);
        }
    }
    return reason;
}

static void report_failure(const struct test_case *test, int number, const siginfo_t *info,
                           bool in_time, uint64_t spent_ms, struct tail *tail)
{
    printf("not ok %d - %s\n", number, test->name);
    print_output(tail);
    if (!in_time) {
        printf("# timed out after %.1f s\n", (double)spent_ms / 1e3);
    } else if (info->si_code != CLD_EXITED) {
        printf("# killed by signal %d (%s)\n", info->si_status, strsignal(info->si_status));
    } else {
        printf("# exit status %d\n", info->si_status);
    }
    printf("# replay: TEST_SEED=%" PRIu64 " %s %s\n", seed, program, test->name);
}

static bool run_and_report(const struct test_case *test, int number, const sigset_t *mask)
{
    static struct tail tail;
    tail.size = 0;
    tail.cut = false;
    int pipes[2];
    fflush(stdout);
    if (pipe2(pipes, O_CLOEXEC) < 0) {
        perror("pipe2");
        exit(2);
    }
    uint64_t start = now_ms();
    pid_t pid = fork();
    if (pid < 0) {
        perror("fork");
        exit(2);
    }
    if (pid == 0) {
        close(pipes[0]);
        run_in_child(test, pipes[1], mask);
    }
    setpgid(pid, pid);
    close(pipes[1]);
    fcntl(pipes[0], F_SETFL, O_NONBLOCK);

    bool in_time = watch(pid, pipes[0], &tail, mask);
    kill(-pid, SIGKILL);
    siginfo_t info = { 0 };
    waitid(P_PID, (id_t)pid, &info, WEXITED);
    drain(pipes[0], &tail); // R3: what is there now, no more
    close(pipes[0]);
    if (stop_signal) {
        signal(stop_signal, SIG_DFL);
        raise(stop_signal);
    }

    uint64_t spent_ms = now_ms() - start;
    bool exited = in_time && info.si_code == CLD_EXITED;
    if (exited && info.si_status == EXIT_SKIPPED) {
        printf("ok %d - %s # SKIP %s\n", number, test->name, skip_reason(&tail));
        return true;
    }
    if (!exited || info.si_status != 0) {
        report_failure(test, number, &info, in_time, spent_ms, &tail);
        return false;
    }
    printf("ok %d - %s\n", number, test->name);
    if (getenv("TEST_VERBOSE")) {
        print_output(&tail);
    }
    if (spent_ms > SLOW_TEST_S * 1000) {
        printf("# took %.1f s\n", (double)spent_ms / 1e3);
    }
    return true;
}

static void on_child(int signal_number)
{
    (void)signal_number; // only interrupts ppoll
}

static void on_stop(int signal_number)
{
    stop_signal = signal_number;
}

// False for tests of a driver other than TEST_DRIVER names.
static bool is_wanted(const struct test_case *test)
{
    const char *only = getenv("TEST_DRIVER");
    if (!only || !*only || test->driver == TEST_DRIVER_NONE || test->driver == TEST_DRIVER_SIM) {
        return true;
    }
    return strcmp(only, test->driver == TEST_DRIVER_URING ? "uring" : "epoll") == 0;
}

static void check_wanted_driver(void)
{
    const char *only = getenv("TEST_DRIVER");
    if (only && *only && strcmp(only, "uring") != 0 && strcmp(only, "epoll") != 0) {
        fprintf(stderr, "TEST_DRIVER: '%s' is neither uring nor epoll\n", only);
        exit(2);
    }
}

static int run_all(void)
{
    sigset_t ours, before;
    sigemptyset(&ours);
    sigaddset(&ours, SIGCHLD);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    sigprocmask(SIG_BLOCK, &ours, &before);
    signal(SIGCHLD, on_child);
    signal(SIGINT, on_stop);
    signal(SIGTERM, on_stop);

    int count = 0;
    for (struct test_case *test = first_test; test; test = test->next) {
        count += is_wanted(test);
    }
    printf("1..%d\n# seed %" PRIu64 "\n", count, seed);
    int number = 0, failed = 0;
    for (struct test_case *test = first_test; test; test = test->next) {
        if (is_wanted(test)) {
            failed += !run_and_report(test, ++number, &before);
        }
    }
    return failed ? 1 : 0;
}

static int list(void)
{
    for (struct test_case *test = first_test; test; test = test->next) {
        if (is_wanted(test)) {
            puts(test->name);
        }
    }
    return 0;
}

static uint64_t choose_seed(void)
{
    uint32_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random) {
        random = (uint32_t)now_ms();
    }
    return env_number("TEST_SEED", random);
}

int main(int argc, char **argv)
{
    program = argv[0];
    seed = choose_seed();
    check_wanted_driver();
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 1) {
        return run_all();
    }
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        return list();
    }
    for (struct test_case *test = first_test; argc == 2 && test; test = test->next) {
        if (strcmp(test->name, argv[1]) == 0) {
            printf("# seed %" PRIu64 "\n", seed);
            return run_here(test);
        }
    }
    fprintf(stderr, "usage: %s [NAME | --list]\n", argv[0]);
    return 2;
}
