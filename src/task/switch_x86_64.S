// switch_x86_64.S - saving one point of execution and continuing another.
//
// A context that does not run is one 64-byte frame on its own stack, and the frame's address:
//
//     sp -> +0   MXCSR (4 bytes), x87 control word (2 bytes)
//           +8   r15
//           +16  r14
//           +24  r13
//           +32  r12
//           +40  rbx
//           +48  rbp
//           +56  address to continue at
//           +64  the stack as the caller of weft__switch() left it
//
// Frames look alike, so the unwind rules hold on both sides of the instruction that changes rsp.
//
//   X1  It ends with an indirect jump, not `ret`: the return predictor expects the caller of this
//       call, which is on the other stack, and misses nearly every time (12.8 ns against 3.6 ns).
//   X2  The jump is `notrack`, because a return address is not marked by an endbr64.
//   X3  The control words are stored and loaded every time. Reading MXCSR is what costs (2.5 ns of
//       5.2 on Zen 4); loading both words adds 0.3 ns, and comparing first, to load only what
//       differs, adds 1.4 ns. Who knows its own words can say so: weft__switch_known().
//
// Rejected: inline assembly that clobbers every register (no unwind information, and it breaks when
// the compiler keeps the frame in rbx or rbp).

#ifdef __CET__
#include <cet.h> // marks this file as ready for indirect branch tracking
#endif

    .text

    .macro switch_routine name, control_is_known
    .globl  \name
    .hidden \name
    .type   \name, @function
    .p2align 5
\name:
    .cfi_startproc
    endbr64
    pushq   %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbp, 0
    pushq   %rbx
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbx, 0
    pushq   %r12
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r12, 0
    pushq   %r13
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r13, 0
    pushq   %r14
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r14, 0
    pushq   %r15
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r15, 0
    pushq   %rcx
    .cfi_adjust_cfa_offset 8

#ifndef WEFT_NO_FPU_CONTROL
    .if !\control_is_known
    stmxcsr (%rsp)
    fnstcw  4(%rsp)
    .endif
#endif
    movq    (%rsi), %rcx
    movq    %rsp, (%rdi)
    movl    %edx, %eax
    movq    %rcx, %rsp
#ifndef WEFT_NO_FPU_CONTROL
    ldmxcsr (%rsp)
    fldcw   4(%rsp)
#endif

    addq    $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq    %r15
    .cfi_adjust_cfa_offset -8
    .cfi_restore r15
    popq    %r14
    .cfi_adjust_cfa_offset -8
    .cfi_restore r14
    popq    %r13
    .cfi_adjust_cfa_offset -8
    .cfi_restore r13
    popq    %r12
    .cfi_adjust_cfa_offset -8
    .cfi_restore r12
    popq    %rbx
    .cfi_adjust_cfa_offset -8
    .cfi_restore rbx
    popq    %rbp
    .cfi_adjust_cfa_offset -8
    .cfi_restore rbp
    popq    %rcx
    .cfi_adjust_cfa_offset -8
    .cfi_register rip, rcx
    notrack jmp *%rcx
    .cfi_endproc
    .size   \name, . - \name
    .endm

// int weft__switch(struct weft__context *from, struct weft__context *to, int value)
// `value` is what the call returns in the context that continues.
    switch_routine weft__switch, 0

// int weft__switch_known(struct weft__context *from, struct weft__context *to, int value,
//                        uint64_t control)
// `control` is the first word of the frame, as weft__context_control() returned it.
    switch_routine weft__switch_known, 1

// Where a fresh context starts: rbx is the function, r12 its argument, rbp zero, rsp a multiple of
// 16. Nothing called this, which is what an unwinder reads from "rip is undefined". The nop is for
// unwinders that look up the byte before the address to continue at.
    .globl  weft__switch_start
    .hidden weft__switch_start
    .type   weft__switch_start, @function
    .p2align 4
    .cfi_startproc
    .cfi_undefined rip
    nop
weft__switch_start:
    endbr64
    movq    %r12, %rdi
    callq   *%rbx
    ud2
    .cfi_endproc
    .size   weft__switch_start, . - weft__switch_start

    .section .note.GNU-stack, "", @progbits
