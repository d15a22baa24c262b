/* emit_options.h: what the user asks of an emitted program. */
#ifndef PARC_CODEGEN_EMIT_OPTIONS_H
#define PARC_CODEGEN_EMIT_OPTIONS_H

#include <stdbool.h>

typedef struct EmitOptions {
    const char *source;      /* base name of the PDL file */
    const char *command;     /* the command line, for the header comment */
    const char *plan;        /* the text of --emit plan, which --info prints */
    const char *directory;   /* -S DIR, or NULL */
    const char *binary;      /* -o FILE, or NULL */
    const char *self;        /* path of the running parc, to find the built
                                runtime library; may be NULL */
    const char *const *arch; /* GPU architectures; NULL ends the list */
    bool verbose;            /* print the commands that are run, and ptxas'
                              * report on each kernel */
} EmitOptions;

#endif
