// gather.h - what tests of whole runtimes look at: the log, standard error, dumps, descriptors, threads.
#ifndef WEFT_TEST_GATHER_H
#define WEFT_TEST_GATHER_H

#include "support/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <weft.h>

/// A log hook's memory. Zeroed means empty.
struct gathered {
    pthread_mutex_t lock;
    int count;
    char text[64 * 1024]; // "level module: message\n" for each; what does not fit is dropped
    size_t used;
};

/// For weft_options.log with a struct gathered as log_ctx.
static inline void gather_log(void *ctx, enum weft_log_level level, const char *module,
                              const char *message)
{
    struct gathered *log = ctx;
    pthread_mutex_lock(&log->lock);
    log->count++;
    size_t room = sizeof log->text - log->used;
    int n = snprintf(log->text + log->used, room, "%d %s: %s\n", (int)level, module, message);
    if (n > 0 && (size_t)n < room) {
        log->used += (size_t)n;
    }
    pthread_mutex_unlock(&log->lock);
}

static inline bool gathered_has(struct gathered *log, const char *part)
{
    pthread_mutex_lock(&log->lock);
    bool found = strstr(log->text, part) != NULL;
    pthread_mutex_unlock(&log->lock);
    return found;
}

#define CHECK_LOGGED(log, part)                                                                    \
    (gathered_has((log), (part)) ? (void)0 : FAIL("\"%s\" is not in:\n%s", (part), (log)->text))

static inline void gathered_clear(struct gathered *log)
{
    pthread_mutex_lock(&log->lock);
    log->count = 0;
    log->used = 0;
    log->text[0] = '\0';
    pthread_mutex_unlock(&log->lock);
}

/// Standard error goes to memory until captured_end().
struct captured {
    int memory;
    int saved;
};

static inline struct captured capture_stderr(void)
{
    struct captured captured = { memfd_create("stderr", MFD_CLOEXEC), dup(STDERR_FILENO) };
    CHECK_OK(captured.memory);
    CHECK_OK(captured.saved);
    CHECK_OK(dup2(captured.memory, STDERR_FILENO));
    return captured;
}

/// Puts standard error back and copies what was written into `text`.
static inline void captured_end(struct captured *captured, char *text, size_t size)
{
    dup2(captured->saved, STDERR_FILENO);
    close(captured->saved);
    ssize_t n = pread(captured->memory, text, size - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    close(captured->memory);
}

/// What the dump of all tasks says now; the caller may write in it.
static inline char *dump_text(void)
{
    static char text[1 << 20];
    int fd = memfd_create("dump", MFD_CLOEXEC);
    CHECK_OK(fd);
    CHECK_OK(weft_dump_tasks(fd));
    ssize_t size = pread(fd, text, sizeof text - 1, 0);
    CHECK_GE(size, 0);
    CHECK_OK(close(fd));
    text[size] = '\0';
    return text;
}

/// How often it says so.
static inline int count_dumped(const char *what)
{
    int count = 0;
    for (const char *at = dump_text(); (at = strstr(at, what)) != NULL; at++) {
        count++;
    }
    return count;
}

static inline int count_entries(const char *folder)
{
    DIR *dir = opendir(folder);
    int count = 0;
    CHECK(dir != NULL);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        count += entry->d_name[0] != '.';
    }
    closedir(dir);
    return count;
}

static inline int count_descriptors(void)
{
    return count_entries("/proc/self/fd");
}

static inline int count_threads(void)
{
    return count_entries("/proc/self/task");
}

/// A joined thread disappears from /proc a moment after the join.
static inline bool threads_fall_to(int count)
{
    for (int i = 0; i < 100000; i++) {
        if (count_threads() <= count) {
            return true;
        }
        sched_yield();
    }
    return false;
}

#endif
