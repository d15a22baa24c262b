/* embedded.h: files that are embedded in the parc binary (scripts/embed.sh), so
 * that an installation is one file. */
#ifndef PARC_BASE_EMBEDDED_H
#define PARC_BASE_EMBEDDED_H

#include <stddef.h>

typedef struct EmbeddedFile {
    const char *name; /* relative to its directory: "rt.h", "cpu/rt_copy.c" */
    const char *text; /* terminated */
    size_t size;
} EmbeddedFile;

/* All files of runtime/, sorted by name; a row of NULLs ends the list. */
extern const EmbeddedFile runtime_files[];

/* The files of machines/; those of page/web/. */
extern const EmbeddedFile machines_files[];
extern const EmbeddedFile page_files[];

#endif
