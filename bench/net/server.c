// server.c - starting, watching and ending a server.
#include "server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../temp.h"

#define READY_TIMEOUT_MS 60000 // under valgrind it takes a while
#define SETTLE_STEP_NS 10000000
#define SETTLE_STEPS 200

static _Noreturn void become(const char **argv, int out, const cpu_set_t *cpus)
{
    char processors[12];
    sched_setaffinity(0, sizeof *cpus, cpus);
    snprintf(processors, sizeof processors, "%d", CPU_COUNT(cpus));
    setenv("GOMAXPROCS", processors, 1);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(null, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

static int refuse(struct server *server, const char *why)
{
    server_stop(server, SIGKILL);
    snprintf(server->why, sizeof server->why, "%s", why);
    return -1;
}

// Reads the line that says whether the server is ready.
static int await_ready(struct server *server)
{
    char line[SERVER_WHY_MAX];
    size_t used = 0;
    while (used < sizeof line - 1) {
        struct pollfd p = { .fd = server->out, .events = POLLIN };
        int rc = poll(&p, 1, READY_TIMEOUT_MS);
        if (rc < 0 && errno == EINTR) {
            continue;
        }
        if (rc <= 0 || read(server->out, line + used, 1) != 1) {
            return refuse(server, rc == 0 ? "the server does not get ready" : "the server ended");
        }
        if (line[used] == '\n') {
            break;
        }
        used++;
    }
    line[used] = '\0';
    if (strncmp(line, "skip: ", 6) == 0) {
        return refuse(server, line + 6);
    }
    return strcmp(line, "ready") == 0 ? 0
                                      : refuse(server, "the server does not speak the protocol");
}

int server_start(struct server *server, const char *const *argv, const char *mode, bool is_tcp,
                 int cpu)
{
    char text[sizeof server->address.text];
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (is_tcp) {
        snprintf(text, sizeof text, "tcp://127.0.0.1:%d", server_port());
    } else {
        char path[sizeof server->address.un.sun_path];
        int rc = temp_make(path, sizeof path, "socket");
        if (rc < 0) {
            *server = (struct server){ .out = -1 };
            return refuse(server, strerror(-rc));
        }
        snprintf(text, sizeof text, "unix://%s", path);
    }
    return server_start_at(server, argv, mode, text, &set);
}

int server_port(void)
{
    return 10000 + (int)(getpid() % 20000);
}

int server_start_at(struct server *server, const char *const *argv, const char *mode,
                    const char *address, const cpu_set_t *cpus)
{
    *server = (struct server){ .out = -1 };
    if (load_address_parse(&server->address, address) < 0) {
        return refuse(server, "not an address");
    }
    const char *full[SERVER_ARGS_MAX];
    unsigned used = 0;
    while (argv[used] != NULL && used < SERVER_ARGS_MAX - 3) {
        full[used] = argv[used];
        used++;
    }
    full[used++] = mode;
    full[used++] = server->address.text;
    full[used] = NULL;
    int out[2];
    if (pipe2(out, O_CLOEXEC) < 0) {
        return refuse(server, strerror(errno));
    }
    server->out = out[0];
    server->pid = fork();
    if (server->pid == 0) {
        become(full, out[1], cpus);
    }
    close(out[1]);
    if (server->pid < 0) {
        server->pid = 0;
        return refuse(server, "cannot fork");
    }
    if (clock_getcpuclockid(server->pid, &server->clock) != 0) {
        return refuse(server, "has no clock");
    }
    return await_ready(server);
}

void server_stop(struct server *server, int signal)
{
    if (server->out >= 0) {
        close(server->out);
        server->out = -1;
    }
    if (server->pid > 0) {
        kill(server->pid, signal);
        waitpid(server->pid, NULL, 0);
        server->pid = 0;
    }
    if (server->address.any.sa_family == AF_UNIX) {
        temp_remove(server->address.un.sun_path);
    }
}

double server_cpu_ns(const struct server *server)
{
    struct timespec t = { 0, 0 };
    clock_gettime(server->clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

void server_settle(const struct server *server)
{
    double before = -1, now = server_cpu_ns(server);
    for (int i = 0; i < SETTLE_STEPS && now > before; i++) {
        before = now;
        nanosleep(&(struct timespec){ 0, SETTLE_STEP_NS }, NULL);
        now = server_cpu_ns(server);
    }
}

// The number after `name` in a file of /proc; 0 without one.
static double proc_number(const char *path, const char *name)
{
    char line[256];
    double value = 0;
    FILE *f = fopen(path, "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0) {
            value = strtod(line + strlen(name), NULL);
            break;
        }
    }
    if (f != NULL) {
        fclose(f);
    }
    return value;
}

void server_memory(const struct server *server, struct server_memory *out)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/status", (int)server->pid);
    out->resident_bytes = proc_number(path, "VmRSS:") * 1024;
    out->page_table_bytes = proc_number(path, "VmPTE:") * 1024;
}

double server_slab_bytes(void)
{
    return proc_number("/proc/meminfo", "Slab:") * 1024;
}

double server_sleeps(const struct server *server)
{
    char path[320];
    double sum = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)server->pid);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] != '.') {
            snprintf(path, sizeof path, "/proc/%d/task/%s/status", (int)server->pid, entry->d_name);
            sum += proc_number(path, "voluntary_ctxt_switches:");
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return sum;
}
