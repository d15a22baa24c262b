/* data_rate.c: times how one rank prepares batches.
 *
 *   data_rate STEPS SPEC SHUFFLE INPUT…     an INPUT is NAME:BELOW:DIM,DIM,…
 *
 * BELOW is the bound of integers, 0: floats. Prints the median in milliseconds
 * of a batch of SPEC, the value of --data, after two batches.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "data/data.h"
#include "rt.h"

enum { MOST = 8, WARM = 2 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* Parses an INPUT, which is stored from `offset` on; the bytes of a batch. */
static int64_t parse(ParcInput *in, char *text, int64_t offset)
{
    char *below = strchr(text, ':'), *at = below ? strchr(below + 1, ':') : NULL;
    if (!at) {
        fprintf(stderr, "data_rate: an input is NAME:BELOW:DIM,DIM,…\n");
        exit(2);
    }
    *below = 0;
    *in = (ParcInput){.name = text, .below = atoll(below + 1),
                      .is_labels = strcmp(text, "labels") == 0,
                      .offset = offset};
    in->type = in->below > 0 ? PARC_I32 : PARC_F32;
    int64_t bytes = 4;
    do {
        in->dim[in->ndim] = strtoll(at + 1, &at, 10);
        bytes *= in->dim[in->ndim++];
    } while (*at == ',' && in->ndim < PARC_MAX_DIMS);
    return (bytes + 63) / 64 * 64;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    ParcInput input[MOST];
    int n = argc - 4, steps = argc > 4 ? atoi(argv[1]) : 0;
    int64_t bytes = 0;
    if (steps < 1 || n > MOST) {
        fprintf(stderr, "usage: data_rate STEPS SPEC SHUFFLE INPUT…\n");
        return 2;
    }
    for (int i = 0; i < n; i++)
        bytes += parse(&input[i], argv[4 + i], bytes);
    ParcModel model = {.name = "model", .input = input, .ninputs = n,
                       .batch = input[0].dim[0],
                       .seq = input[0].ndim == 2 ? input[0].dim[1] : 1};
    ParcRt rt = {.model = &model, .nranks = 1};
    rt.arena = aligned_alloc(64, (size_t)bytes);
    rt.group[0] = (RtGroup){.n = 1};
    RtData data;
    double *ms = calloc((size_t)steps, sizeof *ms);
    if (!rt.arena || !ms ||
        !rt_data_open(&data, argv[2], atoi(argv[3]) != 0, 1, &model))
        return 1;
    for (int s = -WARM; s < steps; s++) {
        RtBatch batch = {0};
        double begin = now();
        if (!rt_batch_inputs(&rt, &data, input, n, s + WARM, &batch)) {
            fprintf(stderr, "%s\n", batch.why);
            return 1;
        }
        if (s >= 0)
            ms[s] = now() - begin;
    }
    qsort(ms, (size_t)steps, sizeof *ms, by_size);
    printf("%.4f\n", ms[steps / 2]);
    rt_data_close(&data);
    free(ms);
    free(rt.arena);
    return 0;
}
