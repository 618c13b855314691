// switch_aarch64.S - saving one point of execution and continuing another.
//
// A context that does not run is one 176-byte frame on its own stack, and the frame's address:
//
//     sp -> +0    x29, x30 (the address to continue at)
//           +16   x19 .. x28
//           +96   d8 .. d15
//           +160  fpcr
//           +168  unused
//           +176  the stack as the caller of weft__switch() left it
//
// Frames look alike, so the unwind rules hold on both sides of the instruction that changes sp.
//
//   A1  Without branch target identification it ends with `br`, because the return predictor
//       expects the caller on the other stack. With it, only `ret` may land on an instruction that
//       is not a marked target, and return addresses are not.
//   A2  fpcr is written only if it differs: the write waits for all floating-point work.

#ifdef __ARM_FEATURE_BTI_DEFAULT
#define CONTINUE ret
#else
#define CONTINUE br x30
#endif
#define BTI_C  hint #34
#define BTI_JC hint #38

    .text

// int weft__switch(struct weft__context *from, struct weft__context *to, int value)
// `value` is what the call returns in the context that continues.
    .globl  weft__switch
    .hidden weft__switch
    .type   weft__switch, %function
    .p2align 5
weft__switch:
    .cfi_startproc
    BTI_C
    stp     x29, x30, [sp, #-176]!
    .cfi_def_cfa_offset 176
    .cfi_offset x29, -176
    .cfi_offset x30, -168
    stp     x19, x20, [sp, #16]
    .cfi_offset x19, -160
    .cfi_offset x20, -152
    stp     x21, x22, [sp, #32]
    .cfi_offset x21, -144
    .cfi_offset x22, -136
    stp     x23, x24, [sp, #48]
    .cfi_offset x23, -128
    .cfi_offset x24, -120
    stp     x25, x26, [sp, #64]
    .cfi_offset x25, -112
    .cfi_offset x26, -104
    stp     x27, x28, [sp, #80]
    .cfi_offset x27, -96
    .cfi_offset x28, -88
    stp     d8, d9, [sp, #96]
    .cfi_offset d8, -80
    .cfi_offset d9, -72
    stp     d10, d11, [sp, #112]
    .cfi_offset d10, -64
    .cfi_offset d11, -56
    stp     d12, d13, [sp, #128]
    .cfi_offset d12, -48
    .cfi_offset d13, -40
    stp     d14, d15, [sp, #144]
    .cfi_offset d14, -32
    .cfi_offset d15, -24

    ldr     x5, [x1]
#ifndef WEFT_NO_FPU_CONTROL
    mrs     x3, fpcr
    str     x3, [sp, #160]
    ldr     x4, [x5, #160]
    cmp     x3, x4
    b.eq    1f
    msr     fpcr, x4
1:
#endif
    mov     x3, sp
    str     x3, [x0]
    mov     sp, x5
    mov     w0, w2

    ldp     d14, d15, [sp, #144]
    ldp     d12, d13, [sp, #128]
    ldp     d10, d11, [sp, #112]
    ldp     d8, d9, [sp, #96]
    ldp     x27, x28, [sp, #80]
    ldp     x25, x26, [sp, #64]
    ldp     x23, x24, [sp, #48]
    ldp     x21, x22, [sp, #32]
    ldp     x19, x20, [sp, #16]
    ldp     x29, x30, [sp], #176
    .cfi_def_cfa_offset 0
    .cfi_restore x29
    .cfi_restore x30
    .cfi_restore x19
    .cfi_restore x20
    .cfi_restore x21
    .cfi_restore x22
    .cfi_restore x23
    .cfi_restore x24
    .cfi_restore x25
    .cfi_restore x26
    .cfi_restore x27
    .cfi_restore x28
    .cfi_restore d8
    .cfi_restore d9
    .cfi_restore d10
    .cfi_restore d11
    .cfi_restore d12
    .cfi_restore d13
    .cfi_restore d14
    .cfi_restore d15
    CONTINUE
    .cfi_endproc
    .size   weft__switch, . - weft__switch

// Reading fpcr is cheap: the fourth argument is not needed.
    .globl  weft__switch_known
    .hidden weft__switch_known
    .type   weft__switch_known, %function
    .set    weft__switch_known, weft__switch

// Where a fresh context starts: x19 is the function, x20 its argument, x29 zero, sp a multiple of
// 16. Nothing called this, which is what an unwinder reads from "x30 is undefined". The nop is for
// unwinders that look up the instruction before the address to continue at.
    .globl  weft__switch_start
    .hidden weft__switch_start
    .type   weft__switch_start, %function
    .p2align 4
    .cfi_startproc
    .cfi_undefined x30
    nop
weft__switch_start:
    BTI_JC
    mov     x30, xzr
    mov     x0, x20
    blr     x19
    brk     #1
    .cfi_endproc
    .size   weft__switch_start, . - weft__switch_start

#ifdef __ARM_FEATURE_BTI_DEFAULT
// Says that this file is ready for branch target identification.
    .pushsection .note.gnu.property, "a"
    .p2align 3
    .word   4          // length of "GNU\0"
    .word   16         // length of the properties
    .word   5          // NT_GNU_PROPERTY_TYPE_0
    .asciz  "GNU"
    .word   0xc0000000 // GNU_PROPERTY_AARCH64_FEATURE_1_AND
    .word   4
    .word   1          // BTI
    .word   0
    .popsection
#endif

    .section .note.GNU-stack, "", %progbits
