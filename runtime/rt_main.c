/* rt_main.c: runs a training program from start to end.
 *
 * All checks of options, data, weights and output files run before the ranks
 * start. Then each rank initializes its arena, creates what the step needs,
 * initializes or loads its weights, and executes the steps.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rt.h"
#include "rt_device.h"
#include "rt_job.h"

typedef struct Job {
    const ParcModel *model;
    RtOptions options;
    RtLaunch launch;
    RtWorld world;
    RtData data;
    RtWeights weights;
    RtLog log;
    char *export_temporary, *trace_temporary; /* names that the two files have
                                                 while they are written */
} Job;

static void set_scalar(ParcRt *rt, int64_t offset, double value)
{
    if (offset >= 0) {
        *rt_floats(rt, offset) = (float)value;
        rt_device_upload(rt, offset, sizeof(float));
    }
}

/* Sets the key of the random numbers of step t (from 1). */
static void set_key(ParcRt *rt, int64_t t, int64_t seed)
{
    int64_t at = rt->model->random_offset, key = rt_step_key(seed, t);
    if (at >= 0) {
        memcpy(rt->arena + at, &key, sizeof key);
        rt_device_upload(rt, at, sizeof key);
    }
}

/* Sets the scalars that the optimizer reads in step t (from 1) of `steps`. */
static void set_scalars(ParcRt *rt, int64_t t, int64_t steps)
{
    const ParcModel *m = rt->model;
    rt->lr = rt_schedule_lr(m, t, steps);
    set_scalar(rt, m->lr_offset, rt->lr);
    double updates = (double)(rt->updates + 1);
    set_scalar(rt, m->bias1_offset, 1 - pow(m->beta1, updates));
    set_scalar(rt, m->bias2_offset, 1 - pow(m->beta2, updates));
    rt->scale.used = rt->scale.scale;
    if (rt->scale.scale > 0) {
        set_scalar(rt, m->loss_scale_offset, rt->scale.scale);
    }
}

/* Requests the results of a step that the model computes. */
static void ask_for_results(ParcRt *rt)
{
    const int64_t at[RT_RESULTS] = {rt->model->loss_offset,
                                    rt->model->grad_norm_offset};
    for (int i = 0; i < RT_RESULTS; i++) {
        if (at[i] >= 0) {
            rt_device_ask(rt, at[i]);
        }
    }
}

static void begin_step(ParcRt *rt, Job *job, int64_t step, RtBatch *batch)
{
    rt_batch(rt, &job->data, &job->options, step - 1, batch);
    set_scalars(rt, step, job->options.steps);
    set_key(rt, step, job->options.seed);
}

static bool is_finite(ParcRt *rt, int64_t offset)
{
    return offset < 0 || isfinite(*rt_floats(rt, offset));
}

/* Checks the loss, which is equal on all ranks. If it is not finite and has no
 * loss scale, the step has updated no parameter on the CPU (parc_goes_on): it
 * is executed a second time with a check of each result. With a loss scale,
 * check_gradients skips the step if the gradients are not finite either. */
static void check_loss(ParcRt *rt, Job *job, int64_t step, RtBatch *batch)
{
    int64_t at = rt->model->loss_offset;
    bool skipped = rt->scale.scale > 0 &&
                   !is_finite(rt, rt->model->grad_norm_offset);
    if (is_finite(rt, at) || skipped) {
        return;
    }
    bool nan = isnan(*rt_floats(rt, at));
    if (rt_device_repeats(rt) && rt->scale.scale == 0 && !rt->nan_check) {
        rt->nan_check = true;
        batch->made = 0;
        begin_step(rt, job, step, batch);
        rt_device_step(rt);
    }
    rt_fail(rt, "step %lld: the loss is %s%s", (long long)step,
            nan ? "not a number" : "infinite",
            rt->nan_check ? "" : "; with PARC_NANCHECK=1 the run names the "
                                 "first tensor that is not finite");
}

