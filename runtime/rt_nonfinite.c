/* rt_nonfinite.c: which gradient was not finite?
 *
 * Gradients share memory, and their step is over. But an update carries what
 * is not finite into the parameter, or into a state of its optimizer, and
 * leaves every other as finite as it was: clipping too, whose factor is finite
 * whatever the norm is. So the shards tell, and with them the layer. One rank
 * reads those of all ranks.
 *
 * A gradient that is not finite spoils those of all layers before its own:
 * the one nearest to the loss is named.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rt.h"

/* The parameter nearest to the loss whose update is not finite. */
typedef struct Culprit {
    const ParcParam *param; /* NULL: none */
    int64_t layer;
    int64_t count; /* tensors that are not finite, states of one as one */
} Culprit;

static bool layer_is_finite(ParcRt *rt, const ParcParam *p,
                            int64_t layer)
{
    RtRoom room = {0};
    bool finite = true;
    for (int rank = 0; rank < rt->nranks && finite; rank++) {
        RtShard s;
        rt_shard(&s, rt->model, rank, p);
        const float *x = rt_shard_read(rt, rank, &s, layer, &room);
        for (int64_t i = 0; i < s.run && finite; i++) {
            finite = isfinite(x[i]);
        }
    }
    free(room.at);
    return finite;
}

/* A parameter's rows of the table: its own, and those of its states. */
static bool is_of(const ParcParam *row, const ParcParam *p)
{
    return row->offset >= 0 && strcmp(row->name, p->name) == 0;
}

static bool update_is_finite(ParcRt *rt, const ParcParam *p,
                             int64_t layer)
{
    const ParcModel *m = rt->model;
    for (int i = 0; i < m->nparams; i++) {
        if (is_of(&m->param[i], p) &&
            !layer_is_finite(rt, &m->param[i], layer)) {
            return false;
        }
    }
    return true;
}

/* The length of a name up to its first number of a layer, "layers.*" or
 * "layers.0-3"; 0 where it has none. */
static size_t array_length(const char *name)
{
    for (const char *part = name; part; part = strchr(part, '.')) {
        part += *part == '.';
        if (*part == '*' || (*part >= '0' && *part <= '9')) {
            return (size_t)(part - name) + strcspn(part, ".");
        }
    }
    return 0;
}

/* Whether two stacks are of the same layers, which run one after the other:
 * "layers.*.wq.weight" and "layers.*.wo.weight". */
static bool same_array(const ParcParam *p, const ParcParam *q)
{
    size_t n = array_length(p->name);
    return n > 0 && array_length(q->name) == n &&
           strncmp(p->name, q->name, n) == 0;
}

/* Parameters stand in the order in which the model declares them. */
static bool is_nearer(const Culprit *c, const ParcParam *p, int64_t layer)
{
    return !c->param || !same_array(c->param, p) || layer >= c->layer;
}

static Culprit find(ParcRt *rt)
{
    const ParcModel *m = rt->model;
    Culprit c = {NULL, 0, 0};
    for (int i = 0; i < m->nparams; i++) {
        const ParcParam *p = &m->param[i];
        if (p->state || p->offset < 0) {
            continue;
        }
        for (int64_t layer = 0; layer < rt_param_layers(p); layer++) {
            if (update_is_finite(rt, p, layer)) {
                continue;
            }
            c.count++;
            if (is_nearer(&c, p, layer)) {
                c.param = p;
                c.layer = layer;
            }
        }
    }
    return c;
}

static _Noreturn void report(ParcRt *rt, int64_t step, double norm)
{
    char name[RT_NAME], rest[64] = "";
    Culprit c = find(rt);
    const char *what = isnan(norm) ? "not a number" : "infinite";
    if (!c.param) {
        rt_fail(rt,
                "step %lld: the norm of the gradients is %s, although each "
                "of them is finite: the sum of their squares is too large",
                (long long)step, what);
    }
    rt_param_name(c.param->name, c.param, c.layer, name);
    if (c.count > 1) {
        snprintf(rest, sizeof rest, ", nor are those of %lld others",
                 (long long)(c.count - 1));
    }
    rt_fail(rt,
            "step %lld: the norm of the gradients is %s: the gradient of "
            "'%s' is not finite%s",
            (long long)step, what, name, rest);
}

void rt_nonfinite(ParcRt *rt, int64_t step, double norm)
{
    rt_params_download(rt, true);
    rt_meet(rt, RT_AT_GRADIENTS);
    if (rt->rank == 0) {
        report(rt, step, norm);
    }
    for (;;) {
        rt_meet(rt, RT_AT_GRADIENTS); /* until rank 0 has ended the run */
    }
}
