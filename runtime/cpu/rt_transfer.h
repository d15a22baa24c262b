/* rt_transfer.h: declares the state of a rank's transfers: rt_transfer.c. */
#ifndef PARC_RT_TRANSFER_H
#define PARC_RT_TRANSFER_H

#include "rt.h"

/* Allocates the state before the first step; frees it after the last. */
void rt_transfers_open(ParcRt *rt);
void rt_transfers_close(ParcRt *rt);

#endif
