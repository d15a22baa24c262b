/* c_text.h: text of the user's inside C that parc writes.
 *
 * Whatever stands in a PDL file may end up in a name, a string or a comment;
 * it goes through here first.
 */
#ifndef PARC_CODEGEN_C_TEXT_H
#define PARC_CODEGEN_C_TEXT_H

#include "ir/type.h"

/* Letters, digits and '_' stay, any run of other bytes is one '_'; at most 60
 * characters, never empty, never a digit first. May be a keyword. */
const char *c_clean(Arena *a, const char *text);

/* A word of C11 or of its usual macros (bool, linux, …), or a name such as those
 * of headers: int64_t, NULL, ParcPart, PARC_F32. */
bool c_is_keyword(const char *name);

/* The inside of a string literal: quotes, backslashes, control characters
 * and trigraphs escaped. */
const char *c_escaped(Arena *a, const char *text);

/* Text that can neither end nor open a comment, on one line. */
const char *c_comment(Arena *a, const char *text);

/* Of elements in memory: "float", "parc_bf16", "int32_t", … */
const char *c_type(DType t);
/* What one is in a computation: "float" for all floats. */
const char *c_value_type(DType t);
/* As the runtime calls it: "PARC_BF16". */
const char *c_parc_type(DType t);

#endif
