/* crc32c.h: declares the checksum CRC-32C: crc32c.c. */
#ifndef PARC_RT_CRC32C_H
#define PARC_RT_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of a text followed by `n` bytes at `data`; `crc` is the checksum
 * of the text, 0 if it is empty. */
uint32_t rt_crc32c(uint32_t crc, const void *data, size_t n);
/* The same, computed without instructions for CRC-32C. */
uint32_t rt_crc32c_portable(uint32_t crc, const void *data, size_t n);

#endif
