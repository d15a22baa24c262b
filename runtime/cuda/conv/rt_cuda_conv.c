/* rt_cuda_conv.c: implements the convolutions of train.c (parc_conv.h) with cuDNN, or with
 * parc's own kernels (rt_conv_own.c).
 *
 * init makes a plan of cuDNN's for each shape. Own kernels run if the library is missing or has
 * no engine that fits the planned workspace and computes the same bits in every run; in f32 an
 * engine must not round operands unless PARC_TF32=1 allows it, as for matmuls. --dry-run prints
 * the choice. Own kernels also run a call whose tensors do not begin at multiples of 16 bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/message.h"
#include "cuda/conv/rt_conv_workspace.h"
#include "cuda/conv/rt_cuda_conv.h"
#include "cuda/dnn/rt_cudnn_library.h"
#include "launch/world.h"

struct ParcConv {
    ParcConvSpec spec;
    DnnPlan *plan;           /* NULL: parc's kernels */
    bool owns;               /* the plan is not that of an earlier convolution */
    char reason[DNN_REASON]; /* why there is no plan */
    ParcConv *next;
};

/* ---- plans --------------------------------------------------------------- */

static bool same_pair(const int64_t a[2], const int64_t b[2])
{
    return a[0] == b[0] && a[1] == b[1];
}

static bool same_shape(const ParcConvSpec *a, const ParcConvSpec *b)
{
    return a->computes == b->computes && a->n == b->n && a->g == b->g && a->c == b->c &&
           a->k == b->k && same_pair(a->image, b->image) && same_pair(a->kernel, b->kernel) &&
           same_pair(a->result, b->result) && same_pair(a->stride, b->stride) &&
           same_pair(a->padding, b->padding) && same_pair(a->dilation, b->dilation) &&
           a->type == b->type && a->out == b->out && a->scratch_bytes == b->scratch_bytes;
}

/* Whether an earlier convolution has the shape, whose choice is then c's. */
static bool repeats(const ParcRt *rt, ParcConv *c)
{
    const ParcConv *x = rt->convs;
    while (x && !same_shape(&x->spec, &c->spec))
        x = x->next;
    if (!x)
        return false;
    c->plan = x->plan;
    memcpy(c->reason, x->reason, sizeof c->reason);
    return true;
}

static void conv_text(const ParcRt *rt, const ParcConv *c, char text[DNN_REASON + 128])
{
    const ParcConvSpec *s = &c->spec;
    RtText t = {.at = text, .capacity = DNN_REASON + 128};
    rt_add(&t, "%s of %s: ",
           s->computes == PARC_CONV_Y   ? "forward"
           : s->computes == PARC_CONV_X ? "data"
                                        : "weights",
           s->name);
    if (c->plan)
        rt_add(&t, "cuDNN %zu, engine %lld", rt->device->cudnn->version,
               (long long)rt_cudnn_plan_engine(c->plan));
    else
        rt_add(&t, "own kernels (%s)", c->reason);
}

/* Appends the implementation to the file of measurements. */
static void log_choice(ParcRt *rt, const ParcConv *c)
{
    char text[DNN_REASON + 128];
    FILE *f = rt_cuda_times(rt);
    if (!f)
        return;
    conv_text(rt, c, text);
    fputs("{\"convolution\": ", f);
    rt_json_print(f, text);
    fputs("}\n", f);
    fclose(f);
}

static void choose(ParcRt *rt, ParcConv *c)
{
    const Cudnn *x = rt_cudnn_open(rt);
    const ParcConvSpec *s = &c->spec;
    DnnGraph g;
    rt_conv_graph(&g, s, s->type == PARC_F32 && !rt->device->mode.tf32);
    if (x->handle)
        c->plan = rt_cudnn_plan(&x->context, &g, s->scratch_bytes - rt_conv_narrow_bytes(s),
                                c->reason);
    else
        snprintf(c->reason, sizeof c->reason, "%.*s", DNN_REASON - 1, x->reason);
    rt_cudnn_agree(rt, "a convolution", &c->plan, c->reason);
    c->owns = true;
    if (rt->rank == 0)
        log_choice(rt, c);
}

ParcConv *parc_conv_new(ParcRt *rt, const ParcConvSpec *spec)
{
    ParcConv *c = rt_allocate(sizeof *c);
    c->spec = *spec;
    rt_cuda_note_precision(rt->device, spec->type);
    if (!repeats(rt, c))
        choose(rt, c);
    ParcConv **last = &rt->convs;
    while (*last)
        last = &(*last)->next;
    *last = c;
    return c;
}

/* ---- calls --------------------------------------------------------------- */

static void run_plan(ParcRt *rt, const ParcConv *c, const void *a, const void *b, void *out)
{
    const ParcConvSpec *s = &c->spec;
    int64_t narrow = rt_conv_narrow_bytes(s);
    char *scratch = parc_arena(rt) + s->scratch;
    void *at[DNN_TENSORS] = {0};
    at[rt_conv_operand(s, 0)] = (void *)(uintptr_t)a; /* a graph's list has both kinds */
    at[rt_conv_operand(s, 1)] = (void *)(uintptr_t)b;
    at[s->computes] = narrow ? scratch : out;
    rt_nvtx_push("cuDNN convolution");
    rt_cudnn_must_run(rt, "convolution", c->plan, at, scratch + narrow);
    rt_nvtx_pop();
    if (narrow)
        rt_conv_widen(rt, s->type, out, scratch, rt_conv_elements(s, s->computes));
    rt_cuda_queued(rt, PARC_COMPUTE, s->name);
}

void parc_conv(ParcRt *rt, ParcConv *c, const void *a, const void *b, void *out)
{
    const void *const at[] = {a, b, out};
    if (c->plan && rt_cudnn_aligned(at, 3))
        run_plan(rt, c, a, b, out);
    else
        rt_conv_own(rt, &c->spec, a, b, out);
}

/* ---- end ----------------------------------------------------------------- */

void rt_cuda_conv_print(const ParcRt *rt)
{
    char text[DNN_REASON + 128];
    for (const ParcConv *c = rt->convs; c; c = c->next) {
        if (!c->owns)
            continue;
        conv_text(rt, c, text);
        printf("convolution %s\n", text);
    }
}

void rt_cuda_conv_close(ParcRt *rt)
{
    while (rt->convs) {
        ParcConv *c = rt->convs;
        rt->convs = c->next;
        if (c->owns)
            rt_cudnn_plan_free(c->plan);
        free(c);
    }
}
