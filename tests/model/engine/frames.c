// frames.c - a thread's stack frames die, and nobody else may touch them afterwards.
//
// Our protocols put waits, requests and timers on stacks, and live by the rule of the last touch.
// The compiler tells us where functions begin and end (__tsan_func_entry, __tsan_func_exit), so
// the engine knows how deep each stack is, without any help from the model:
//
//   F1  An access to another thread's stack below its live frames is a failure.
//   F2  So is an access to a frame, even an earlier one, that does not happen before the end of
//       that frame. Only ranges that others touched are looked at, so this costs nothing usually.
//
// A frame is taken to begin where the stack pointer stood when the function called its entry hook;
// memory from alloca() and variable-length arrays lies below that and must not be shared.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "engine.h"

enum { STACK_BYTES = 64 * 1024, GUARD_BYTES = 4096, STRIDE = STACK_BYTES + GUARD_BYTES };
enum { STACKS = MC__THREADS + 1 }; // the last one is for setup and check
enum { MAX_DEPTH = 128 };

struct frames {
    uintptr_t live_from; // all below is dead
    uintptr_t callers[MAX_DEPTH];
    int depth;
    uintptr_t touched_from, touched_to; // by other threads
};

static struct frames frames[MC__THREADS];
static char *stacks;

// All stacks lie side by side, so that the owner of an address is a division away.
void mc__frames_init(void)
{
    stacks = mmap(NULL, (size_t)STACKS * STRIDE, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stacks == MAP_FAILED) {
        perror("model checker: stacks");
        exit(2);
    }
    for (int i = 0; i < STACKS; i++) {
        if (mprotect(stacks + (size_t)i * STRIDE, GUARD_BYTES, PROT_NONE) != 0) {
            perror("model checker: stacks");
            exit(2);
        }
    }
}

char *mc__stack_top(int thread)
{
    return stacks + (size_t)(thread + 1) * STRIDE;
}

// The thread whose stack this is, or -1.
int mc__stack_owner(const void *address)
{
    uintptr_t offset = (uintptr_t)address - (uintptr_t)stacks;
    return offset < (uintptr_t)MC__THREADS * STRIDE ? (int)(offset / STRIDE) : -1;
}

void mc__frames_start(int thread)
{
    frames[thread].live_from = (uintptr_t)mc__stack_top(thread);
    frames[thread].depth = 0;
    frames[thread].touched_from = UINTPTR_MAX;
    frames[thread].touched_to = 0;
}

void mc__frame_begins(uintptr_t bottom)
{
    if (mc__me == MC__ALONE) {
        return;
    }
    struct frames *mine = &frames[mc__me];
    if (mine->depth == MAX_DEPTH) {
        mc_fail("model too big: calls nest deeper than %d", MAX_DEPTH);
    }
    mine->callers[mine->depth++] = mine->live_from;
    mine->live_from = bottom;
}

// F2
void mc__frame_ends(void)
{
    if (mc__me == MC__ALONE) {
        return;
    }
    struct frames *mine = &frames[mc__me];
    mine->live_from = mine->callers[--mine->depth];
    if (mine->touched_from >= mine->live_from) {
        return;
    }
    uintptr_t from = mine->touched_from, to = mine->touched_to;
    if (to > mine->live_from) {
        to = mine->live_from;
        mine->touched_from = to;
    } else {
        mine->touched_from = UINTPTR_MAX;
        mine->touched_to = 0;
    }
    mc__check_death((const void *)from, to - from);
}

// F1
void mc__check_frame(int owner, uintptr_t from, uintptr_t to)
{
    struct frames *theirs = &frames[owner];
    if (from < theirs->live_from) {
        MC__TRACE("touches %s   <- dead", mc__address_text((const void *)from));
        mc_fail("dead memory: T%d touches a frame that T%d has left", mc__me, owner);
    }
    theirs->touched_from = from < theirs->touched_from ? from : theirs->touched_from;
    theirs->touched_to = to > theirs->touched_to ? to : theirs->touched_to;
}

bool mc__is_dead_frame(int owner, uintptr_t address)
{
    return mc__threads[owner].status == MC__ENDED || address < frames[owner].live_from;
}
