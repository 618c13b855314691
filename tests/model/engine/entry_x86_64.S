// entry_x86_64.S - the entrances through which model code calls the engine and may lose its turn.
//
// Two executions that reach the same state need not both go on (state.c). What a thread will do
// next depends on its stack and on the registers that a call preserves, and C code cannot look at
// those; so the entrances note them in mc__entry, with the arguments, and jump to the function.

        .macro  entrance name, target, arguments
        .globl  \name
        .type   \name, @function
\name:
        .cfi_startproc
        movq    %rbx, mc__entry+0(%rip)
        movq    %rbp, mc__entry+8(%rip)
        movq    %r12, mc__entry+16(%rip)
        movq    %r13, mc__entry+24(%rip)
        movq    %r14, mc__entry+32(%rip)
        movq    %r15, mc__entry+40(%rip)
        movq    %rsp, mc__entry+48(%rip)
        movq    $0, mc__entry+56(%rip)
        movq    $0, mc__entry+64(%rip)
        movq    $0, mc__entry+72(%rip)
        .if     \arguments > 0
        movq    %rdi, mc__entry+56(%rip)
        .endif
        .if     \arguments > 1
        movq    %rsi, mc__entry+64(%rip)
        .endif
        .if     \arguments > 2
        movq    %rdx, mc__entry+72(%rip)
        .endif
        jmp     \target
        .cfi_endproc
        .size   \name, . - \name
        .endm

// Memory orders, the last arguments, are constants of the place that calls: they need no noting.
        .macro  atomic bits
        entrance __tsan_atomic\bits\()_load, mc__hook\bits\()_load, 1
        entrance __tsan_atomic\bits\()_store, mc__hook\bits\()_store, 2
        entrance __tsan_atomic\bits\()_exchange, mc__hook\bits\()_exchange, 2
        entrance __tsan_atomic\bits\()_fetch_add, mc__hook\bits\()_fetch_add, 2
        entrance __tsan_atomic\bits\()_fetch_sub, mc__hook\bits\()_fetch_sub, 2
        entrance __tsan_atomic\bits\()_fetch_and, mc__hook\bits\()_fetch_and, 2
        entrance __tsan_atomic\bits\()_fetch_or, mc__hook\bits\()_fetch_or, 2
        entrance __tsan_atomic\bits\()_fetch_xor, mc__hook\bits\()_fetch_xor, 2
        entrance __tsan_atomic\bits\()_fetch_nand, mc__hook\bits\()_fetch_nand, 2
        entrance __tsan_atomic\bits\()_compare_exchange_strong, mc__hook\bits\()_cas_strong, 3
        entrance __tsan_atomic\bits\()_compare_exchange_weak, mc__hook\bits\()_cas_weak, 3
        entrance __tsan_atomic\bits\()_compare_exchange_val, mc__hook\bits\()_cas_val, 3
        .endm

        .text
        atomic  8
        atomic  16
        atomic  32
        atomic  64
        entrance __tsan_atomic_thread_fence, mc__hook_fence, 0
        entrance mc_futex_wait, mc__futex_wait, 2
        entrance mc_futex_wake, mc__futex_wake, 2
        entrance mc_event_set, mc__event_set, 1
        entrance mc_event_wait, mc__event_wait, 1
        entrance mc_event_wait_briefly, mc__event_wait_briefly, 1
        entrance mc_relax, mc__relax, 0
        entrance mc_forbid, mc__forbid, 2
        entrance mc_allow, mc__allow, 2
        entrance mc_free, mc__free, 1

        .section .note.GNU-stack, "", @progbits
