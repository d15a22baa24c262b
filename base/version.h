/* version.h: the version of parc. `--version`, `--emit json` and the emitted
 * sources print it. */
#ifndef PARC_BASE_VERSION_H
#define PARC_BASE_VERSION_H

#define PARC_VERSION "0.1.0"

#endif
