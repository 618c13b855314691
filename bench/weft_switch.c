// weft_switch.c - weft's own context switch, without a scheduler around it.
#include <errno.h>
#include <stdlib.h>

#include "task/context.h"
#include "weft_bench.h"

#define STACK_SIZE (64 * 1024)

static struct weft__context here, there;

static void bounce(void *arg)
{
    (void)arg;
    for (;;) {
        weft__context_switch(&there, &here, 0);
    }
}

int weft_switch(struct contender_result *out, uint64_t count)
{
    char *stack = aligned_alloc(64, STACK_SIZE);
    if (stack == NULL) {
        return -ENOMEM;
    }
    weft__context_adopt(&here);
    weft__context_make(&there, stack, stack + STACK_SIZE, bounce, NULL);
    for (int i = 0; i < 1000; i++) {
        weft__context_switch(&here, &there, 0);
    }
    double t0 = contender_cpu_ns();
    for (uint64_t i = 0; i < count; i += 2) {
        weft__context_switch(&here, &there, 0);
    }
    contender_add(out, "ns_per_switch", (contender_cpu_ns() - t0) / (double)count);
    weft__context_forget(&there);
    weft__context_forget(&here);
    free(stack);
    return 0;
}
