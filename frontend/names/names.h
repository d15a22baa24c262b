/* names.h: declares the functions for the block `names hf`, the names of
 * parameters in files.
 *
 * check_names.c    names and arguments
 * lower_names.c    names of parameters in files
 * lower_layout.c   layouts of parameters in files
 * config.c         entries of config.json
 */
#ifndef PARC_FRONTEND_NAMES_NAMES_H
#define PARC_FRONTEND_NAMES_NAMES_H

#include "frontend/lower/lower.h"

/* Reports errors that can be found without the model's modules. */
void check_names(Arena *a, Diag *d, const File *file);

/* Whether the item has the layout `each`. */
bool names_has_parts(const NameItem *item);

/* ---- lower_names.c, lower_layout.c ---- */

/* Resolves the block `names hf` and writes the text of config.json. */
void lower_names(Lower *l, const Instance *model);
/* The tensor of a file that holds a parameter of n parts with the same item:
 * part[0 … n-1] are the parameters of a concatenation in order, of which
 * part[index] is described. False after an error. */
bool lower_layouts(Lower *l, const NameItem *item, const Param *const *part,
                   int n, int index, FileTensor *to);

/* ---- config.c ---- */

/* Whether the value of an entry is `any`: it is not exported, and may differ. */
bool config_accepts_any(const Lower *l, const Setting *entry);
/* Reports that the file of --config has another value for an entry. */
void config_compare(Lower *l, const Setting *entry, Datum value);

#endif
