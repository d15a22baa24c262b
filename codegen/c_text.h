/* c_text.h: makes text of a PDL program valid in emitted C, formats float
 * literals, and names the C types of tensor elements and the streams.
 *
 * Any text of a PDL file may end up in a name, a string or a comment of the
 * emitted C: the value "layers.*.wq" becomes the variable layers_wq.
 */
#ifndef PARC_CODEGEN_C_TEXT_H
#define PARC_CODEGEN_C_TEXT_H

#include "ir/type.h"

/* A C name: letters, digits and '_' are copied, every run of other bytes
 * becomes one '_'; at most 60 characters, never empty, never a digit first. The
 * result may be a keyword. */
const char *c_identifier(Arena *a, const char *text);

/* The name of a value without the number that makes it unique in the IR:
 * "wq.weight.4" -> "wq.weight", "wq.weight.bf16.5.new" -> "wq.weight.bf16.new". */
const char *c_model_name(Arena *a, const char *name);

/* Whether a name is reserved: a keyword of C11 or a usual macro (bool, linux,
 * …), or it looks like a name that headers declare: int64_t, NULL, ParcPart,
 * PARC_F32. */
bool c_is_reserved(const char *name);

/* The text between the quotes of a string literal: quotes, backslashes, control
 * characters and trigraphs are escaped. */
const char *c_string_body(Arena *a, const char *text);

/* The text on one line, changed so that it can neither end nor begin a
 * comment. */
const char *c_comment(Arena *a, const char *text);

/* The C type of elements in memory: "float", "parc_bf16", "int32_t", … */
const char *c_type(DType t);
/* The C type of one element in a computation: "float" for all floats. */
const char *c_value_type(DType t);
/* A float literal that reads back exactly: "0.125f", "1.0f", "(-INFINITY)". */
const char *c_float(Arena *a, double x);
/* The runtime's constant: "PARC_BF16". */
const char *c_parc_type(DType t);

/* The runtime's name of a stream: "PARC_DATA". */
const char *c_stream_name(int stream);

#endif
