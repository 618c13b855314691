// switch_x86_64.S - the cheapest full context switch: push, swap stacks, pop, jump.
//
// It leaves with an indirect jump and not with `ret`: the return-address predictor holds the
// caller's address on the old stack and would be wrong every time.

        .macro floor_switch name, fpu
        .globl  \name
        .hidden \name
        .type   \name, @function
        .p2align 5
\name:                                  // (void **save_sp in rdi, void *load_sp in rsi)
        .cfi_startproc
        pushq   %rbp
        pushq   %rbx
        pushq   %r12
        pushq   %r13
        pushq   %r14
        pushq   %r15
        .if \fpu
        subq    $8, %rsp
        stmxcsr (%rsp)
        fnstcw  4(%rsp)
        .endif
        movq    %rsp, (%rdi)
        movq    %rsi, %rsp
        .if \fpu
        ldmxcsr (%rsp)
        fldcw   4(%rsp)
        addq    $8, %rsp
        .endif
        popq    %r15
        popq    %r14
        popq    %r13
        popq    %r12
        popq    %rbx
        popq    %rbp
        popq    %rcx
        jmp     *%rcx
        .cfi_endproc
        .size   \name, . - \name
        .endm

        .text
        floor_switch floor_switch_plain, 0
        floor_switch floor_switch_fpu, 1

        .section .note.GNU-stack, "", @progbits
