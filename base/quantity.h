/* quantity.h: prints quantities for people. */
#ifndef PARC_BASE_QUANTITY_H
#define PARC_BASE_QUANTITY_H

#include <stdint.h>

#include "base/arena.h"

/* With a binary prefix: "512 B", "64.00 KiB". */
const char *bytes_text(Arena *a, int64_t bytes);
/* With a decimal prefix: "12", "1.50 G". */
const char *count_text(Arena *a, double x);

#endif
