/* random_follow.c: compares a training run with the interpreter.
 *
 * The interpreter starts from the weights that the binary exported before its
 * first step, and uses the batches that the runtime makes for a single rank.
 * The tolerance is measured: the interpreter runs a second time, from weights
 * with one additional rounding error, and with those of f32 in all values.
 */
#include "tests/unit/random_follow.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/data/data.h"
#include "runtime/options/settings.h"
#include "runtime/params/params.h"
#include "runtime/params/random.h"
#include "runtime/rt.h"
#include "tests/unit/random.h"

/* Tolerances by compute type. `number`: a share of a number's own magnitude.
 * `weight`: a share of the largest magnitude in a weight; `change`: a share of
 * the largest change that training made to it. `shaken`: a multiple of the
 * effect of one more relative rounding error, `shaking`, in every initial
 * weight, and of the rounding of f32. A step on which this effect exceeds `steady` is not compared.
 * `loss`: a share of the loss that a gradient norm may differ by, as sums that
 * cancel leave rounding errors. */
typedef struct Limits {
    double number, weight, change, shaken, loss, shaking, steady;
} Limits;
static const Limits limits[] = {
    [DT_F32] = {2e-6, 5e-7, 2e-5, 16, 2e-8, 0x1p-22, 1e-4},
    [DT_BF16] = {1e-2, 5e-7, 6e-2, 16, 1e-3, 0x1p-9, 0.1},
    [DT_F16] = {2e-3, 5e-7, 1e-2, 16, 2e-4, 0x1p-12, 0.02},
};
/* Neither the weights that a step with a gradient norm this large computes nor the
 * steps after it are compared: large terms that cancel, for example in the
 * gradient of a softmax, leave rounding errors of the size of small gradients. */
static const double steep = 100;
/* A quarter of f32's rounding error: `shaken` times its effect is allowed. */
static const double single_error = 0x1p-26;
enum { ATTEMPTS = 12 };

static const Limits *limits_of(const BinaryRun *run)
{
    const Train *t = &run->global->train;
    return &limits[t->reduce == DT_BF16 ? DT_BF16 : t->precision];
}

/* ---- weights ----------------------------------------------------------- */

static const char *open_weights(const BinaryRun *run, const char *path,
                                RtTensorFile *w)
{
    int64_t at = 0;
    size_t size = 0;
    char *text = file_read(run->arena, path, &size);
    if (!text)
        return arena_printf(run->arena, "cannot read '%s'", path);
    *w = (RtTensorFile){.path = path,
                     .map = (const unsigned char *)text,
                     .size = (int64_t)size};
    return rt_safetensors_header(w, &at);
}

static const RtTensor *find_tensor(const RtTensorFile *w, const char *name)
{
    return rt_tensor_find(w, name);
}

/* Reads a parameter with its whole stack; zeros if the step does not use it.
 * False if the file has no tensor of its size. */
static bool read_param(const RtTensorFile *w, const Param *p, double *to)
{
    ParcParam names = {.nstack = p->type.nstack};
    memcpy(names.stack, p->type.stack, sizeof names.stack);
    int64_t n = type_layer_elements(&p->type);
    int64_t layers = type_elements(&p->type) / n;
    for (int64_t l = 0; l < layers; l++) {
        char name[RT_NAME];
        rt_param_name(p->name, &names, l, name);
        const RtTensor *t = find_tensor(w, name);
        if (!t || t->end - t->begin != n * (int64_t)sizeof(float))
            return false;
        for (int64_t i = 0; i < n; i++) {
            float x;
            memcpy(&x, w->map + t->begin + i * (int64_t)sizeof x, sizeof x);
            to[l * n + i] = (double)x;
        }
    }
    return true;
}

/* Sets every parameter to its initial value in the binary, with the current
 * perturbation; states are zeros. */
