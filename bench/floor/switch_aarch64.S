// switch_aarch64.S - the cheapest full context switch: store pairs, swap stacks, load, branch.

        .macro floor_switch name, fpu
        .globl  \name
        .hidden \name
        .type   \name, %function
        .p2align 5
\name:                                  // (void **save_sp in x0, void *load_sp in x1)
        .cfi_startproc
        sub     sp, sp, #176
        stp     x19, x20, [sp]
        stp     x21, x22, [sp, #16]
        stp     x23, x24, [sp, #32]
        stp     x25, x26, [sp, #48]
        stp     x27, x28, [sp, #64]
        stp     x29, x30, [sp, #80]
        stp     d8, d9, [sp, #96]
        stp     d10, d11, [sp, #112]
        stp     d12, d13, [sp, #128]
        stp     d14, d15, [sp, #144]
        .if \fpu
        mrs     x9, fpcr
        str     x9, [sp, #160]
        .endif
        mov     x9, sp
        str     x9, [x0]
        mov     sp, x1
        .if \fpu
        ldr     x9, [sp, #160]
        msr     fpcr, x9
        .endif
        ldp     x19, x20, [sp]
        ldp     x21, x22, [sp, #16]
        ldp     x23, x24, [sp, #32]
        ldp     x25, x26, [sp, #48]
        ldp     x27, x28, [sp, #64]
        ldp     x29, x9, [sp, #80]
        ldp     d8, d9, [sp, #96]
        ldp     d10, d11, [sp, #112]
        ldp     d12, d13, [sp, #128]
        ldp     d14, d15, [sp, #144]
        add     sp, sp, #176
        br      x9
        .cfi_endproc
        .size   \name, . - \name
        .endm

        .text
        floor_switch floor_switch_plain, 0
        floor_switch floor_switch_fpu, 1

        .section .note.GNU-stack, "", %progbits
