/* json.h: prints the fields of JSON objects.
 *
 *   out(o, "{");
 *   json_text(o, "id", "ag3");
 *   json_number(o, "count", 4);
 *   out(o, "}");                    {"id": "ag3", "count": 4}
 *
 * A function writes the comma before its field, unless the text so far ends
 * with a brace or a space.
 */
#ifndef PARC_REPORT_JSON_H
#define PARC_REPORT_JSON_H

#include "base/out.h"

/* The name of a field; the caller prints its value. */
void json_name(Out *o, const char *name);
/* A NULL text is null. */
void json_text(Out *o, const char *name, const char *text);
void json_number(Out *o, const char *name, int64_t n);
void json_real(Out *o, const char *name, double x);
/* "shape": [64, 8] */
void json_shape(Out *o, int ndim, const int64_t *dim);

#endif