static void set_params(const BinaryRun *run, const RtTensorFile *w, Interp *in,
                       int shake)
{
    Rng r = {(uint64_t)(run->seed + shake)};
    for (int i = 0; i < run->global->param.n; i++) {
        const Param *p = &run->global->param.at[i];
        double *x = NEW_ARRAY(run->arena, double, type_elements(&p->type) + 1);
        if (p->state_of < 0)
            read_param(w, p, x);
        for (int64_t k = 0; k < type_elements(&p->type) && shake > 0; k++)
            x[k] *= 1 + limits_of(run)->shaking * rng_normal(&r);
        interp_set_param(in, i, x);
    }
}

/* ---- batches ----------------------------------------------------------- */

/* The batch that the runtime makes for one rank that holds all of it. */
static void set_batch(const BinaryRun *run, Interp *in, int64_t step)
{
    const Program *p = run->global;
    ParcInput *input = NEW_ARRAY(run->arena, ParcInput, p->input.n + 1);
    int64_t bytes = 0;
    for (int i = 0; i < p->input.n; i++) {
        const Input *from = &p->input.at[i];
        input[i] = (ParcInput){.name = from->name,
                               .type = dtype_is_float(from->type.dtype)
                                           ? PARC_F32
                                           : PARC_I32,
                               .is_labels = !strcmp(from->name, "labels"),
                               .below = from->below,
                               .ndim = from->type.ndim,
                               .offset = bytes};
        memcpy(input[i].dim, from->type.dim, sizeof input[i].dim);
        bytes += 4 * type_elements(&from->type);
    }
    ParcModel model = {.input = input,
                       .ninputs = p->input.n,
                       .batch = p->train.batch,
                       .seq = p->train.seq};
    ParcRt rt = {.model = &model, .nranks = 1};
    rt.arena = arena_alloc(run->arena, (size_t)bytes + 1);
    rt.group[0] = (RtGroup){.n = 1};
    rt_batch(&rt, &(RtData){.seed = run->seed}, step, &(RtBatch){0});
    for (int i = 0; i < p->input.n; i++) {
        int64_t n = type_elements(&p->input.at[i].type);
        double *x = NEW_ARRAY(run->arena, double, n + 1);
        const char *at = rt.arena + input[i].offset;
        for (int64_t k = 0; k < n; k++)
            x[k] = input[i].type == PARC_I32
                       ? (double)((const int32_t *)at)[k]
                       : (double)((const float *)at)[k];
        interp_set_input(in, i, x);
    }
}

/* ---- the interpreter's steps ------------------------------------------- */

enum { LOSS, GRAD_NORM, OUTPUTS };
/* The square of a smaller gradient is no normal f32: it counts as 0. */
#define LEAST 2e-18

static const char *const output_name[OUTPUTS] = {"loss", "grad_norm"};

/* An accepted run of the interpreter. */
typedef struct Track {
    Interp *in;
    Rng narrow; /* of rounding errors of 16-bit values, if the state is not 0 … */
    Rng single; /* … and of f32 */
    double (*output)[OUTPUTS]; /* by step, from 0 */
    double **param;            /* by parameter; NULL: never assigned */
} Track;

/* Runs from the exported weights and from perturbed ones. */
struct Reference {
    RtTensorFile before;
    Track exact, shaken;
    bool **undecided; /* by parameter and element: rounding decides the sign of
                       * Lion's update in the last step; NULL: of none */
};

/* Gives the numbers that the forward and backward pass compute a rounding error. */
static const char *round_results(void *context, Interp *in, const Op *op, bool done)
{
    Track *t = context;
    bool computes = done && op->kind != OP_param && op->phase < PH_OPTIMIZER;
    for (int i = 0; i < op->nouts && computes; i++) {
        DType type = op->out[i]->type.dtype;
        bool wide = type == DT_F32;
        double error = wide ? single_error : dtype_is_float(type) ? limits[type].shaking : 0;
        Rng *r = wide ? &t->single : &t->narrow;
        int64_t n;
        double *x = interp_parts(in, op->out[i], &n);
        for (int64_t k = 0; k < n && error > 0 && r->state; k++)
            x[k] *= 1 + error * rng_normal(r);
    }
    return NULL;
}

/* Both runs of an attempt have the same rounding errors of 16-bit values; only the shaken one
 * has those of f32. */
