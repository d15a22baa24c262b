/* hint.h: finds lines of a plan that avoid what a warning is about.
 *
 * A hint is never printed untried: the driver plans the program with the lines
 * (Replanner), and only lines that make the plan cheaper become hints.
 *
 *   hint.c        tries sets of lines and keeps the best of each warning
 *   hint_moves.c  lists the sets of lines to try for a warning
 */
#ifndef PARC_REPORT_HINT_H
#define PARC_REPORT_HINT_H

#include "ir/analysis/uses.h"
#include "report/report.h"

/* Plans the program with n lines more, up to the pass `until`; NULL if that
 * fails. A line replaces those of the plan for the same axis and path. The
 * program is allocated in the arena. */
typedef struct Replanner {
    Program *(*plan)(void *context, Arena *a, const PlanLine *line, int n,
                     const char *until);
    void *context;
} Replanner;

/* Fills Warning.hint with lines that make the plan cheaper, and all->saved with
 * what they save. requires: all are the warnings of p, a program after all
 * passes */
void hints_find(Program *p, Warnings *all, const Replanner *r);

/* ---- hint_moves.c -------------------------------------------------------- */

/* Sets of lines to try for a warning, the most likely first. requires: p after
 * the pass partition. Texts are allocated in p's arena. */
typedef VEC(PlanLines) HintMoves;
HintMoves hint_moves(Program *p, const Warning *w);

#endif
