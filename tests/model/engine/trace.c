// trace.c - tells a failing execution step by step.
//
// Tracing is off while exploring; the failing execution is run once more with it. Source positions
// come from addr2line (the programs are linked at fixed addresses); without it the trace shows
// addresses.
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine.h"

enum { MAX_LINES = 6000, LINE_BYTES = 160, MAX_NAMES = 64, TEXTS = 4, TEXT_BYTES = 64 };
enum { SHOWN_FIRST = 100, SHOWN_LAST = 100 };

bool mc__tracing;

static struct {
    int thread;
    const void *caller;
    char text[LINE_BYTES];
} lines[MAX_LINES];
static int line_count;

static struct {
    uintptr_t start, end;
    const char *name;
} names[MAX_NAMES];
static int name_count;

// Texts are handed out in turn: one message uses up to four of them.
static char *next_text(void)
{
    static char texts[TEXTS][TEXT_BYTES];
    static int next;
    next = (next + 1) % TEXTS;
    return texts[next];
}

void mc__trace_reset(void)
{
    line_count = 0;
    name_count = 0;
}

void mc_name(const void *start, size_t size_bytes, const char *name)
{
    if (name_count == MAX_NAMES) {
        mc_fail("model too big: more than %d names", MAX_NAMES);
    }
    names[name_count].start = (uintptr_t)start;
    names[name_count].end = (uintptr_t)start + size_bytes;
    names[name_count++].name = name;
}

// Later names are narrower: a model names a struct first and its fields after it.
const char *mc__address_text(const void *address)
{
    char *text = next_text();
    uintptr_t at = (uintptr_t)address;
    for (int i = name_count - 1; i >= 0; i--) {
        if (at < names[i].start || at >= names[i].end) {
            continue;
        }
        if (at == names[i].start) {
            return names[i].name;
        }
        snprintf(text, TEXT_BYTES, "%s+%" PRIuPTR, names[i].name, at - names[i].start);
        return text;
    }
    int owner = mc__stack_owner(address);
    if (owner >= 0) {
        snprintf(text, TEXT_BYTES, "T%d's stack-%" PRIuPTR, owner,
                 (uintptr_t)mc__stack_top(owner) - at);
        return text;
    }
    snprintf(text, TEXT_BYTES, "0x%" PRIxPTR, at);
    return text;
}

const char *mc__value_text(uint64_t value)
{
    for (int i = name_count - 1; i >= 0; i--) {
        if (value == names[i].start) {
            char *text = next_text();
            snprintf(text, TEXT_BYTES, "&%s", names[i].name);
            return text;
        }
    }
    char *text = next_text();
    snprintf(text, TEXT_BYTES, value < 1 << 16 ? "%" PRIu64 : "0x%" PRIx64, value);
    return text;
}

const char *mc__order_text(int order)
{
    static const char *const orders[] = {
        [__ATOMIC_RELAXED] = "relaxed", [__ATOMIC_CONSUME] = "consume",
        [__ATOMIC_ACQUIRE] = "acquire", [__ATOMIC_RELEASE] = "release",
        [__ATOMIC_ACQ_REL] = "acq_rel", [__ATOMIC_SEQ_CST] = "seq_cst",
    };
    return order >= 0 && order <= __ATOMIC_SEQ_CST ? orders[order] : "unknown order";
}

void mc__trace(const char *format, ...)
{
    if (line_count == MAX_LINES) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(lines[line_count].text, LINE_BYTES, format, arguments);
    va_end(arguments);
    lines[line_count].thread = mc__me;
    lines[line_count].caller = mc__callers[mc__me + 1];
    line_count++;
}

static void print_line(int line, const char *position)
{
    const char *base = strrchr(position, '/');
    base = base != NULL ? base + 1 : position;
    int width = (int)strcspn(base, "\n (");
    printf("#   %3d  %.*s%*sT%d  %s\n", line, width, base, width < 24 ? 24 - width : 1, "",
           lines[line].thread, lines[line].text);
}

// One process for all lines; it answers one line per address.
static FILE *start_addr2line(void)
{
    char *command = malloc((size_t)MAX_LINES * 24 + 64);
    if (command == NULL) {
        return NULL;
    }
    int length = sprintf(command, "addr2line -e /proc/%d/exe", (int)getpid());
    for (int i = 0; i < line_count; i++) {
        length += sprintf(command + length, " %p",
                          (const void *)((const char *)lines[i].caller - 1));
    }
    sprintf(command + length, " 2>/dev/null");
    fflush(stdout);
    FILE *pipe = popen(command, "r");
    free(command);
    return pipe;
}

void mc__trace_print(void)
{
    FILE *pipe = start_addr2line();
    char position[512];
    for (int i = 0; i < line_count; i++) {
        if (pipe == NULL || fgets(position, sizeof position, pipe) == NULL) {
            snprintf(position, sizeof position, "%p", lines[i].caller);
        }
        if (i < SHOWN_FIRST || i >= line_count - SHOWN_LAST) {
            print_line(i, position);
        } else if (i == SHOWN_FIRST) {
            printf("#   ...\n");
        }
    }
    if (pipe != NULL) {
        pclose(pipe);
    }
}