static void start_track(const BinaryRun *run, Track *t, int attempt, bool shaken)
{
    uint64_t seed = (uint64_t)(run->seed + attempt) * 1000003u + 1;
    int shake = 2 * attempt + shaken;
    t->in = interp_new(run->global);
    t->narrow = (Rng){attempt > 0 ? seed : 0};
    t->single = (Rng){shaken ? seed : 0};
    interp_watch(t->in, round_results, t);
    t->output =
        arena_alloc(run->arena, sizeof *t->output * (size_t)(run->steps + 1));
    t->param = NEW_ARRAY(run->arena, double *, run->global->param.n + 1);
    set_params(run, &run->reference->before, t->in, shake);
}

static double learning_rate(const BinaryRun *run, int64_t step)
{
    static const ParcScheduleKind kind[] = {
        [SCHEDULE_CONSTANT] = PARC_CONSTANT,
        [SCHEDULE_LINEAR] = PARC_LINEAR,
        [SCHEDULE_COSINE] = PARC_COSINE};
    const LrSchedule *s = &run->global->train.schedule;
    RtSettings settings = {
        .lr = run->global->train.lr,
        .schedule = {.kind = kind[s->kind], .warmup = s->warmup,
                     .steps = s->steps, .min_lr = s->min_lr}};
    return rt_schedule_lr(&settings, step, run->steps);
}

static const char *run_step(const BinaryRun *run, Track *t, int64_t step)
{
    const Train *train = &run->global->train;
    for (int i = 0; i < run->global->param.n; i++)
        if (t->param[i])
            interp_set_param(t->in, i, t->param[i]);
    set_batch(run, t->in, step - 1);
    interp_set_scalar(t->in, "lr", learning_rate(run, step));
    interp_set_scalar(t->in, "loss_scale", train->loss_scale);
    bool powers = train->optimizer == OPT_ADAFACTOR;
    double n = (double)step;
    interp_set_scalar(t->in, "bias1",
                      powers ? pow(n, train->beta2_decay) : 1 - pow(train->beta1, n));
    interp_set_scalar(t->in, "bias2", powers ? 1 / sqrt(n) : 1 - pow(train->beta2, n));
    interp_set_scalar(t->in, "random", (double)rt_step_key(run->seed, step));
    const char *fault = interp_run(t->in);
    for (int k = 0; k < OUTPUTS && !fault; k++)
        if (!interp_output(t->in, output_name[k], &t->output[step - 1][k]))
            fault = "the program lacks an output";
    return fault ? arena_strdup(run->arena, fault) : NULL;
}

static void accept_step(const BinaryRun *run, Track *t)
{
    for (int i = 0; i < run->global->param.n; i++) {
        int64_t n = type_elements(&run->global->param.at[i].type);
        if (interp_assigned(t->in, i))
            t->param[i] = arena_copy(run->arena, interp_param(t->in, i),
                                     sizeof(double) * (size_t)n);
    }
}

/* Some models diverge after a few steps, and then depend on rounding. */
static bool is_steady(const BinaryRun *run, const Reference *r, int64_t step)
{
    const double *x = r->exact.output[step - 1];
    const double *y = r->shaken.output[step - 1];
    for (int k = 0; k < OUTPUTS; k++)
        if (!(fabs(x[k] - y[k]) <= limits_of(run)->steady * fabs(x[k])))
            return false;
    return true;
}

static bool is_steep(const BinaryRun *run, int64_t step)
{
    return step > 0 && run->reference->exact.output[step - 1][GRAD_NORM] > steep;
}

/* ---- signs that rounding decides ----------------------------------------- */

/* The sum whose sign Lion's update has, from the average before and after the
 * step. */
static double direction(const Train *t, double before, double after)
{
    double gradient = (after - t->beta2 * before) / (1 - t->beta2);
    return t->beta1 * before + (1 - t->beta1) * gradient;
}

static double *directions(const BinaryRun *run, const Track *t, int state)
{
    int64_t n = type_elements(&run->global->param.at[state].type);
    double *x = NEW_ARRAY(run->arena, double, n + 1);
    const double *after = interp_param(t->in, state);
    for (int64_t k = 0; k < n; k++)
        x[k] = direction(&run->global->train,
                         t->param[state] ? t->param[state][k] : 0, after[k]);
    return x;
}

