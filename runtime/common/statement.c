/* common/statement.c: describes the statements of a step for messages: source location
 * and iteration of each loop. It splits the joint iteration index of nested
 * loops into one index per loop.
 *
 * example: " in 'k07_norm' (llama.pdl:28:5, layer 3)" */
#include <stdio.h>

#include "common/statement.h"


void rt_work_turns(const ParcWork *w, int64_t turn,
                   int64_t at[PARC_MAX_LOOPS])
{
    for (int i = w->nloops - 1; i >= 0; i--) {
        at[i] = turn % w->loop[i].trips;
        turn /= w->loop[i].trips;
    }
}

const char *rt_work_where(const ParcWork *w, int64_t turn,
                          char text[RT_WHERE])
{
    int64_t at[PARC_MAX_LOOPS];
    size_t n = (size_t)snprintf(text, RT_WHERE, " in '%s' (%s", w->id,
                                w->source);
    rt_work_turns(w, turn, at);
    for (int i = 0; i < w->nloops && n < RT_WHERE; i++)
        n += (size_t)snprintf(text + n, RT_WHERE - n, ", %s %lld",
                              w->loop[i].name, (long long)at[i]);
    if (n < RT_WHERE)
        snprintf(text + n, RT_WHERE - n, ")");
    return text;
}
