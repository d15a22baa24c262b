/* fiber.h: makes contexts between which one thread of the host switches. */
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

/* Makes a context that calls `entry`, which must not return, on `bytes` of
 * stack; `skew` bytes (a multiple of 64) at its top stay unused. */
void fiber_make(Context *c, void *stack, size_t bytes, size_t skew,
                void (*entry)(void));

/* Switches; returns when another context switches back to `from`. */
void fiber_switch(Context *from, Context *to);

#endif