/* Called when all ranks have finished the traced steps. */
static void write_trace(ParcRt *rt, const Job *job)
{
    rt_meet(rt, RT_AT_TRACE);
    if (rt->rank == 0) {
        rt_trace_gather(rt);
        const char *error = rt_trace_write(rt->world, job->options.trace,
                                           job->trace_temporary);
        if (error) {
            unlink(job->trace_temporary);
            rt_fail(rt, "cannot write '%s': %s",
                    rt_output_name(job->options.trace), error);
        }
    }
    rt_meet(rt, RT_AT_TRACE); /* until then rank 0 may request marks */
}

/* Checks the norm, which is equal on all ranks; hence all ranks decide
 * alike. */
static void check_gradients(ParcRt *rt, Job *job, int64_t step)
{
    int64_t at = rt->model->grad_norm_offset;
    double norm = at >= 0 ? (double)*rt_floats(rt, at) : 0;
    double scale = rt->scale.scale;
    if (scale > 0 && !rt_scale_step(rt, step, norm)) {
        if (rt->rank == 0) {
            rt_log_skip(&job->log, step, scale, rt->scale.scale);
        }
        return;
    }
    if (!isfinite(norm)) {
        rt_nonfinite(rt, step, norm);
    }
    rt->updates++;
}

/* Without --data the loss does not show whether the model learns. */
static void note_noise(const Job *job)
{
    const RtOptions *o = &job->options;
    if (!o->data && o->steps > 0) {
        rt_note(o->program, "no --data: training on synthetic noise%s",
                rt_takes_tokens(job->model)
                    ? "; --data FILE trains on a file of tokens"
                    : "");
    }
}

static void train(ParcRt *rt, Job *job)
{
    RtBatch batch = {0};
    if (rt->rank == 0) {
        note_noise(job);
        rt_log_start(&job->log, rt);
    }
    rt_scale_start(rt);
    for (int64_t step = 1; step <= job->options.steps; step++) {
        atomic_store(&rt->world->slot[rt->rank].step, step);
        rt_trace_begin(rt, step);
        begin_step(rt, job, step, &batch);
        rt_device_step(rt);
        ask_for_results(rt);
        rt_batch_ahead(rt, &job->data, &job->options, step, &batch);
        rt_device_results(rt);
        rt_trace_end(rt);
        check_loss(rt, job, step, &batch);
        check_gradients(rt, job, step);
        if (rt->rank == 0) {
            rt_log_step(&job->log, rt, step);
        }
        if (job->options.trace && step == rt->world->trace.last) {
            write_trace(rt, job);
        }
    }
    if (rt->rank == 0) {
        rt_log_end(&job->log, rt);
    }
}

static void print_plan_of_run(const ParcRt *rt, const Job *job)
{
    const ParcModel *m = rt->model;
    const RtOptions *o = &job->options;
    char size[32];
    printf("model     %s (%s, parc %s)\nmesh     ", m->name, m->source,
           m->parc_version);
    for (int a = 0; a < m->naxes; a++) {
        printf(" %s=%lld", m->axis[a].name, (long long)m->axis[a].size);
    }
    printf("\nranks     %d, %d thread%s each\nmemory    %lld bytes per rank "
           "(%s)\n",
           rt->nranks, rt->threads, rt->threads == 1 ? "" : "s",
           (long long)rt->peak_bytes,
           rt_size_text((double)rt->peak_bytes, size));
    if (rt->host_bytes > 0) {
        printf("host      %lld bytes per rank (%s), pinned\n",
               (long long)rt->host_bytes,
               rt_size_text((double)rt->host_bytes, size));
    }
    rt_device_print(rt);
    printf("weights   %s\n", o->init ? o->init : "drawn from the seed");
    if (job->data.path) {
        printf("data      %s: %lld tokens, %lld sequences of %lld%s\n",
               job->data.path, (long long)job->data.tokens,
               (long long)job->data.sequences, (long long)m->seq,
               o->shuffle ? ", shuffled" : "");
    } else {
        printf("data      synthetic\n");
    }
    printf("seed      %lld\nsteps     %lld of %lld sequences, %s\n",
           (long long)o->seed, (long long)o->steps, (long long)m->batch,
           m->optimizer);
    if (o->export_to) {
        printf("export    %s\n", rt_output_name(o->export_to));
    }
    if (o->trace) {
        printf("trace     steps %lld to %lld, to %s\n",
               (long long)rt->world->trace.first,
               (long long)rt->world->trace.last, rt_output_name(o->trace));
    }
}

