/* epilogue.c: maps each epilogue of a matmul to its name in reports, its
 * constant in emitted code, and the vector and the tensor that it reads or
 * writes: operands or results of the op. */
#include "codegen/contraction.h"

#include <stddef.h>

enum { NONE = -1, SECOND_RESULT = -2 };

#define ROW(e, name, vector, tensor) [e] = {name, #e, vector, tensor}

const EpilogueInfo *epilogue_info(ParcEpilogue e)
{
    static const EpilogueInfo table[] = {
        ROW(PARC_NO_EPILOGUE, "", NONE, NONE),
        ROW(PARC_BIAS, "bias", 2, NONE),
        ROW(PARC_ADD, "add", NONE, 2),
        ROW(PARC_SUM_A, "bias gradient", SECOND_RESULT, NONE),
        ROW(PARC_SUM_B, "bias gradient", SECOND_RESULT, NONE),
        ROW(PARC_BIAS_ADD, "bias, add", 3, 2),
        ROW(PARC_SUM_A_ADD, "bias gradient, add", SECOND_RESULT, 2),
        ROW(PARC_SUM_B_ADD, "bias gradient, add", SECOND_RESULT, 2),
        ROW(PARC_GELU, "gelu", NONE, SECOND_RESULT),
        ROW(PARC_GELU_BIAS, "bias, gelu", 2, SECOND_RESULT),
        ROW(PARC_GELU_GRAD, "gelu gradient", NONE, 2),
    };
    return &table[e];
}

Value *epilogue_value(const Op *op, int which)
{
    return which == NONE            ? NULL
           : which == SECOND_RESULT ? op->out[1]
                                    : op->arg[which];
}
