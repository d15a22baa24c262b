/* print.h: declares the state of the IR's printer, the functions that its files
 * share, and the words of the printed header. */
#ifndef PARC_IR_TEXT_PRINT_H
#define PARC_IR_TEXT_PRINT_H

#include "ir/internal.h"
#include "ir/options.h"

typedef struct Printer {
    Out *o;
    const Program *p;
    uint16_t *file; /* number in the dump by index in Diag; 0: not used */
    int nfiles;     /* length of `file` */
    bool marks;     /* print_loc marks the files in use by 1 */
} Printer;

/* print_parts.c */

/* " @1:40:15+5"; nothing for a Loc of zeros. */
void print_loc(Printer *w, Loc loc);
/* `before`, then s in quotes. */
void print_string(Printer *w, const char *before, const char *s);
/* "\"a\", \"b\"" */
void print_strings(Printer *w, int n, const char *const *s);
/* "[1, 2]" */
void print_list(Printer *w, int n, const int64_t *v);
/* "{dp, tp}" */
void print_axes(Printer *w, uint32_t axes);

/* options.c: the options of a scope, with a space before each. */
void print_options(Printer *w, OptionScope scope, const void *of);

/* print_memory.c: the memory plan; " in 3" and so on after a value's type. */
void print_memory(Printer *w);
void print_address(Printer *w, const Value *v);

/* print_head.c: everything before the step. */
void print_head(Printer *w);

/* The words of the header, in the order of their enums; NULL ends a list. */
extern const char *const ir_stage_words[];
extern const char *const ir_init_words[];
extern const char *const ir_layout_words[];

#endif
