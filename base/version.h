/* version.h: the version of parc, which programs and plans name. */
#ifndef PARC_BASE_VERSION_H
#define PARC_BASE_VERSION_H

#define PARC_VERSION "0.1.0"

#endif
