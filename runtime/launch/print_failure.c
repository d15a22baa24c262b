/* print_failure.c: prints the message with which a run ends, once for all
 * processes that share memory.
 */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "common/message.h"
#include "launch/world.h"
#include "rt.h"

/* Seconds to wait until another process has printed its message, after which it
 * counts as killed; nanoseconds between two polls. */
static const double PATIENCE = 5;
enum { POLL_NS = 1000 * 1000 };

void rt_clear_line(void)
{
    if (isatty(STDERR_FILENO))
        rt_put("\r\033[K");
}

void rt_put_failure(RtControl *control, const char *text)
{
    int32_t own = (int32_t)getpid(), by = RT_NO_FAILURE;
    while (!atomic_compare_exchange_strong(&control->failure, &by, own)) {
        if (by == RT_FAILURE_PRINTED)
            return;
        double end = rt_now() + PATIENCE;
        while (atomic_load(&control->failure) == by && rt_now() < end)
            nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    }
    rt_clear_line();
    rt_put(text);
    atomic_store(&control->failure, RT_FAILURE_PRINTED);
}
