/* evaluate.c: computes the loss on validation data (--val), between
 * training steps or as the only task of a run (--eval).
 *
 * The side program of evaluation (ParcModel.eval) has no dropout, no
 * gradients and no optimizer, and reads the parameters where the training step
 * stores them. Its batches are the first batches of the validation data, in the
 * order of the file:
 *
 *   val.bin with 83 sequences, batch 8  ->  10 batches; 3 sequences are dropped
 *   val_loss = (loss_1 + … + loss_10) / 10, in double
 *
 * Requires that all ranks call it after the same step. Ensures that training
 * continues as if there had been no evaluation: batches, random numbers and
 * optimizer states of the training steps do not depend on it.
 *
 * It also executes side programs for all callers. A barrier before and after
 * each session separates it from the training steps: ranks read each other's
 * buffers in place, and the programs use the same memory for different tensors.
 * Between the runs of one session the program's own barriers suffice, as they
 * do between training steps.
 */
#include "eval/eval.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/message.h"
#include "device.h"
#include "launch/world.h"
#include "options/options.h"
#include "params/random.h"
#include "rt.h"

void rt_set_key(ParcRt *rt, int64_t offset, int64_t seed, int64_t step)
{
    int64_t key = rt_step_key(seed, step);
    if (offset < 0)
        return;
    memcpy(rt->arena + offset, &key, sizeof key);
    rt_device_upload(rt, offset, sizeof key);
}

void rt_program_init(ParcRt *rt)
{
    const ParcProgram *const program[] = {rt->model->eval, rt->model->outputs,
                                          rt->model->rounds};
    rt->rounds = 1;
    for (int i = 0; i < 3; i++)
        if (program[i] && program[i]->init)
            program[i]->init(rt);
}

void rt_program_begin(ParcRt *rt, const ParcProgram *e)
{
    rt_synchronize(rt, RT_AT_PROGRAM);
    if (e != rt->model->rounds) /* training steps that overflow often follow one another */
        rt->rounds = 1;
    if (e->begin)
        e->begin(rt);
}

int64_t parc_rounds(const ParcRt *rt, int64_t most)
{
    return rt->rounds < most ? rt->rounds : most;
}

/* Whether all rows of experts had a place in the rounds of the run; if not, the next run has
 * twice as many. */
static bool rounds_suffice(ParcRt *rt, const ParcProgram *e)
{
    if (e->at.overflow < 0)
        return true;
    rt_device_ask(rt, e->at.overflow);
    rt_device_results(rt);
    bool suffice = !(*rt_floats(rt, e->at.overflow) > 0);
    rt->rounds *= suffice ? 1 : 2;
    return suffice;
}

void rt_ask_results(ParcRt *rt, const ParcScalars *at)
{
    const int64_t result[RT_RESULTS] = {at->loss, at->grad_norm, at->overflow, at->dropped,
                                        at->dropped_256};
    for (int i = 0; i < RT_RESULTS; i++)
        if (result[i] >= 0)
            rt_device_ask(rt, result[i]);
}

double rt_result(ParcRt *rt, int64_t offset)
{
    return offset >= 0 ? (double)*rt_floats(rt, offset) : 0;
}

int64_t rt_dropped(ParcRt *rt, const ParcScalars *at)
{
    return (int64_t)(rt_result(rt, at->dropped) + 256 * rt_result(rt, at->dropped_256));
}

bool rt_program_run(ParcRt *rt, const ParcProgram *e)
{
    RtRing *ring = rt->ring; /* a trace shows training steps only */
    rt->ring = NULL;
    rt_device_run(rt, e);
    rt->ring = ring;
    return rounds_suffice(rt, e);
}

void rt_program_batch(ParcRt *rt, const ParcProgram *e, const RtData *d,
                      int64_t number)
{
    do {
        RtBatch b = {0};
        if (!rt_batch_inputs(rt, d, e->input, e->ninputs, number, &b))
            rt_fail_at(rt, "%s", b.why);
    } while (!rt_program_run(rt, e));
}

void rt_program_end(ParcRt *rt)
{
    rt_synchronize(rt, RT_AT_PROGRAM);
}

static int64_t batches(const RtRun *run)
{
    const RtOptions *o = &run->options;
    int64_t all = rt_data_batches(&run->val, run->model);
    return o->val_steps > 0 && (all == 0 || o->val_steps < all) ? o->val_steps
                                                                : all;
}

bool rt_evaluate_open(RtRun *run)
{
    const RtOptions *o = &run->options;
    if (!o->val)
        return true;
    if (!run->model->eval)
        return rt_error("--val: the program cannot evaluate; compile it again "
                        "without --no-eval");
    if (!rt_data_open(&run->val, o->val, false, o->seed, run->model))
        return false;
    if (batches(run) > 0)
        return true;
    if (run->val.nshares == 0)
        return rt_error("--val synthetic has no end; --val-steps N evaluates N "
                        "batches");
    return rt_fault(run->val.path, run->val.size, "the file ends before the "
                    "first batch of %lld %s is complete: it has %lld",
                    (long long)run->model->batch,
                    run->model->seq > 1 ? "sequences" : "samples",
                    (long long)run->val.samples);
}

bool rt_evaluate_is_due(const RtRun *run, int64_t step)
{
    const RtOptions *o = &run->options;
    return o->val && (step == o->steps ||
                      (o->val_every > 0 && step % o->val_every == 0) ||
                      (o->val_every == RT_EPOCH && rt_ends_epoch(run, step)));
}

static void add_batch(ParcRt *rt, const RtRun *run, int64_t number, RtEvaluation *sum)
{
    const ParcProgram *e = rt->model->eval;
    rt_program_batch(rt, e, &run->val, number);
    rt_ask_results(rt, &e->at);
    rt_device_results(rt);
    sum->loss += rt_result(rt, e->at.loss);
    sum->dropped += rt_dropped(rt, &e->at);
}

RtEvaluation rt_evaluate(ParcRt *rt, RtRun *run)
{
    const ParcProgram *e = rt->model->eval;
    int64_t n = batches(run), done = 0;
    RtEvaluation sum = {0};
    bool stopped = false;
    rt_program_begin(rt, e);
    rt_set_key(rt, e->at.random, run->options.seed, RT_PROGRAM_KEY);
    while (done < n && !stopped) {
        add_batch(rt, run, done++, &sum);
        stopped = rt_agree(rt, run) & RT_STOP;
    }
    rt_program_end(rt);
    sum.loss = done == n ? sum.loss / (double)n : NAN;
    return sum;
}

void rt_evaluate_only(ParcRt *rt, RtRun *run)
{
    double begin = rt_now();
    RtEvaluation e = rt_evaluate(rt, run);
    int64_t n = batches(run), tokens = n * run->report.tokens_a_step;
    char text[32] = "null"; /* JSON has no NaN */
    if (rt->rank != 0)
        return;
    if (isfinite(e.loss))
        snprintf(text, sizeof text, "%.9g", e.loss);
    rt_say("val_loss %.4f: %lld batch%s, %lld %s, %.2f s", e.loss,
           (long long)n, n == 1 ? "" : "es", (long long)tokens,
           run->report.noun, rt_now() - begin);
    rt_say_dropped(e.dropped, n, "batch");
    printf("{\"step\": %lld, \"val_loss\": %s, \"batches\": %lld, "
           "\"tokens\": %lld",
           (long long)run->done, text, (long long)n, (long long)tokens);
    if (e.dropped > 0)
        printf(", \"val_dropped\": %lld", (long long)e.dropped);
    printf("}\n");
}
