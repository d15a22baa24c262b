/* bug.c: reports internal errors and aborts. */
#include "base/bug.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static struct {
    void (*call)(void *);
    void *context;
} hook;

void bug_set_hook(void (*call)(void *), void *context)
{
    hook.call = call;
    hook.context = context;
}

void bug(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("parc: internal error: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    if (hook.call) {
        void (*call)(void *) = hook.call;
        hook.call = NULL; /* a fault inside the hook must not recurse */
        call(hook.context);
    }
    abort();
}
