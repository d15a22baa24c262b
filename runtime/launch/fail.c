/* fail.c: ends the run from within a rank, and reads flags of the environment.
 *
 * Many ranks usually fail for the same reason (all ranks of a tensor-parallel
 * group read the same invalid token): only the first one prints.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/files.h"
#include "common/message.h"
#include "launch/job.h"
#include "launch/world.h"
#include "rt.h"

/* Exits without atexit handlers: a rank must not flush buffers that it
 * inherited from its parent, nor wait for oneDNN's threads. */
_Noreturn static void exit_rank(void)
{
    fflush(stdout);
    _exit(1);
}

__attribute__((format(printf, 3, 0))) _Noreturn static void
fail(ParcRt *rt, const char *kind, const char *fmt, va_list ap)
{
    char text[RT_MESSAGE];
    rt_message_text(text, kind, fmt, ap);
    if (rt->world->store)
        rt_job_fail(rt->world->store, text);
    rt_put_failure(&rt->world->control->failure, text);
    exit_rank();
}

void rt_fail(ParcRt *rt, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fail(rt, "error", fmt, ap);
}

void rt_fail_at(ParcRt *rt, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fail(rt, NULL, fmt, ap);
}

void rt_fail_write(ParcRt *rt, const char *path, const char *error)
{
    for (int i = 0; i < RT_TEMPORARIES; i++)
        rt_output_discard(rt->world->temporary[i]);
    rt_fail(rt, "cannot write '%s': %s", rt_output_name(path), error);
}

bool rt_flag(ParcRt *rt, const char *name, bool otherwise)
{
    const char *text = rt_variable(name);
    if (!text)
        return otherwise;
    if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
        rt_fail(rt, "%s is '%s' in the environment; it takes 0 or "
                    "1", name, text);
    return *text == '1';
}