/* Marks the elements of a parameter whose direction is no larger than its
 * tolerance, by the rule of compare_param; false if none is. So is a direction of
 * 0: terms that cancel in doubles may leave rounding errors in the binary. */
static bool mark_undecided(const BinaryRun *run, Reference *r, int state)
{
    const Param *p = &run->global->param.at[state];
    const Limits *l = limits_of(run);
    int64_t n = type_elements(&p->type);
    double *x = directions(run, &r->exact, state);
    double *y = directions(run, &r->shaken, state);
    double largest = 0, shake = 0;
    bool any = false;
    for (int64_t k = 0; k < n; k++) {
        largest = fmax(largest, fabs(x[k]));
        shake = fmax(shake, fabs(x[k] - y[k]));
    }
    bool *marks = NEW_ARRAY(run->arena, bool, n + 1);
    for (int64_t k = 0; k < n; k++) {
        marks[k] = fabs(x[k]) <= l->change * largest + l->shaken * shake;
        any |= marks[k];
    }
    r->undecided[p->state_of] = any ? marks : NULL;
    return any;
}

/* Whether rounding decides the sign of an element that Lion updates in the
 * current step: the following steps depend on it. */
static bool is_undecided(const BinaryRun *run, Reference *r)
{
    const Program *p = run->global;
    bool any = false;
    for (int i = 0; i < p->param.n && p->train.optimizer == OPT_LION; i++)
        if (p->param.at[i].state_of >= 0 && !strcmp(p->param.at[i].state, "m") &&
            interp_assigned(r->exact.in, i))
            any |= mark_undecided(run, r, i);
    return any;
}

/* How much an element may differ because rounding decides its sign. */
static double sign_tolerance(const BinaryRun *run, int param, int64_t element)
{
    const bool *marks = run->reference->undecided[param];
    if (!marks || !marks[element])
        return 0;
    return 2 * param_lr_factor(&run->global->param.at[param]) *
           learning_rate(run, run->steps);
}

/* ---- runs --------------------------------------------------------------- */

static const char *run_tracks(BinaryRun *run, Reference *r)
{
    const char *fault = NULL;
    r->undecided = NEW_ARRAY(run->arena, bool *, run->global->param.n + 1);
    for (int64_t step = 1; step <= run->steps && !fault; step++) {
        fault = run_step(run, &r->exact, step);
        if (!fault)
            fault = run_step(run, &r->shaken, step);
        if (!fault && step > 1 && !is_steady(run, r, step)) {
            run->steps = step - 1;
            break;
        }
        bool last = is_undecided(run, r) || is_steep(run, step);
        accept_step(run, &r->exact);
        accept_step(run, &r->shaken);
        if (last)
            run->steps = step;
    }
    return fault;
}

/* Attempt 0 starts from the exported weights, without rounding errors of values; others
 * start from perturbed ones. */
static const char *interpret(BinaryRun *run, int attempt)
{
    Reference *r = run->reference;
    start_track(run, &r->exact, attempt, false);
    start_track(run, &r->shaken, attempt, true);
    const char *fault = run_tracks(run, r);
    interp_free(r->exact.in);
    interp_free(r->shaken.in);
    return fault;
}

const char *reference_run(BinaryRun *run)
{
    run->reference = NEW(run->arena, Reference);
    const char *fault = open_weights(run, run->before, &run->reference->before);
    return fault ? fault : interpret(run, 0);
}

/* ---- comparison -------------------------------------------------------- */

static bool within(BinaryRun *run, double error, double limit)
{
    if (!(error <= run->worst * limit))
        run->worst = error / limit;
    return error <= limit;
}

