// backtrace.c - where another thread is.
//
// A thread that waits in the kernel must not be sent a signal: sleep(3), poll(2) and others return
// early, and the program would behave differently because somebody looked. But the kernel tells where
// its stack is (/proc/self/task/TID/syscall), and from there words that point behind a call
// instruction are its return addresses, give or take a stale one. A thread that runs has to tell
// itself: the handler of SIGURG unwinds it. By default that signal is ignored, so one that comes late
// does no harm.
//
// Rejected: always a signal (above); ptrace (not inside one process); a dependency that unwinds
// from given registers, for one line of a log.
#include "diag/backtrace.h"

#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <unwind.h>

#include "base/sys.h"

#define SIGNAL SIGURG
#define PATIENCE_NS (100 * WEFT_MS)
#define SEGMENTS_MAX 256
#define SCAN_MAX_WORDS 8192

// One question at a time, of whatever runtime.
static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;
static struct {
    _Atomic uint32_t stage; // a futex: IDLE, ASKED, ANSWERING, ANSWERED
    pthread_t thread;
    void *start; // where the thread was interrupted: frames before that are the handler's
    bool started;
    int count;
    void *frames[WEFT__FRAMES_MAX];
} question;
enum { IDLE, ASKED, ANSWERING, ANSWERED };

static void *program_counter(const ucontext_t *machine)
{
#if defined(__x86_64__)
    return (void *)machine->uc_mcontext.gregs[REG_RIP];
#else
    return (void *)machine->uc_mcontext.pc;
#endif
}

static _Unwind_Reason_Code note_frame(struct _Unwind_Context *context, void *unused)
{
    (void)unused;
    void *frame = (void *)_Unwind_GetIP(context);
    question.started = question.started || frame == question.start;
    if (question.started && question.count < WEFT__FRAMES_MAX && frame != NULL) {
        question.frames[question.count++] = frame;
    }
    return question.count < WEFT__FRAMES_MAX ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static void answer(int signo, siginfo_t *info, void *machine)
{
    (void)signo;
    (void)info;
    uint32_t asked = ASKED;
    if (atomic_load(&question.stage) != ASKED || !pthread_equal(question.thread, pthread_self()) ||
        !atomic_compare_exchange_strong(&question.stage, &asked, ANSWERING)) {
        return;
    }
    question.start = program_counter(machine);
    question.started = false;
    question.count = 0;
    (void)_Unwind_Backtrace(note_frame, NULL);
    atomic_store(&question.stage, ANSWERED);
    weft__futex_wake(&question.stage, 1);
}

/// False: the signal is the program's.
static bool install(void)
{
    struct sigaction now;
    if (sigaction(SIGNAL, NULL, &now) < 0) {
        return false;
    }
    if ((now.sa_flags & SA_SIGINFO) != 0) {
        return now.sa_sigaction == answer;
    }
    if (now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN) {
        return false;
    }
    struct sigaction ours = { .sa_sigaction = answer,
                              .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART };
    sigemptyset(&ours.sa_mask);
    return sigaction(SIGNAL, &ours, NULL) == 0;
}

static void ask(struct weft__trace *trace, pthread_t thread)
{
    weft_time until = weft__clock_ns() + PATIENCE_NS;
    pthread_mutex_lock(&asking);
    question.thread = thread;
    atomic_store(&question.stage, ASKED);
    if (install() && pthread_kill(thread, SIGNAL) == 0) {
        uint32_t stage = ASKED;
        while (stage == ANSWERING || (stage == ASKED && weft__clock_ns() < until)) {
            (void)weft__futex_wait(&question.stage, stage, until);
            stage = atomic_load(&question.stage);
        }
    }
    uint32_t asked = ASKED; // nobody has answered, and nobody will
    if (!atomic_compare_exchange_strong(&question.stage, &asked, IDLE) && asked == ANSWERED) {
        trace->count = question.count;
        memcpy(trace->frames, question.frames, sizeof trace->frames);
        atomic_store(&question.stage, IDLE);
    }
    pthread_mutex_unlock(&asking);
}

void weft__backtrace_after_fork(void)
{
    pthread_mutex_init(&asking, NULL); // whoever had it does not exist here
    atomic_store(&question.stage, IDLE);
}

/// The code of the process.
struct code {
    int count;
    struct {
        uintptr_t low, high;
    } segments[SEGMENTS_MAX];
};

static int add_segments(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct code *code = arg;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum && code->count < SEGMENTS_MAX; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type == PT_LOAD && (header->p_flags & PF_X) != 0) {
            code->segments[code->count].low = info->dlpi_addr + header->p_vaddr;
            code->segments[code->count].high = info->dlpi_addr + header->p_vaddr + header->p_memsz;
            code->count++;
        }
    }
    return 0;
}

