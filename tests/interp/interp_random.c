/* interp_random.c: evaluates random numbers, equal to those of the runtime.
 *
 * A key is an integer of 53 bits, so that a double can represent it. Element i
 * of a tensor is word i % 4 of the Philox4x32-10 block (Salmon et al., 2011)
 *
 *   counter = (i / 4, i / 4 >> 32, site, 0)   key = (key, key >> 32)
 *
 * as a number of 24 bits. A site is an op of the model that draws numbers; its
 * attribute `site` is its number. The key of a layer is made of the block with
 * the counter (layer, 0, 0, 1). runtime/parc_random.h has the same functions
 * for emitted programs.
 */
#include "tests/interp/interp_impl.h"

typedef struct Block {
    uint32_t word[4];
} Block;

static Block philox(Block c, uint64_t key)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c.word[0];
        uint64_t b = (uint64_t)0xCD9E8D57u * c.word[2];
        c = (Block){{(uint32_t)(b >> 32) ^ c.word[1] ^ k0, (uint32_t)b,
                     (uint32_t)(a >> 32) ^ c.word[3] ^ k1, (uint32_t)a}};
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}

double interp_uniform(double key, int64_t site, int64_t index)
{
    uint64_t block = (uint64_t)index / 4;
    Block c = {{(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)site, 0}};
    return (double)(philox(c, (uint64_t)key).word[index % 4] >> 8) * 0x1p-24;
}

/* The index in dim d of a rank's index i there: from where its part begins, or in
 * zigzag order from an operand with every index. */
static int64_t index_in_dim(const Local *base, int64_t i)
{
    return base->shape->n == 1 ? (int64_t)base->at[0] + i : (int64_t)base->at[i];
}

/* Base operands correspond to the dims of the global tensor that are larger
 * than 1, in order. */
void interp_random(Interp *in, const Op *op, int64_t rank)
{
    Local out = interp_local(in, op->out[0], rank);
    const AttrList dims = *attr_global(op);
    double key = interp_local(in, op->arg[0], rank).at[0];
    int64_t site = attr_site(op);
    for (int64_t at = 0; at < out.shape->n; at++) {
        int64_t index = 0, stride = 1, left = at;
        for (int d = dims.n, arg = op->nargs; d-- > 0; stride *= dims.v[d]) {
            int64_t i = left % out.shape->dim[d];
            left /= out.shape->dim[d];
            if (dims.v[d] != 1 && op->nargs > 1) {
                Local base = interp_local(in, op->arg[--arg], rank);
                i = index_in_dim(&base, i);
            }
            index += i * stride;
        }
        out.at[at] = interp_uniform(key, site, index);
    }
}

void interp_split_key(Interp *in, const Op *op, int64_t rank)
{
    Local out = interp_local(in, op->out[0], rank);
    uint64_t key = (uint64_t)interp_local(in, op->arg[0], rank).at[0];
    for (int64_t i = 0; i < out.shape->n; i++) {
        int64_t layer = attr_start(op) + i * attr_step(op);
        Block c = philox((Block){{(uint32_t)layer, 0, 0, 1}}, key);
        out.at[i] = (double)(c.word[0] |
                             (uint64_t)(c.word[1] & 0x1FFFFFu) << 32);
    }
}
