/* words.c: the words of the IR's enums, as dumps, plans and messages print
 * them. */
#include "ir/ir.h"

const char *origin_name(Origin o)
{
    static const char *const name[ORIGINS] = {"",          "style", "unit",
                                              "gradient",  "loss",
                                              "optimizer", "pipeline",
                                              "implied"};
    return name[o];
}

const char *phase_name(Phase p)
{
    static const char *const name[] = {"init", "forward", "backward", "weights",
                                       "optimizer"};
    return name[p];
}

const char *stream_name(int stream)
{
    static const char *const name[STREAM_TRANSFER + 1] = {"compute", "tensor", "data",
                                                          "host", "transfer"};
    return name[stream];
}

const char *const purpose_words[] = {"training", "loss", "outputs", "rounds", NULL};
