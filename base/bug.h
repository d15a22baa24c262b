/* bug.h: parc's own faults.
 *
 * bug() reports an internal error and aborts. Before that it calls the hook
 * that the pipeline has set, which saves the last good IR and prints the
 * command that reproduces the fault.
 */
#ifndef PARC_BASE_BUG_H
#define PARC_BASE_BUG_H

_Noreturn void bug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The hook is the one piece of process-wide state in parc: abort paths have
 * no context to carry it. */
void bug_set_hook(void (*hook)(void *), void *context);

#endif
