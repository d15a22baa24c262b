/* bug.h: reports internal errors: faults of parc, not of its input.
 *
 * bug() prints a message, calls the hook, if one is set, and aborts. While passes
 * run, the hook saves the last valid IR; otherwise it removes the outputs. Both
 * hooks print the command that reproduces the error.
 */
#ifndef PARC_BASE_BUG_H
#define PARC_BASE_BUG_H

_Noreturn void bug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The hook is process-wide: code that aborts has no context to pass it
 * through. */
void bug_set_hook(void (*hook)(void *), void *context);

#endif
