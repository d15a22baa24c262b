/* nonfinite.c: adapts the loss scale, and finds the parameter whose
 * gradient is not finite.
 *
 * After a step the memory of its gradients has been reused. But the update of
 * a parameter with a non-finite gradient leaves a non-finite value in the
 * parameter or in its optimizer state. Other parameters stay finite, even with
 * clipping, whose factor is finite for any norm. Hence one rank searches the
 * shards of all ranks for non-finite values, which also identifies the layer.
 *
 * The backward pass propagates a non-finite gradient to all earlier layers.
 * The message therefore names the parameter nearest to the loss.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/world.h"
#include "params/params.h"
#include "rt.h"
#include "run.h"

/* The parameter nearest to the loss that is not finite after its update. */
typedef struct Culprit {
    const ParcParam *param; /* NULL: none */
    int64_t layer;
    int64_t count; /* parameters of which a value or a state is not finite */
} Culprit;

static bool layer_is_finite(ParcRt *rt, const ParcParam *p,
                            int64_t layer)
{
    RtBuffer buffer = {0};
    bool finite = true;
    for (int rank = 0; rank < rt->nranks && finite; rank++) {
        RtShard s;
        rt_shard(&s, rt->model, rank, p);
        if (rt_shard_index(&s, layer) < 0)
            continue;
        const float *x = rt_shard_read(rt, rank, &s, layer, &buffer);
        for (int64_t i = 0; i < s.run && finite; i++)
            finite = isfinite(x[i]);
    }
    free(buffer.at);
    return finite;
}

/* Whether a row of the table is the parameter or one of its states. */
static bool is_of(const ParcParam *row, const ParcParam *p)
{
    return row->offset >= 0 && strcmp(row->name, p->name) == 0;
}

static bool update_is_finite(ParcRt *rt, const ParcParam *p,
                             int64_t layer)
{
    const ParcModel *m = rt->model;
    for (int i = 0; i < m->nparams; i++)
        if (is_of(&m->param[i], p) &&
            !layer_is_finite(rt, &m->param[i], layer))
            return false;
    return true;
}

/* The length of a name up to and including its first layer number, as in
 * "layers.*" or "layers.0-3"; 0 if there is none. */
static size_t array_length(const char *name)
{
    for (const char *part = name; part; part = strchr(part, '.')) {
        part += *part == '.';
        if (*part == '*' || (*part >= '0' && *part <= '9'))
            return (size_t)(part - name) + strcspn(part, ".");
    }
    return 0;
}

/* Whether two stacked parameters belong to the same layers, which run one
 * after the other: "layers.*.wq.weight" and "layers.*.wo.weight". */
static bool same_array(const ParcParam *p, const ParcParam *q)
{
    size_t n = array_length(p->name);
    return n > 0 && array_length(q->name) == n &&
           strncmp(p->name, q->name, n) == 0;
}

/* Parameters are listed in the order of their declaration in the model. */
static bool is_nearer(const Culprit *c, const ParcParam *p, int64_t layer)
{
    return !c->param || !same_array(c->param, p) || layer >= c->layer;
}

static Culprit find_culprit(ParcRt *rt)
{
    const ParcModel *m = rt->model;
    Culprit c = {NULL, 0, 0};
    for (int i = 0; i < m->nparams; i++) {
        const ParcParam *p = &m->param[i];
        if (p->state || p->offset < 0)
            continue;
        for (int64_t layer = 0; layer < rt_param_layers(p); layer++) {
            if (update_is_finite(rt, p, layer))
                continue;
            c.count++;
            if (is_nearer(&c, p, layer)) {
                c.param = p;
                c.layer = layer;
            }
        }
    }
    return c;
}

static _Noreturn void report_culprit(ParcRt *rt, int64_t step, double norm)
{
    char name[RT_NAME], rest[64] = "";
    Culprit c = find_culprit(rt);
    const char *what = isnan(norm) ? "not a number" : "infinite";
    if (!c.param)
        rt_fail(rt,
                "step %lld: the norm of the gradients is %s, although each "
                "of them is finite: the sum of their squares is too large; "
                "try a lower learning rate",
                (long long)step, what);
    rt_param_name(c.param->name, c.param, c.layer, name);
    if (c.count > 1)
        snprintf(rest, sizeof rest, ", nor are those of %lld others",
                 (long long)(c.count - 1));
    rt_fail(rt,
            "step %lld: the norm of the gradients is %s: the gradient of "
            "'%s' is not finite%s%s",
            (long long)step, what, name, rest,
            rt->nan_check ? "" : "; with PARC_NANCHECK=1 the run names the "
                                 "first tensor that is not finite");
}

void rt_nonfinite(ParcRt *rt, int64_t step, double norm)
{
    rt_params_download(rt, true);
    rt_synchronize(rt, RT_AT_GRADIENTS);
    if (rt->rank == 0)
        report_culprit(rt, step, norm);
    for (;;)
        rt_synchronize(rt, RT_AT_GRADIENTS); /* ends when rank 0 ends the run */
}

/* ---- the loss scale ----
 *
 * Small gradients underflow in 16 bits. The loss is therefore multiplied by a
 * scale, and the step divides the gradients by it in f32. If a gradient
 * overflows, the norm is not finite: the step changes no parameter, and the
 * scale is halved. After 2000 steps without an overflow it is doubled, as in
 * torch.cuda.amp.GradScaler. */

enum { GROWTH_INTERVAL = 2000, PATIENCE = 64 };

void rt_scale_start(ParcRt *rt)
{
    rt->scale = (RtScale){.scale = rt->model->loss_scale};
}

bool rt_scale_step(ParcRt *rt, int64_t step, double norm)
{
    RtScale *s = &rt->scale;
    if (isfinite(norm)) {
        s->bad = 0;
        if (++s->good == GROWTH_INTERVAL) {
            s->good = 0;
            s->scale = s->scale * 2 < FLT_MAX ? s->scale * 2 : s->scale;
        }
        return true;
    }
    s->good = 0;
    s->scale /= 2;
    if (++s->bad == PATIENCE)
        rt_fail(rt, "step %lld: the gradients of %d steps in a row were not "
                "finite, down to a loss scale of %g; try a lower learning rate "
                "or precision=bf16", (long long)step, PATIENCE, s->scale * 2);
    return false;
}
