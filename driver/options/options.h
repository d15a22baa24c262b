/* options.h: reads the command line and holds the values of its options. */
#ifndef PARC_DRIVER_OPTIONS_H
#define PARC_DRIVER_OPTIONS_H

#include "base/arena.h"
#include "base/diag.h"
#include "codegen/machine.h"
#include "driver/passes/pipeline.h"

/* An option's value and its location in the command line. */
typedef struct Argument {
    const char *text; /* NULL: not given */
    Loc loc;
} Argument;

/* ORDER EmitKind: the words of --emit in option_table.c. */
typedef enum EmitKind {
    EMIT_AST,
    EMIT_IR,
    EMIT_PLAN,
    EMIT_JSON,
    EMIT_DOT,
    EMIT_MACHINE,
    EMIT_HTML,
    EMIT_PDL_PLAN,
    EMIT_KINDS
} EmitKind;

typedef struct EmitRequest {
    EmitKind kind;
    const char *file; /* NULL: standard output */
    Loc loc;
} EmitRequest;

typedef struct Options {
    Argument input; /* "-": standard input */
    Argument mesh, plan, config, explain, device_memory, machine, from;
    int64_t memory_limit; /* bytes; 0: none */
    Target target;
    VEC(const char *) arch;
    Argument ranks_arg, node_size_arg, search_arg; /* --ranks, --node-size, --search */
    int64_t ranks, node_size, search;              /* 0: not given */
    int threads; /* 0: the cores of this machine over its ranks, or 1 with a
                    named CPU level */
    Argument cpu_level;
    const CpuLevel *cpu; /* native without --cpu */
    VEC(Argument) define;
    Argument binary;    /* -o */
    Argument directory; /* -S */
    VEC(EmitRequest) emit;
    PipelineOptions pipeline;
    const char *completion; /* a shell's name, or NULL */
    bool no_eval; /* make no side programs */
    bool verbose;
} Options;

typedef enum OptionsResult {
    OPTIONS_RUN,  /* compile */
    OPTIONS_DONE, /* --help and the like: the text was printed */
    OPTIONS_WRONG /* wrong usage; the error is in d */
} OptionsResult;

/* The arguments joined by blanks: the text of the source of their locations. */
char *command_line_text(Arena *a, int argc, char **argv);

/* Reads the arguments; `file` is the command line's source. */
OptionsResult options_parse(Arena *a, Diag *d, uint16_t file, int argc,
                            char **argv, Options *o);

/* Whether the options ask for something that needs all passes: a binary, a
 * report, the check of a memory limit. */
bool options_need_plan(const Options *o);

#endif
