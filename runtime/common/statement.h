/* statement.h: declares how messages describe a statement of a step. */
#ifndef PARC_RT_STATEMENT_H
#define PARC_RT_STATEMENT_H

#include "parc_rt.h"

/* Splits the joint iteration index `turn` of a statement into the indices of
 * its loops. */
void rt_work_turns(const ParcWork *w, int64_t turn,
                   int64_t at[PARC_MAX_LOOPS]);
/* " in 'k07_norm' (llama.pdl:28:5, layer 3)" */
enum { RT_WHERE = 512 };
const char *rt_work_where(const ParcWork *w, int64_t turn,
                          char text[RT_WHERE]);

#endif
