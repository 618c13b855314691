// child.c - starting contenders and taking their results.
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUND_TIMEOUT_MS (600 * 1000)
#define END_TIMEOUT_MS 2000
#define SLACK_MAX 64

static void skip(struct child *child, const char *why)
{
    snprintf(child->skipped, sizeof child->skipped, "%s", why);
    child_stop(child);
}

static _Noreturn void become(const struct contender *contender, const char *path, uint64_t count,
                             const cpu_set_t *cpus, unsigned slack, int in, int out)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
    sched_setaffinity(0, sizeof *cpus, cpus);
    char factor[12];
    snprintf(factor, sizeof factor, "%u", slack);
    setenv("WEFT_BENCH_SLACK", factor, 1);
    if (CPU_COUNT(cpus) == 1) {
        setenv("GOMAXPROCS", "1", 1);
    }
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    const char *argv[10], **at = argv;
    if (contender->serves != NULL) {
        *at++ = "/proc/self/exe";
        *at++ = "--load";
        *at++ = contender->bench;
        *at++ = digits;
    }
    *at++ = path;
    if (contender->program == NULL) {
        *at++ = contender->serves != NULL ? "--serve" : "--contend";
    }
    *at++ = contender->serves != NULL ? contender->serves : contender->bench;
    if (contender->serves == NULL) {
        *at++ = digits;
    }
    *at = NULL;
    execv(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

// Reads one line, without its end. Returns 0, or -1 with `skipped` set.
static int take_line(struct child *child)
{
    size_t used = 0;
    for (;;) {
        struct pollfd p = { .fd = child->from, .events = POLLIN };
        int rc = poll(&p, 1, ROUND_TIMEOUT_MS);
        if (rc < 0 && errno == EINTR) {
            continue;
        }
        if (rc <= 0) {
            skip(child, "timed out");
            return -1;
        }
        ssize_t n = read(child->from, child->line + used, 1);
        if (n <= 0) {
            skip(child, "ended without a result");
            return -1;
        }
        if (child->line[used] == '\n') {
            child->line[used] = '\0';
            break;
        }
        if (++used == sizeof child->line) {
            skip(child, "sent a line that is too long");
            return -1;
        }
    }
    if (strncmp(child->line, "skip: ", 6) == 0) {
        skip(child, child->line + 6);
        return -1;
    }
    return 0;
}

void child_start(struct child *child, const struct contender *contender, const char *peers,
                 uint64_t count, const cpu_set_t *cpus)
{
    char path[4096];
    child->slack = child->slack == 0 ? 1 : child->slack;
    if (contender->program == NULL) {
        // Its real name: a server of ours may be run by another program, valgrind.
        ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
        path[length > 0 ? length : 0] = '\0';
    } else if (peers == NULL) {
        skip(child, "peers are switched off");
        return;
    } else {
        snprintf(path, sizeof path, "%s/%s", peers, contender->program);
    }
    if (access(path, X_OK) < 0) {
        skip(child, "not built, see bench/README.md");
        return;
    }
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0) {
        perror("weft-bench: pipe");
        exit(1);
    }
    child->pid = fork();
    if (child->pid == 0) {
        become(contender, path, count, cpus, child->slack, to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    child->to = to[1];
    child->from = from[0];
    if (child->pid < 0) {
        child->pid = 0;
        close(child->to);
        close(child->from);
        skip(child, "cannot fork");
        return;
    }
    if (take_line(child) == 0 && strcmp(child->line, "ready") != 0) {
        skip(child, "does not speak the protocol");
    }
}

int child_round(struct child *child, struct child_result *out)
{
    memset(out, 0, sizeof *out);
    if (write(child->to, "\n", 1) != 1) {
        skip(child, "ended");
        return -1;
    }
    if (take_line(child) < 0) {
        return -1;
    }
    if (strcmp(child->line, "late") == 0) {
        child_stop(child);
        child->slack *= 4;
        if (child->slack > SLACK_MAX) {
            skip(child, "the machine is too busy");
            return -1;
        }
        return 1;
    }
    char *rest = child->line;
    for (char *pair; (pair = strsep(&rest, " ")) != NULL && out->used < CHILD_METRICS_MAX;) {
        char *equals = strchr(pair, '=');
        if (equals == NULL) {
            skip(child, "does not speak the protocol");
            return -1;
        }
        *equals = '\0';
        snprintf(out->metric[out->used], sizeof out->metric[0], "%s", pair);
        out->value[out->used++] = strtod(equals + 1, NULL);
    }
    return 0;
}

void child_stop(struct child *child)
{
    if (child->pid == 0) {
        return;
    }
    close(child->to);
    close(child->from);
    // It ends by itself at the end of its input, when it has removed its files, but one that hangs would
    // not.
    struct pollfd end = { .fd = (int)syscall(SYS_pidfd_open, child->pid, 0), .events = POLLIN };
    if (end.fd >= 0) {
        poll(&end, 1, END_TIMEOUT_MS);
        close(end.fd);
    }
    kill(child->pid, SIGKILL);
    waitpid(child->pid, NULL, 0);
    child->pid = 0;
}
