/* fiber.c: switches contexts in assembly, since swapcontext makes a system call
 * for the signal mask each time, which is a hundred times slower. */
#include "fiber.h"

#include <stdint.h>

#if defined(__x86_64__)
/* Registers that a callee saves: rbp, rbx, r12 to r15; then `entry`, and a
 * return address that is never used. */
enum { SAVED = 6, ENTRY = 6, FRAME = 8 };
__asm__(".text\n"
        ".globl fiber_switch\n"
        ".type fiber_switch,@function\n"
        "fiber_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq (%rsi), %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size fiber_switch,.-fiber_switch\n");
#elif defined(__aarch64__)
/* x19 to x30, d8 to d15; the return address is x30. */
enum { ENTRY = 11, FRAME = 20 };
__asm__(".text\n"
        ".globl fiber_switch\n"
        ".type fiber_switch,%function\n"
        "fiber_switch:\n"
        "    sub sp, sp, #160\n"
        "    stp x19, x20, [sp, #0]\n"
        "    stp x21, x22, [sp, #16]\n"
        "    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n"
        "    stp x27, x28, [sp, #64]\n"
        "    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x9, sp\n"
        "    str x9, [x0]\n"
        "    ldr x9, [x1]\n"
        "    mov sp, x9\n"
        "    ldp x19, x20, [sp, #0]\n"
        "    ldp x21, x22, [sp, #16]\n"
        "    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n"
        "    ldp x27, x28, [sp, #64]\n"
        "    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #160\n"
        "    ret\n"
        ".size fiber_switch,.-fiber_switch\n");
#endif

#if defined(__x86_64__) || defined(__aarch64__)
void fiber_make(Context *c, void *stack, size_t bytes, size_t skew,
                void (*entry)(void))
{
    uintptr_t top = ((uintptr_t)stack + bytes - skew) & ~(uintptr_t)63;
    uintptr_t *sp = (uintptr_t *)top - FRAME;
    for (int i = 0; i < FRAME; i++)
        sp[i] = 0;
    sp[ENTRY] = (uintptr_t)entry;
    c->sp = sp;
}
#else
void fiber_make(Context *c, void *stack, size_t bytes, size_t skew,
                void (*entry)(void))
{
    getcontext(&c->portable);
    c->portable.uc_stack.ss_sp = stack;
    c->portable.uc_stack.ss_size = bytes - skew;
    c->portable.uc_link = NULL;
    makecontext(&c->portable, entry, 0);
}

void fiber_switch(Context *from, Context *to)
{
    swapcontext(&from->portable, &to->portable);
}
#endif
