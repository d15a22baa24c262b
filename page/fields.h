/* fields.h: the fields of the page's JSON that the files of page/ print. */
#ifndef PARC_PAGE_FIELDS_H
#define PARC_PAGE_FIELDS_H

#include "report/report.h"

/* "memory": blocks with their live ranges, and the statement of each moment. */
void page_memory(Out *o, const Program *p, const Statement *statement, int n);

/* "timeline": the spans of a step, or the actions of a pipeline with their spans. */
void page_timeline(Out *o, const Program *p, const Forecast *f);

/* "statements": the device resources of each statement; "walk": the issue order of each
 * stream. */
void page_statements(Out *o, const Program *p, const Forecast *f);
void page_walk(Out *o, const Program *p, const Forecast *f);

#endif