/* One rank writes the file while the others wait. */
static void export_weights(ParcRt *rt, const Job *job)
{
    if (rt->rank == 0) {
        const char *error =
            rt_export(rt, job->options.export_to, job->export_temporary);
        if (error) {
            unlink(job->export_temporary);
            rt_fail(rt, "cannot write '%s': %s",
                    rt_output_name(job->options.export_to), error);
        }
    }
}

static void finish_output(ParcRt *rt)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        rt_fail(rt, "cannot write standard output: %s", strerror(errno));
    }
}

static int rank_main(ParcRt *rt, void *context)
{
    Job *job = context;
    const RtOptions *o = &job->options;
    bool runs = o->dry_run || o->steps > 0;
    if (runs) {
        rt_nan_open(rt);
        rt_device_open(rt);
        rt->model->init(rt); /* may use parts of the arena that are not
                                initialized yet */
    }
    rt_params_init(rt, o->seed);
    if (o->init) {
        rt_weights_load(rt, &job->weights);
    }
    if (o->dry_run) {
        rt_meet(rt, RT_AT_END);
        if (rt->rank == 0) {
            print_plan_of_run(rt, job);
            finish_output(rt);
        }
        return 0;
    }
    if (rt->model->nshared > 0) {
        rt_meet(rt, RT_AT_START); /* all ranks have initialized shared
                                     parameters */
    }
    train(rt, job);
    if (o->export_to) {
        rt_params_download(rt, false);
    }
    rt_meet(rt, RT_AT_END);
    if (o->export_to) {
        export_weights(rt, job);
        rt_meet(rt, RT_AT_END);
    }
    return 0;
}

/* Checks that rank 0 can write the files that are written at the end. */
static bool prepare_files(Job *job)
{
    const RtOptions *o = &job->options;
    RtWorld *w = &job->world;
    if (rt_world_rank(w) != 0) {
        return !o->trace || rt_trace_open(w, o->trace_steps, o->steps);
    }
    if (!rt_files_apart(o, &job->data)) {
        return false;
    }
    if (o->export_to) {
        w->temporary[0] = job->export_temporary =
            rt_output_probe(o->export_to, o->program);
    }
    if (o->trace) {
        w->temporary[1] = job->trace_temporary =
            rt_output_probe(o->trace, o->program);
    }
    return (!o->export_to || job->export_temporary) &&
           (!o->trace || (job->trace_temporary &&
                          rt_trace_open(w, o->trace_steps, o->steps)));
}

/* Opens the inputs and outputs of a process; output files come last. */
static bool prepare_run(Job *job, int threads)
{
    const ParcModel *m = job->model;
    RtOptions *o = &job->options;
    bool quiet = job->launch.rank != 0;
    bool launched = job->launch.by != NULL;
    bool runs = o->dry_run || o->steps > 0;
    job->log.file = -1;
    return rt_params_check(m, o->program) &&
           rt_data_open(&job->data, o->data, m, o->program) &&
           (!o->init ||
            rt_weights_open(&job->weights, o->init, m, o->program)) &&
           (launched ||
            rt_world_open(&job->world, m, o->program, threads, NULL, runs)) &&
           prepare_files(job) &&
           (quiet || rt_log_open(&job->log, o, m));
}

/* Under a launcher the ranks connect first. Rank 0 checks the inputs before
 * the others do, so an error is printed once. */
