// overflow_test.c - what a stack overflow looks like from outside, and that other faults are left
// to whoever handled them before.
#include "support/test.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "task/context.h"
#include "task/overflow.h"
#include "task/stack.h"

#define SIZE ((size_t)256 << 10)

struct ending {
    int status;
    char text[2048]; // what it wrote to standard error
};

// Runs `body` in a process of its own, without a core dump.
static struct ending run(void (*body)(void))
{
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    pid_t pid = fork();
    CHECK_OK(pid);
    if (pid == 0) {
        struct rlimit none = { 0, 0 };
        setrlimit(RLIMIT_CORE, &none);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        body();
        _exit(0);
    }
    close(ends[1]);
    struct ending ending = { .status = 0 };
    size_t length = 0;
    ssize_t n;
    while ((n = read(ends[0], ending.text + length, sizeof ending.text - 1 - length)) > 0) {
        length += (size_t)n;
    }
    close(ends[0]);
    CHECK_EQ(waitpid(pid, &ending.status, 0), pid);
    return ending;
}

static bool killed_by(struct ending ending, int signo)
{
    return WIFSIGNALED(ending.status) && WTERMSIG(ending.status) == signo;
}

static volatile int bottomless = 1;

static __attribute__((noinline)) int recurse(int depth)
{
    volatile char frame[1024];
    frame[0] = (char)depth;
    return bottomless ? recurse(depth + 1) + frame[0] : 0;
}

static void overflow(void *arg)
{
    (void)arg;
    recurse(0);
}

static void describe(void *block, char *out, size_t size_bytes)
{
    struct weft__text text;
    weft__text_init(&text, out, size_bytes);
    weft__text_add(&text, "\"");
    weft__text_add(&text, (const char *)block + 64);
    weft__text_add(&text, "\" (id ");
    weft__text_add_number(&text, 7);
    weft__text_add(&text, ")");
}

static void overflow_in_a_context(void)
{
    struct weft__stack_config config = { .block_bytes = 576, .cache_slots = 4 };
    struct weft__stack_pool *pool;
    struct weft__context here;
    struct weft__context there;
    void *block;
    void *low;
    if (weft__overflow_install() < 0 || weft__overflow_install() < 0 ||
        weft__overflow_thread_init() < 0 || weft__stack_pool_create(&pool, &config) < 0 ||
        weft__stack_take(pool, NULL, SIZE, &block, &low) < 0) {
        _exit(1);
    }
    memcpy((char *)block + 64, "digger", sizeof "digger");
    weft__context_adopt(&here);
    weft__context_make(&there, low, block, overflow, NULL);
    weft__context_switch(&here, &there, 0);
}

static void overflow_named(void)
{
    weft__overflow_set_describe(describe);
    overflow_in_a_context();
}

static void *overflow_on_thread(void *arg)
{
    overflow_named();
    return arg;
}

static void overflow_on_another_thread(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, overflow_on_thread, NULL);
    pthread_join(thread, NULL);
}

TEST(an_overflow_names_the_thread_and_the_remedy)
{
    static void (*const bodies[])(void) = { overflow_named, overflow_on_another_thread };
    for (int i = 0; i < 2; i++) {
        struct ending ending = run(bodies[i]);
        CHECK(killed_by(ending, SIGSEGV));
        CHECK(
            strstr(ending.text, "weft: stack overflow in virtual thread \"digger\" (id 7): its "));
        CHECK(
            strstr(ending.text, " KiB are used up; give it a larger weft_attr.stack_size_bytes, "));
    }
}

TEST(an_overflow_without_a_describer_is_still_reported)
{
    struct ending ending = run(overflow_in_a_context);
    CHECK(killed_by(ending, SIGSEGV));
    CHECK(strstr(ending.text, "weft: stack overflow in virtual thread without a name: its "));
}

// ---------------------------------------------------------------------------------------------
// Faults that are not ours.

static volatile int *volatile nowhere = (int *)8;

static void fault(void)
{
    *nowhere = 1;
}

static void exit_with_42(int signo)
{
    (void)signo;
    _exit(42);
}

static void exit_with_43(int signo, siginfo_t *info, void *machine)
{
    (void)signo;
    (void)machine;
    _exit(info->si_addr == (void *)(uintptr_t)nowhere ? 43 : 1);
}

static void fault_with_old_handler(void)
{
    signal(SIGSEGV, exit_with_42);
    weft__overflow_install();
    fault();
}

static void fault_with_new_handler(void)
{
    struct sigaction action = { .sa_sigaction = exit_with_43, .sa_flags = SA_SIGINFO };
    sigaction(SIGSEGV, &action, NULL);
    weft__overflow_install();
    fault();
}

static void fault_with_default(void)
{
    signal(SIGSEGV, SIG_DFL);
    weft__overflow_install();
    fault();
}

static void fault_ignored(void)
{
    signal(SIGSEGV, SIG_IGN);
    weft__overflow_install();
    raise(SIGSEGV); // this one can be ignored
    fault();        // this one cannot
}

static void signal_sent(void)
{
    signal(SIGBUS, SIG_DFL);
    weft__overflow_install();
    raise(SIGBUS);
}

TEST(other_faults_go_to_the_previous_handler)
{
    struct ending ending = run(fault_with_old_handler);
    CHECK(WIFEXITED(ending.status));
    CHECK_EQ(WEXITSTATUS(ending.status), 42);
    ending = run(fault_with_new_handler);
    CHECK(WIFEXITED(ending.status));
    CHECK_EQ(WEXITSTATUS(ending.status), 43);
}

TEST(other_faults_without_a_handler_end_the_process)
{
    static void (*const bodies[])(void) = { fault_with_default, fault_ignored };
    for (int i = 0; i < 2; i++) {
        struct ending ending = run(bodies[i]);
        CHECK(killed_by(ending, SIGSEGV));
        CHECK(strstr(ending.text, "weft") == NULL);
    }
    CHECK(killed_by(run(signal_sent), SIGBUS));
}

// ---------------------------------------------------------------------------------------------
// Signal stacks.

static void *check_signal_stack(void *arg)
{
    stack_t now;
    CHECK_EQ(sigaltstack(NULL, &now), 0);
    bool had_one = (now.ss_flags & SS_DISABLE) == 0; // sanitizers bring their own
    void *first = now.ss_sp;
    CHECK_OK(weft__overflow_thread_init());
    CHECK_OK(weft__overflow_thread_init());
    CHECK_EQ(sigaltstack(NULL, &now), 0);
    CHECK_EQ(now.ss_flags & SS_DISABLE, 0);
    CHECK(!had_one || now.ss_sp == first);
    weft__overflow_thread_fini();
    weft__overflow_thread_fini();
    CHECK_EQ(sigaltstack(NULL, &now), 0);
    CHECK_EQ((now.ss_flags & SS_DISABLE) == 0, had_one);

    static char mine[64 << 10];
    stack_t own = { .ss_sp = mine, .ss_size = sizeof mine };
    stack_t old;
    CHECK_EQ(sigaltstack(&own, &old), 0);
    CHECK_OK(weft__overflow_thread_init());
    weft__overflow_thread_fini();
    CHECK_EQ(sigaltstack(&old, &now), 0);
    CHECK_EQ(now.ss_sp, (void *)mine);
    return arg;
}

TEST(a_thread_keeps_the_signal_stack_it_has)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, check_signal_stack, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}
