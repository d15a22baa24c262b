/* ir_tools.h: reads programs and types from text, for the tests of the IR. */
#ifndef PARC_TESTS_UNIT_IR_TOOLS_H
#define PARC_TESTS_UNIT_IR_TOOLS_H

#include <stdlib.h>
#include <string.h>

#include "ir/text/text.h"

/* Reads a printed program; on an error prints it and ends the test. */
static inline Program *tool_parse(Arena *a, const char *text)
{
    Diag *d = diag_new(a, COLOR_NEVER);
    uint16_t file = diag_source(d, "test", text, strlen(text));
    Program *p = ir_parse(a, d, file);
    if (!p) {
        diag_flush(d, stdout);
        exit(1);
    }
    return p;
}

/* An empty partitioned program on a mesh such as "dp=2 tp=2". */
static inline Program *tool_program(Arena *a, const char *mesh)
{
    return tool_parse(a, arena_printf(a,
                                      "parc ir 1\nstage partitioned\n"
                                      "model \"t\"\nmesh %s\nstep {\n}\n",
                                      mesh));
}

/* A type as it is printed. */
static inline Type tool_type(Program *p, const char *text)
{
    Text s = {.arena = p->arena, .diag = p->diag, .p = p, .line = 1};
    s.at = s.line_start = text;
    s.end = text + strlen(text);
    parse_next(&s);
    Type t = parse_type(&s);
    if (s.failed) {
        diag_flush(p->diag, stdout);
        exit(1);
    }
    return t;
}

#endif
