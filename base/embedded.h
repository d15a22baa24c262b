/* embedded.h: files that lie inside the parc binary (scripts/embed.sh), so
 * that one file is all there is to install. */
#ifndef PARC_BASE_EMBEDDED_H
#define PARC_BASE_EMBEDDED_H

#include <stddef.h>

typedef struct EmbeddedFile {
    const char *name; /* within its folder: "rt_main.c", "cpu/rt_copy.c" */
    const char *text; /* terminated */
    size_t size;
} EmbeddedFile;

/* Everything in runtime/, sorted by name; a row of NULLs ends the list. */
extern const EmbeddedFile runtime_files[];

#endif