static int prepare_launched(Job *job, int threads)
{
    RtWorld *w = &job->world;
    const RtOptions *o = &job->options;
    int32_t good = 1;
    if (!rt_world_open(w, job->model, o->program, threads, &job->launch,
                       o->dry_run || o->steps > 0)) {
        if (w->store) {
            rt_job_fail(w->store, NULL);
        }
        return 1;
    }
    if (job->launch.rank == 0) {
        good = prepare_run(job, threads);
    }
    rt_job_broadcast(w->store, &good, sizeof good);
    if (good && job->launch.rank != 0 && !prepare_run(job, threads)) {
        rt_job_fail(w->store, NULL);
    }
    return good ? 0 : 1;
}

/* Checks all inputs in an order that is useful to a user; files are created
 * last. */
static int prepare(Job *job)
{
    const ParcModel *m = job->model;
    RtOptions *o = &job->options;
    if (o->threads > m->threads) {
        rt_error(o->program,
                 "--threads %lld: the program's memory was planned for %d "
                 "thread%s per rank; compile it again with parc --threads %lld",
                 (long long)o->threads, m->threads, m->threads == 1 ? "" : "s",
                 (long long)o->threads);
        return 2;
    }
    int threads = (int)(o->threads > 0 ? o->threads : m->threads);
    if (o->trace && o->steps == 0) {
        rt_error(o->program, "--trace: there is no step to trace; give "
                             "--steps 1 or more");
        return 2;
    }
    if (!rt_launcher(&job->launch, m, o->program)) {
        return 1;
    }
    if (job->launch.by) {
        return prepare_launched(job, threads);
    }
    return prepare_run(job, threads) ? 0 : 1;
}

static void release(Job *job)
{
    rt_data_close(&job->data);
    rt_weights_close(&job->weights);
    rt_trace_close(&job->world);
    rt_world_close(&job->world);
    free(job->export_temporary);
    free(job->trace_temporary);
}

static int finish_about(const RtOptions *o)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        rt_error(o->program, "cannot write standard output: %s",
                 strerror(errno));
        return 1;
    }
    return 0;
}

/* Prints --help, --version or --info; -1 if none of them is set. */
static int print_about(const RtOptions *o, const ParcModel *model)
{
    if (o->help) {
        rt_usage(o, model);
    } else if (o->version) {
        printf("%s, built from %s by parc %s\n", model->name, model->source,
               model->parc_version);
    } else if (o->info) {
        fputs(model->info, stdout);
    } else {
        return -1;
    }
    return finish_about(o);
}

/* --print-shards starts no ranks. Under a launcher rank 0 prints, and the
 * other processes exit. */
static int print_shards(Job *job)
{
    const ParcModel *m = job->model;
    const RtOptions *o = &job->options;
    if (!rt_params_check(m, o->program) || rt_shards_check(m, o) != 0 ||
        !rt_launcher(&job->launch, m, o->program)) {
        return 1;
    }
    if (job->launch.rank != 0) {
        return 0;
    }
    if (o->init &&
        !rt_weights_open(&job->weights, o->init, m, o->program)) {
        return 1;
    }
    rt_shards_print(m, o, &job->weights);
    return finish_about(o);
}

int parc_main(int argc, char **argv, const ParcModel *model)
{
    Job job = {.model = model};
    rt_streams_prepare();
    int status = rt_options(&job.options, argc, argv);
    if (status < 0) {
        status = print_about(&job.options, model);
    }
    if (status >= 0) {
        return status;
    }
    rt_device_begin(argv, model, job.options.threads);
    if (model->rt_version != PARC_RT_VERSION) {
        rt_error(job.options.program,
                 "built for version %d of the runtime, this is version %d: "
                 "run parc again",
                 model->rt_version, PARC_RT_VERSION);
        return 1;
    }
    if (!rt_ranks_check(model, job.options.program)) {
        return 1;
    }
    status = job.options.print_shards ? print_shards(&job) : prepare(&job);
    if (status == 0 && !job.options.print_shards) {
        status = rt_ranks_run(&job.world, rank_main, &job);
    }
    release(&job);
    return status;
}
