/* choices.h: the choices of experts that group_rows gives rows, and the rows that they can need. */
#ifndef PARC_IR_ANALYSIS_CHOICES_H
#define PARC_IR_ANALYSIS_CHOICES_H

#include "ir/ir.h"

/* The choices ids [batch, length, k] of shards x experts experts, in g x h groups of tokens: the
 * sizes of the operand of group_rows, and of its attributes. */
typedef struct Choices {
    int64_t batch, length, k;
    int64_t g, h, shards, experts;
    int64_t limit; /* the most choices of an expert in a sequence; 0: any number */
} Choices;

Choices group_choices(const Op *group);
/* The pairs of tokens and choices of a group, and the most rows that a shard can need for them:
 * one for each, or fewer with a limit. */
int64_t choices_pairs(const Choices *c);
int64_t choices_most_rows(const Choices *c);
/* The limit relative to the choices of an expert if all experts have equally many; 0: none. */
double choices_capacity(const Choices *c);

/* The rounds in which group_rows gives all choices a row: 1, or more if its buffers are
 * bounded. */
int64_t group_rounds(const Op *group);

#endif
