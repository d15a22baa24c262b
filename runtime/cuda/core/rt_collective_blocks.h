/* rt_collective_blocks.h: the multiprocessors of a GPU that a collective may hold, for the
 * runtime and for parc's forecast. */
#ifndef PARC_RT_COLLECTIVE_BLOCKS_H
#define PARC_RT_COLLECTIVE_BLOCKS_H

/* The multiprocessors, of `sms`, that NCCL's kernel may hold, and that a concurrent matmul
 * (ParcMatmulSpec) leaves: a quarter, and at most NCCL's own limit. */
static inline int rt_collective_blocks(int sms)
{
    enum { MOST = 32 };
    int quarter = sms / 4;
    return quarter < 1 ? 1 : quarter < MOST ? quarter : MOST;
}

#endif
