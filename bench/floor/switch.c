// switch.c - two contexts that switch back and forth with the floor's routines.
#include "switch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STACK_SIZE (64 * 1024)

static void *main_sp, *other_sp;

static _Noreturn void other_plain(void)
{
    for (;;) {
        floor_switch_plain(&other_sp, main_sp);
    }
}

static _Noreturn void other_fpu(void)
{
    for (;;) {
        floor_switch_fpu(&other_sp, main_sp);
    }
}

// Builds the frame that the first switch to the stack pops: registers, then the entry's address.
// The stack pointer is then what it is just after a call.
static void *first_frame(char *stack, void (*entry)(void), int fpu)
{
#if defined(__x86_64__)
    uint64_t *sp = (uint64_t *)(void *)(stack + STACK_SIZE - 64);
    *--sp = 0; // where the entry would return to
    *--sp = (uint64_t)(uintptr_t)entry;
    for (int i = 0; i < 6; i++) {
        *--sp = 0;
    }
    if (fpu) {
        *--sp = 0x1f80 | (uint64_t)0x037f << 32; // MXCSR and x87 control word at start-up
    }
    return sp;
#else
    (void)fpu;
    uint64_t *sp = (uint64_t *)(void *)(stack + STACK_SIZE - 64 - 176);
    memset(sp, 0, 176);
    sp[11] = (uint64_t)(uintptr_t)entry;
    return sp;
#endif
}

int floor_switch_plain_run(struct contender_result *out, uint64_t count)
{
    char *stack = aligned_alloc(64, STACK_SIZE);
    if (stack == NULL) {
        return -ENOMEM;
    }
    other_sp = first_frame(stack, other_plain, 0);
    for (int i = 0; i < 1000; i++) {
        floor_switch_plain(&main_sp, other_sp);
    }
    double t0 = contender_cpu_ns();
    for (uint64_t i = 0; i < count; i += 2) {
        floor_switch_plain(&main_sp, other_sp);
    }
    contender_add(out, "ns_per_switch", (contender_cpu_ns() - t0) / (double)count);
    free(stack);
    return 0;
}

int floor_switch_fpu_run(struct contender_result *out, uint64_t count)
{
    char *stack = aligned_alloc(64, STACK_SIZE);
    if (stack == NULL) {
        return -ENOMEM;
    }
    other_sp = first_frame(stack, other_fpu, 1);
    for (int i = 0; i < 1000; i++) {
        floor_switch_fpu(&main_sp, other_sp);
    }
    double t0 = contender_cpu_ns();
    for (uint64_t i = 0; i < count; i += 2) {
        floor_switch_fpu(&main_sp, other_sp);
    }
    contender_add(out, "ns_per_switch", (contender_cpu_ns() - t0) / (double)count);
    free(stack);
    return 0;
}
