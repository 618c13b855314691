// overflow.c - a stack overflow dies with a message that names the virtual thread.
//
//     weft: stack overflow in virtual thread "crawler" (id 7, spawned at crawl.c:31): its 191 KiB
//     are used up; give it a larger weft_attr.stack_size_bytes, or all of them a larger WEFT_STACK_KB
//
// The handler looks the faulting address up among the guards of all slabs. If it is one, it prints,
// restores the default action and returns: the same instruction faults again and the core dump
// shows the culprit. Any other fault is passed on to the handler that was installed before.
#include "task/overflow.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/text.h"
#include "task/slab.h"

// Lazily committed, so generous: a previous handler (a crash reporter) runs on it as well.
#define SIGNAL_STACK_BYTES ((size_t)256 << 10)

static const int faults[] = { SIGSEGV, SIGBUS };

static struct sigaction previous[WEFT__ARRAY_LEN(faults)];
static pthread_once_t installed = PTHREAD_ONCE_INIT;
static int install_rc;
static _Atomic(void (*)(void *, char *, size_t)) describe;
static _Thread_local void *own_stack;

static void report(const struct weft__guard_owner *owner)
{
    char who[256] = "";
    void (*words_for)(void *, char *, size_t) = atomic_load(&describe);
    if (words_for != NULL) {
        words_for(owner->block, who, sizeof who);
    }
    char storage[512];
    struct weft__text text;
    weft__text_init(&text, storage, sizeof storage);
    weft__text_add(&text, "weft: stack overflow in virtual thread ");
    weft__text_add(&text, who[0] != '\0' ? who : "without a name");
    weft__text_add(&text, ": its ");
    weft__text_add_number(&text, owner->stack_bytes >> 10);
    weft__text_add(&text, " KiB are used up; give it a larger weft_attr.stack_size_bytes, "
                          "or all of them a larger WEFT_STACK_KB\n");
    weft__sys_write_all(STDERR_FILENO, text.start, text.length);
}

static const struct sigaction *previous_of(int signo)
{
    return &previous[signo == faults[0] ? 0 : 1];
}

// The kernel ends a process that ignores a fault of its own; a signal sent by somebody else has to
// be raised once more to take effect after our return.
static void pass_on(int signo, siginfo_t *info, void *machine)
{
    const struct sigaction *action = previous_of(signo);
    if ((action->sa_flags & SA_SIGINFO) != 0) {
        action->sa_sigaction(signo, info, machine);
    } else if (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN) {
        action->sa_handler(signo);
    } else if (info->si_code > 0 || action->sa_handler == SIG_DFL) {
        signal(signo, SIG_DFL);
        if (info->si_code <= 0) {
            raise(signo);
        }
    }
}

static void on_fault(int signo, siginfo_t *info, void *machine)
{
    int saved_errno = errno;
    struct weft__guard_owner owner;
    if (info->si_code > 0 && weft__slab_find_guard(info->si_addr, &owner)) {
        report(&owner);
        signal(signo, SIG_DFL);
    } else {
        pass_on(signo, info, machine);
    }
    errno = saved_errno;
}

static void install(void)
{
    struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK };
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < WEFT__ARRAY_LEN(faults); i++) {
        if (sigaction(faults[i], NULL, &previous[i]) < 0 ||
            sigaction(faults[i], &action, NULL) < 0) {
            install_rc = -errno;
            return;
        }
    }
}

int weft__overflow_install(void)
{
    pthread_once(&installed, install);
    return install_rc;
}

void weft__overflow_set_describe(void (*words_for)(void *block, char *out, size_t size_bytes))
{
    atomic_store(&describe, words_for);
}

int weft__overflow_thread_init(void)
{
    stack_t now;
    if (sigaltstack(NULL, &now) < 0) {
        return -errno;
    }
    if ((now.ss_flags & SS_DISABLE) == 0) {
        return 0;
    }
    void *stack;
    int rc = weft__sys_map(&stack, SIGNAL_STACK_BYTES, weft__sys_page_bytes());
    if (rc < 0) {
        return rc;
    }
    stack_t ours = { .ss_sp = stack, .ss_size = SIGNAL_STACK_BYTES };
    if (sigaltstack(&ours, NULL) < 0) {
        rc = -errno;
        weft__sys_unmap(stack, SIGNAL_STACK_BYTES);
        return rc;
    }
    own_stack = stack;
    return 0;
}

void weft__overflow_thread_fini(void)
{
    stack_t now;
    if (own_stack == NULL) {
        return;
    }
    if (sigaltstack(NULL, &now) == 0 && now.ss_sp == own_stack) {
        stack_t none = { .ss_flags = SS_DISABLE };
        sigaltstack(&none, NULL);
    }
    weft__sys_unmap(own_stack, SIGNAL_STACK_BYTES);
    own_stack = NULL;
}
