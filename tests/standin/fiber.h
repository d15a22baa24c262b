/* fiber.h: contexts that one thread of the host switches between. */
#ifndef STANDIN_FIBER_H
#define STANDIN_FIBER_H

#include <stddef.h>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#endif

typedef struct Context {
    void *sp;
#if !defined(__x86_64__) && !defined(__aarch64__)
    ucontext_t portable;
#endif
} Context;

/* A context that calls entry, which must not return, on `bytes` of stack;
 * `skew` bytes of it (a multiple of 64) stay unused at the top. */
void fiber_make(Context *c, void *stack, size_t bytes, size_t skew,
                void (*entry)(void));

/* Leaves `from`, to return from this call when somebody switches to it. */
void fiber_switch(Context *from, Context *to);

#endif
