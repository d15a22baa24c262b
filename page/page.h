/* page.h: an execution plan as one HTML file that opens without a network (--emit html).
 *
 *   page/web/page.html        the page that is written
 *   <!-- style -->            page/web/page.css
 *   <!-- data -->             <script type="application/json" class="plan">
 *                               the JSON of --emit json, and a field "page" with the
 *                               data that only the page needs
 *   <!-- script -->           the scripts, in the order of page/web/order
 *
 * The scripts draw all parts from that JSON (docs/page.md lists its fields). A page of two
 * plans has both, and the JSON of `parc compare`.
 *
 *   page.c           fills the template; sources and constants of the machine
 *   page_memory.c    "memory": all blocks of memory with their live ranges
 *   page_timeline.c  "timeline": when each statement runs
 *   page_walk.c      "walk": the issue order of each stream, which a script times again
 */
#ifndef PARC_PAGE_PAGE_H
#define PARC_PAGE_PAGE_H

#include "report/report.h"

/* Prints the page of a program that has been through every pass. `f`: the forecast of
 * --machine; NULL: none. */
void page_emit(Out *o, const Program *p, const TargetInfo *t, const Warnings *warnings,
               const Forecast *f);

/* The JSON of the only plan of a page; NULL: the text is no page of one plan. */
const char *page_plan(Arena *a, const char *text, size_t size, size_t *length);

/* Prints the page of two plans, from their JSON and that of their comparison. */
void page_emit_two(Out *o, const char *const plan[2], const char *comparison);

#endif
