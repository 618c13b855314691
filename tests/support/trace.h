// trace.h - the trace hash that a test of this program prints when it runs in another process.
#ifndef WEFT_TEST_TRACE_H
#define WEFT_TEST_TRACE_H

#include "support/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/// Runs the test the_trace_can_be_printed of this program, with this seed, and reads its hash.
static inline uint64_t trace_of_another_process(void)
{
    char seed[32];
    char output[4096] = "";
    int pipes[2];
    size_t used = 0;
    (void)snprintf(seed, sizeof seed, "%" PRIu64, test_seed());
    CHECK_OK(pipe(pipes));
    pid_t pid = fork();
    CHECK_OK(pid);
    if (pid == 0) {
        setenv("TEST_SEED", seed, 1);
        setenv("SOME_OTHER_ENVIRONMENT", "moves the stack", 1);
        dup2(pipes[1], STDOUT_FILENO);
        execl("/proc/self/exe", "trace", "the_trace_can_be_printed", (char *)NULL);
        _exit(127);
    }
    close(pipes[1]);
    ssize_t n;
    while ((n = read(pipes[0], output + used, sizeof output - 1 - used)) > 0) {
        used += (size_t)n;
    }
    close(pipes[0]);
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
    const char *at = strstr(output, "trace ");
    CHECK(at != NULL);
    return strtoull(at + 6, NULL, 16);
}

#endif
