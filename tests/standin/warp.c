/* warp.c: implements operations of the 32 lanes of a warp, and a thread's
 * asynchronous copies. */
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "parc_device_host.h"
#include "parc_math.h"
#include "state.h"

enum { WARPS = STANDIN_MAX_THREADS / 32, MAX_COPIES = 256 };

typedef struct Fragment {
    float *d;
    uint32_t a[4], b[2];
} Fragment;

/* A copy, in the group that the thread is filling. */
typedef struct Copy {
    void *to;
    const void *from;
    const void *pc;
    int bytes, group;
} Copy;

typedef struct Copies {
    int n, group;
    Copy copy[MAX_COPIES];
} Copies;

static struct {
    uint32_t value[WARPS][2][32];
    const void *row[WARPS][2][32];
    Fragment fragment[WARPS][32];
    Copies *copies[STANDIN_MAX_THREADS];
    bool any_copies;
    int64_t products; /* of warps, 16 x 8 x 16 */
} warp;

uint32_t standin_shuffle(uint32_t value, int lane)
{
    int thread = standin_now.thread, slot = engine_slot();
    warp.value[thread / 32][slot][thread % 32] = value;
    if (engine_exchange(EXCHANGE_SHUFFLE, __builtin_return_address(0)))
        engine_release();
    return warp.value[thread / 32][slot][lane & 31];
}

void standin_rows(const void *to[32], const void *own)
{
    int thread = standin_now.thread, slot = engine_slot();
    const void **row = warp.row[thread / 32][slot];
    row[thread % 32] = own;
    if (engine_exchange(EXCHANGE_ROWS, __builtin_return_address(0)))
        engine_release();
    memcpy(to, row, sizeof warp.row[0][0]);
}

/* Two 16-bit floats of a register, the low half first. */
static void unpack(int type, uint32_t word, float *low, float *high)
{
    uint16_t x = (uint16_t)word, y = (uint16_t)(word >> 16);
    *low = type == STANDIN_MMA_F16 ? parc_from_f16(x) : parc_from_bf16(x);
    *high = type == STANDIN_MMA_F16 ? parc_from_f16(y) : parc_from_bf16(y);
}

/* With g = lane / 4 and t = lane % 4, a lane holds
 *   a[0] A[g][2t, 2t+1]      a[1] A[g+8][2t, 2t+1]
 *   a[2] A[g][2t+8, 2t+9]    a[3] A[g+8][2t+8, 2t+9]
 *   b[0] B[2t, 2t+1][g]      b[1] B[2t+8, 2t+9][g]
 *   d[0, 1] D[g][2t, 2t+1]   d[2, 3] D[g+8][2t, 2t+1] */
static void multiply(int type, const Fragment *lane)
{
    float a[16][16], b[16][8];
    for (int i = 0; i < 32; i++) {
        const Fragment *f = &lane[i];
        int g = i / 4, t = i % 4 * 2;
        unpack(type, f->a[0], &a[g][t], &a[g][t + 1]);
        unpack(type, f->a[1], &a[g + 8][t], &a[g + 8][t + 1]);
        unpack(type, f->a[2], &a[g][t + 8], &a[g][t + 9]);
        unpack(type, f->a[3], &a[g + 8][t + 8], &a[g + 8][t + 9]);
        unpack(type, f->b[0], &b[t][g], &b[t + 1][g]);
        unpack(type, f->b[1], &b[t + 8][g], &b[t + 9][g]);
    }
    for (int i = 0; i < 16; i++) {
        float d[8] = {0};
        for (int k = 0; k < 16; k++)
            for (int j = 0; j < 8; j++)
                d[j] += a[i][k] * b[k][j];
        for (int j = 0; j < 8; j++)
            lane[i % 8 * 4 + j / 2].d[i / 8 * 2 + j % 2] += d[j];
    }
}

int64_t standin_products(void)
{
    return warp.products;
}

void standin_mma(int type, float *d, const uint32_t *a, const uint32_t *b)
{
    int thread = standin_now.thread;
    Fragment *f = warp.fragment[thread / 32];
    Fragment *own = &f[thread % 32];
    own->d = d;
    memcpy(own->a, a, sizeof own->a);
    memcpy(own->b, b, sizeof own->b);
    if (!engine_exchange(EXCHANGE_MMA, __builtin_return_address(0)))
        return;
    multiply(type, f);
    warp.products++;
    engine_release();
}

/* ---- asynchronous copies: they write when the thread waits for them ---- */

void warp_begin_block(int threads)
{
    for (int i = 0; warp.any_copies && i < threads; i++)
        if (warp.copies[i])
            warp.copies[i]->n = warp.copies[i]->group = 0;
    warp.any_copies = false;
}

static Copies *copies_of(int thread)
{
    if (!warp.copies[thread])
        warp.copies[thread] = calloc(1, sizeof **warp.copies);
    warp.any_copies = true;
    return warp.copies[thread];
}

void standin_copy_async(void *shared, const void *global, int bytes)
{
    Copies *c = copies_of(standin_now.thread);
    const void *pc = __builtin_return_address(0);
    char where[200];
    if (((uintptr_t)shared | (uintptr_t)global) & (uintptr_t)(bytes - 1) ||
        c->n == MAX_COPIES) {
        standin_error("%s: copy_async of %p from %p: %s",
                      engine_where(where, sizeof where), shared, global,
                      c->n == MAX_COPIES ? "more than 256 copies in flight"
                                         : "not aligned to 16 bytes");
        standin_now.errors++;
        engine_abandon();
    }
    shadow_read(global, bytes, pc);
    shadow_async_begin(shared, bytes, pc);
    c->copy[c->n++] = (Copy){shared, global, pc, bytes, c->group};
}

void standin_copy_commit(void)
{
    copies_of(standin_now.thread)->group++;
}

/* Completes all committed groups but the newest `groups`. */
void standin_copy_wait(int groups)
{
    Copies *c = copies_of(standin_now.thread);
    int kept = 0;
    for (int i = 0; i < c->n; i++) {
        Copy *p = &c->copy[i];
        if (p->group >= c->group - groups) {
            c->copy[kept++] = *p;
            continue;
        }
        shadow_read(p->from, p->bytes, p->pc);
        shadow_async_end(p->to, p->bytes, p->pc);
        memcpy(p->to, p->from, (size_t)p->bytes);
    }
    c->n = kept;
}
