/* train.h: declares the functions that evaluate the `train` block. */
#ifndef PARC_FRONTEND_TRAIN_TRAIN_H
#define PARC_FRONTEND_TRAIN_TRAIN_H

#include "frontend/lower/lower.h"

/* Applies the defaults, the `train` block, then -D. */
void lower_train(Lower *l);
/* The last -D of this name, or NULL. */
const Setting *lower_define(const Lower *l, const char *name);
/* lower_groups.c: gives parameters the settings of the groups that they match. */
void lower_groups(Lower *l);

#endif