static const char *compare_number(BinaryRun *run, const char *line,
                                  int64_t step, int k)
{
    const Reference *r = run->reference;
    const char *name = output_name[k];
    const char *at = strstr(line, arena_printf(run->arena, "\"%s\": ", name));
    double is, want = r->exact.output[step - 1][k];
    if (!at || sscanf(at + strlen(name) + 4, "%lf", &is) != 1)
        return arena_printf(run->arena, "the log has no %s of step %lld", name,
                            (long long)step);
    const Limits *l = limits_of(run);
    double limit = LEAST + l->number * fabs(want) +
                   l->loss * fabs(r->exact.output[step - 1][LOSS]) +
                   l->shaken * fabs(r->shaken.output[step - 1][k] - want);
    if (within(run, fabs(is - want), limit))
        return NULL;
    return arena_printf(run->arena,
                        "step %lld: %s is %.9g, should be %.9g +- %.2g",
                        (long long)step, name, is, want, limit);
}

static const char *compare_log(BinaryRun *run)
{
    size_t size;
    const char *line = file_read(run->arena, run->log, &size);
    const char *fault = line ? NULL : "the binary wrote no log";
    for (int64_t step = 1; step <= run->steps && !fault; step++) {
        fault = compare_number(run, line, step, LOSS);
        if (!fault)
            fault = compare_number(run, line, step, GRAD_NORM);
        line = strchr(line, '\n');
        line = line ? line + 1 : "";
    }
    return fault;
}

static const char *compare_param(BinaryRun *run, int i, const double *is,
                                 const double *start)
{
    const Param *p = &run->global->param.at[i];
    const Reference *r = run->reference;
    const double *want = r->exact.param[i] ? r->exact.param[i] : start;
    const double *shaken = r->shaken.param[i] ? r->shaken.param[i] : start;
    int64_t n = type_elements(&p->type);
    double largest = 0, change = 0, shake = 0;
    for (int64_t k = 0; k < n; k++) {
        largest = fmax(largest, fabs(want[k]));
        change = fmax(change, fabs(want[k] - start[k]));
        if (sign_tolerance(run, i, k) == 0)
            shake = fmax(shake, fabs(want[k] - shaken[k]));
    }
    const Limits *l = limits_of(run);
    double limit = l->weight * largest + l->change * change + l->shaken * shake;
    for (int64_t k = 0; k < n; k++)
        if (!within(run, fabs(is[k] - want[k]),
                    limit + sign_tolerance(run, i, k)))
            return arena_printf(
                run->arena,
                "%s[%lld] is %.9g, should be %.9g +- %.2g (began as %.9g; "
                "largest magnitude %g, largest change %g)",
                p->name, (long long)k, is[k], want[k], limit, start[k], largest,
                change);
    return NULL;
}

static const char *compare_params(BinaryRun *run)
{
    if (is_steep(run, run->steps))
        return NULL;
    RtTensorFile after;
    const char *fault = open_weights(run, run->after, &after);
    for (int i = 0; i < run->global->param.n && !fault; i++) {
        const Param *p = &run->global->param.at[i];
        int64_t n = type_elements(&p->type) + 1;
        double *start = NEW_ARRAY(run->arena, double, n);
        double *is = NEW_ARRAY(run->arena, double, n);
        if (p->state_of >= 0)
            continue;
        if (read_param(&after, p, is) &&
            read_param(&run->reference->before, p, start))
            fault = compare_param(run, i, is, start);
        else if (run->reference->exact.param[i])
            fault = arena_printf(run->arena, "%s is not exported", p->name);
    }
    rt_safetensors_free(&after);
    return fault;
}

static const char *compare(BinaryRun *run)
{
    run->worst = 0;
    const char *fault = compare_log(run);
    return fault ? fault : compare_params(run);
}

/* If an operand of a maximum or a comparison is at the threshold, rounding
 * decides which branch the gradient takes. Runs from perturbed weights, with rounding
 * errors of 16-bit values, may take the binary's branch. */
const char *reference_compare(BinaryRun *run)
{
    int64_t steps = run->steps;
    const char *fault = compare(run);
    for (int attempt = 1; attempt <= ATTEMPTS && fault; attempt++) {
        run->steps = steps;
        if (!interpret(run, attempt) && run->steps == steps && !compare(run))
            fault = NULL;
    }
    run->steps = steps;
    rt_safetensors_free(&run->reference->before);
    return fault;
}
