/* compilation.h: the state of one run of parc, and the outputs that it writes.
 *
 * main.c      the stages: command line, input, passes, outputs
 * outputs.c   reports, explanations and programs
 */
#ifndef PARC_DRIVER_COMPILATION_H
#define PARC_DRIVER_COMPILATION_H

#include "base/file.h"
#include "driver/options/options.h"
#include "driver/passes/pipeline.h"
#include "frontend/frontend.h"
#include "report/report.h"

enum { MAX_TIMES = 4 };

typedef struct Compilation {
    Arena *arena;
    Diag *diag;
    Options o;
    uint16_t model, prelude, command; /* numbers of the sources */
    const char *command_text;
    const File *file; /* NULL: the input is an IR dump */
    const File *prelude_file;
    const char *mesh; /* --mesh, with the sizes that parc has chosen */
    const ConfigFile *config; /* --config, or NULL */
    Setting *const *define; /* of --config, -D, and what --plan auto adds */
    int ndefines, ngiven; /* of them, those of --config and -D */
    PlanDefaults defaults;
    const Machine *machine;   /* --machine; NULL: not given */
    const Forecast *forecast; /* on that machine; NULL: none */
    Outputs *outputs;
    Out text; /* for standard output */
    Timing time[MAX_TIMES];
    int ntimes;
    double begun;
} Compilation;

/* ---- outputs.c ----------------------------------------------------------- */

/* Whether --emit ast is the only request. */
bool compilation_only_ast(const Compilation *c);
/* The other functions return false after an error. */
/* Adds the reports that --emit requests to the outputs. All but c are NULL if
 * --emit ast is the only request. */
bool compilation_reports(Compilation *c, const Program *p, const TargetInfo *t,
                         const Warnings *warnings);
/* Appends the explanation that --explain requests to c->text. */
bool compilation_explain(Compilation *c, const Program *p,
                         const TargetInfo *t);
/* Adds the program that -o and -S request to the outputs. */
bool compilation_program(Compilation *c, const Program *p,
                         const TargetInfo *t);
/* Writes standard output, and renames the complete files into place. */
bool compilation_publish(Compilation *c);

/* Whether all that was printed, by dumps too, has been written. `error` is the
 * errno of the last write, or 0. */
bool stdout_flush(Diag *d, int error);
/* Reports outputs that overwrite the model or another output; returns whether
 * there are none. */
bool outputs_differ(Diag *d, const Options *o);

#endif
