/* print_shards.c: prints which rank owns which elements of a parameter
 * (--print-shards).
 *
 * One process prints everything: it computes layouts, and initializes or reads
 * only the values that it prints. It maps no arena and starts no rank, so it
 * can print the shards of any mesh on any machine.
 *
 *   net1.weight: f32[12, 12], fsdp=flat tp=S(0), on a mesh of fsdp=2 tp=4
 *   rank 0: fsdp=0 {0, 4} tp=0 {0, 1, 2, 3}: 18 elements: [0, 0] .. [1, 5]
 *       values 101, 102, 103, 104, … 118     (--all: every value)
 *
 * Each coordinate is followed by the ranks of the rank's group along that
 * axis. A shard is printed as rows if it consists of complete rows, as
 * begin:end of each dim if it is rectangular, otherwise as the first and last
 * element of each contiguous piece: of the first MAX_PIECES, or with --all of
 * every one.
 */
#include <inttypes.h>
#include <stdio.h>

#include "checkpoint/weights.h"
#include "common/message.h"
#include "common/type.h"
#include "launch/world.h"
#include "options/options.h"
#include "params/params.h"
#include "run.h"

enum { MAX_PIECES = 4, MAX_VALUES = 4 };

/* The source of the values. */
typedef struct Source {
    const ParcModel *model;
    const RtWeights *weights; /* a layer in no file has its initial values */
    int64_t seed;
    bool all; /* every piece and value is printed */
} Source;

/* Prints the rank's coordinate on each axis and its group along this axis. */
static void print_groups(const ParcModel *m, int rank)
{
    for (int a = 0; a < m->naxes; a++) {
        int64_t coord = rt_coord(m, rank, a), stride = rt_stride(m, a);
        printf(" %s=%" PRId64 " {", m->axis[a].name, coord);
        for (int64_t i = 0; i < m->axis[a].size; i++)
            printf("%s%" PRId64, i ? ", " : "", rank + (i - coord) * stride);
        printf("}");
    }
}

static void print_element_index(const ParcParam *p, int64_t at)
{
    int64_t stride = rt_elements(p->dim, p->ndim);
    printf("[");
    for (int d = 0; d < p->ndim; d++) {
        stride /= p->dim[d];
        printf("%s%" PRId64, d ? ", " : "", at / stride);
        at %= stride;
    }
    printf("]");
}

/* Prints a shard that is a block: its rows if at most dim 0 is split, otherwise
 * begin:end of each dim. */
static void print_block(const RtShard *s)
{
    const ParcParam *p = s->param;
    bool rows = p->ndim > 0;
    for (int d = 1; d < p->ndim; d++)
        rows &= s->part[d] == p->dim[d];
    if (rows) {
        printf("%s %" PRId64 " .. %" PRId64, p->ndim > 1 ? "rows" : "elements",
               s->begin[0], s->begin[0] + s->held[0] - 1);
        return;
    }
    printf("[");
    for (int d = 0; d < p->ndim; d++)
        printf("%s%" PRId64 ":%" PRId64, d ? ", " : "", s->begin[d],
               s->begin[d] + s->held[d]);
    printf("]");
}

/* Prints the rows of a flat shard of `elements` elements; false if it does not
 * consist of complete rows, or if another dim than 0 is split. */
static bool print_flat_rows(const RtShard *s, int64_t elements)
{
    const ParcParam *p = s->param;
    int64_t row = 1, first, at = 0;
    for (int d = 1; d < p->ndim; d++) {
        if (s->part[d] != p->dim[d])
            return false;
        row *= p->dim[d];
    }
    if (p->ndim < 2 || s->first % row || elements % row ||
        rt_shard_run(s, &at, &first) == 0)
        return false;
    printf("rows %" PRId64 " .. %" PRId64, first / row,
           (first + elements) / row - 1);
    return true;
}

/* Prints the contiguous pieces of a shard. */
static void print_pieces(const Source *from, const RtShard *s)
{
    int pieces = 0;
    int64_t more = 0;
    int64_t global, n;
    for (int64_t i = 0; (n = rt_shard_run(s, &i, &global)) > 0; i += n)
        if (pieces++ < MAX_PIECES || from->all) {
            printf("%s", pieces > 1 ? ", " : "");
            print_element_index(s->param, global);
            printf(" .. ");
            print_element_index(s->param, global + n - 1);
        } else {
            more++;
        }
    if (more > 0)
        printf(" and %" PRId64 " more", more);
}

static double element_value(const Source *from, const ParcParam *p,
                            int64_t layer, int64_t element)
{
    float value;
    if (!rt_weights_value(from->weights, p, layer, element, &value))
        value = rt_param_value(p, from->seed, layer, element);
    return (double)value;
}

/* Prints the first MAX_VALUES stored values of a rank and the last; with --all,
 * all of them. */
static void print_values(const Source *from, const RtShard *s, int64_t layer)
{
    int64_t seen = 0, global, n, last = 0;
    int64_t most = from->all ? INT64_MAX : MAX_VALUES;
    printf("    values");
    for (int64_t at = 0; (n = rt_shard_run(s, &at, &global)) > 0; at += n) {
        for (int64_t i = 0; i < n && seen + i < most; i++)
            printf("%s %.9g", seen + i > 0 ? "," : "",
                   element_value(from, s->param, layer, global + i));
        last = global + n - 1;
        seen += n;
    }
    if (seen > most)
        printf("%s %.9g", seen > most + 1 ? ", …" : ",",
               element_value(from, s->param, layer, last));
    printf("\n");
}

static void print_rank(const Source *from, const ParcParam *p, int rank,
                       int64_t layer)
{
    RtShard s;
    rt_shard(&s, from->model, rank, p);
    bool has = rt_shard_index(&s, layer) >= 0;
    int64_t n = has ? rt_shard_elements(&s) : 0;
    int64_t held = rt_elements(s.held, p->ndim);
    printf("rank %d:", rank);
    print_groups(from->model, rank);
    if (!has) {
        printf(": none, another stage has it\n");
        return;
    }
    printf(": %" PRId64 " element%s", n, n == 1 ? "" : "s");
    if (n < s.run)
        printf(" and %" PRId64 " of padding", s.run - n);
    if (n > 0) {
        printf(": ");
        if (n == held)
            print_block(&s);
        else if (!print_flat_rows(&s, n))
            print_pieces(from, &s);
    }
    printf("\n");
    if (n > 0)
        print_values(from, &s, layer);
}

static void print_layer(const Source *from, const ParcParam *p, int64_t layer)
{
    const ParcModel *m = from->model;
    char name[RT_NAME], shape[RT_SHAPE_TEXT];
    rt_param_name(p->name, p, layer, name);
    printf("%s: f32%s, %s, on a mesh of", name,
           rt_shape_text(p->ndim, p->dim, shape), p->placement);
    for (int a = 0; a < m->naxes; a++)
        printf(" %s=%" PRId64, m->axis[a].name, m->axis[a].size);
    printf("\n");
    for (int r = 0; r < rt_nranks(m); r++)
        print_rank(from, p, r, layer);
}

void rt_shards_print(const ParcModel *m, const RtOptions *o,
                     const RtWeights *weights)
{
    Source from = {
        .model = m, .weights = weights, .seed = o->seed, .all = o->all};
    const char *pattern = rt_pattern(m, o->print_shards);
    for (int i = 0; i < m->nparams; i++) {
        const ParcParam *p = &m->param[i];
        for (int64_t l = 0; rt_param_is_weight(p) && l < rt_param_layers(p);
             l++)
            if (rt_param_matches(pattern, p, l))
                print_layer(&from, p, l);
    }
}
