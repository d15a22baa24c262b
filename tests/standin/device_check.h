/* device_check.h: declares what the files of device_test share. */
#ifndef PARC_TESTS_STANDIN_DEVICE_CHECK_H
#define PARC_TESTS_STANDIN_DEVICE_CHECK_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Device {
    void (*check)(bool fine, const char *what); /* counts a check; prints one that failed */
    int *errors;                                /* launches add theirs */
    int64_t *block_memory; /* shared memory that a block may have, in bytes */
} Device;

#endif
