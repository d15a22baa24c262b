/* hint.h: finds lines of a plan that avoid what a warning is about.
 *
 * A hint is never printed untried: parc plans the program with the lines
 * (replan.h), and only lines that make the plan cheaper become hints.
 *
 *   hint.c        tries sets of lines and keeps the best of each warning
 *   hint_moves.c  lists the sets of lines to try for a warning
 */
#ifndef PARC_REPORT_HINT_H
#define PARC_REPORT_HINT_H

#include "ir/analysis/uses.h"
#include "report/replan.h"

/* Fills Warning.hint with lines that make the plan cheaper, and all->saved with
 * what they save. requires: all are the warnings of p, a program after all
 * passes, which from->file describes */
void hints_find(Program *p, Warnings *all, const PlanSource *from);

/* ---- hint_moves.c -------------------------------------------------------- */

/* Sets of lines to try for a warning, the most likely first. requires: p after
 * the pass partition. Texts are allocated in p's arena. */
typedef VEC(PlanLines) HintMoves;
HintMoves hint_moves(Program *p, const Warning *w);

#endif