/// Whether a call stands right before this address.
static bool follows_call(const struct code *code, uintptr_t address)
{
    for (int i = 0; i < code->count; i++) {
        if (address < code->segments[i].low + 8 || address >= code->segments[i].high) {
            continue;
        }
        const uint8_t *at = (const uint8_t *)address;
#if defined(__x86_64__)
        // call rel32; call [reg], call reg; with a displacement of 1 or 4 bytes, and an index.
        return at[-5] == 0xe8 || (at[-2] == 0xff && (at[-1] & 0x38) == 0x10) ||
               (at[-3] == 0xff && (at[-2] & 0x38) == 0x10) ||
               (at[-4] == 0xff && (at[-3] & 0x38) == 0x10) ||
               (at[-6] == 0xff && (at[-5] & 0x38) == 0x10) ||
               (at[-7] == 0xff && (at[-6] & 0x38) == 0x10);
#else
        uint32_t instruction;
        memcpy(&instruction, at - 4, sizeof instruction);
        return (address & 3) == 0 && ((instruction & 0xfc000000) == 0x94000000 || // bl
                                      (instruction & 0xfffffc1f) == 0xd63f0000);  // blr
#endif
    }
    return false;
}

/// Reads another thread's stack while that is in use.
__attribute__((noinline, no_sanitize("address"), no_sanitize("thread"))) static void scan(
    struct weft__trace *trace, const struct code *code, uintptr_t from, const void *high)
{
    const volatile uintptr_t *at = (const volatile uintptr_t *)((from + 7) & ~(uintptr_t)7);
    for (int words = 0; words < SCAN_MAX_WORDS && (const void *)(uintptr_t)(at + 1) <= high &&
                        trace->count < WEFT__FRAMES_MAX;
         words++, at++) {
        uintptr_t word = *at;
        if (follows_call(code, word)) {
            trace->frames[trace->count++] = (void *)word;
        }
    }
}

/// "230 0x0 0x0 ... SP PC", "-1 SP PC", or "running". True: the thread waits in a system call.
static bool read_registers(int tid, struct weft__trace *trace, uintptr_t *sp, uintptr_t *pc,
                           bool *running)
{
    char path[64];
    char text[512];
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/syscall", tid);
    *running = false;
    if (weft__sys_read_file(path, text, sizeof text) <= 0) {
        return false;
    }
    *running = strncmp(text, "running", 7) == 0;
    unsigned long stack;
    unsigned long counter;
    if (sscanf(text, "%ld %*x %*x %*x %*x %*x %*x %lx %lx", &trace->system_call, &stack,
               &counter) != 3) {
        return false;
    }
    *sp = stack;
    *pc = counter;
    return trace->system_call >= 0;
}

void weft__trace_take(struct weft__trace *trace, pthread_t thread, int tid, const void *low,
                      const void *high, bool interrupt)
{
    uintptr_t sp;
    uintptr_t pc;
    bool running;
    *trace = (struct weft__trace){ .count = 0 };
    trace->blocked = read_registers(tid, trace, &sp, &pc, &running);
    if (running && interrupt) {
        ask(trace, thread);
    } else if (trace->blocked) {
        trace->frames[trace->count++] = (void *)pc;
        if (sp >= (uintptr_t)low && sp < (uintptr_t)high) {
            struct code code = { .count = 0 };
            (void)dl_iterate_phdr(add_segments, &code);
            scan(trace, &code, sp, high);
        }
    }
}

void weft__trace_describe(void *frame, char *text, size_t size_bytes)
{
    Dl_info info = { .dli_fname = NULL };
    // A return address may be the first one of the next function.
    const void *inside = (const char *)frame - 1;
    if (dladdr(inside, &info) == 0 || info.dli_fname == NULL) {
        (void)snprintf(text, size_bytes, "%p", frame);
        return;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    const char *file = slash != NULL ? slash + 1 : info.dli_fname;
    size_t offset = (size_t)((const char *)frame - (const char *)info.dli_fbase);
    if (info.dli_sname != NULL) {
        (void)snprintf(text, size_bytes, "%s+%#zx, %s+%#zx", info.dli_sname,
                       (size_t)((const char *)frame - (const char *)info.dli_saddr), file, offset);
    } else {
        (void)snprintf(text, size_bytes, "%s+%#zx", file, offset);
    }
}
