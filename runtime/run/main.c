/* main.c: runs a training program from start to end.
 *
 * All checks of options, data, weights and output files run before the ranks
 * start. Then each rank initializes its arena, creates what the step needs,
 * initializes or loads its weights, and executes the steps.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/message.h"
#include "device.h"
#include "eval/eval.h"
#include "launch/job.h"
#include "launch/world.h"
#include "options/options.h"
#include "options/settings.h"
#include "params/params.h"
#include "rt.h"
#include "run.h"
#include "trace/trace.h"

/* Of a pipeline, the ranks of each stage need another number of bytes. */
static void print_memory(const ParcRt *rt)
{
    const ParcModel *m = rt->model;
    char size[RT_SIZE_TEXT];
    printf("memory    %lld bytes per rank (%s)\n", (long long)rt->peak_bytes,
           rt_size_text((double)rt->peak_bytes, size));
    for (int64_t i = 0; m->ranges && i < rt_group_size(m, m->pipeline); i++) {
        int rank = 0;
        while (rt_index(m, rank, m->pipeline) != i)
            rank++;
        int64_t bytes = rt_arena_counted(m, rank);
        printf("          %lld bytes at %s=%lld\n", (long long)bytes,
               m->axis[__builtin_ctz(m->pipeline)].name, (long long)i);
    }
    if (rt->host_bytes > 0)
        printf("host      %lld bytes per rank (%s), pinned\n",
               (long long)rt->host_bytes,
               rt_size_text((double)rt->host_bytes, size));
}

static void print_plan_of_run(const ParcRt *rt, const RtRun *run)
{
    const ParcModel *m = rt->model;
    const RtOptions *o = &run->options;
    char size[RT_SIZE_TEXT];
    printf("model     %s (%s, parc %s)\nmesh     ", m->name, m->source,
           m->parc_version);
    for (int a = 0; a < m->naxes; a++)
        printf(" %s=%lld", m->axis[a].name, (long long)m->axis[a].size);
    printf("\nranks     %d, %d thread%s each\n", rt->nranks, rt->threads,
           rt->threads == 1 ? "" : "s");
    print_memory(rt);
    rt_device_print(rt);
    printf("weights  ");
    for (int i = 0; i < o->init.n; i++)
        printf("%s %s", i ? "," : "", o->init.at[i]);
    printf("%s\n", run->resume.path  ? " of the checkpoint"
                   : o->init.n == 0 ? " drawn from the seed"
                                    : "");
    if (run->resume.path)
        printf("resume    %s, after step %lld, read in %.3f s\n",
               run->resume.path, (long long)run->start, run->resume_seconds);
    rt_data_describe(&run->data, m);
    printf("seed      %lld\nsteps     %lld of %lld %s, %s\n",
           (long long)o->seed, (long long)o->steps, (long long)m->batch,
           m->seq > 1 ? "sequences" : "samples", m->optimizer);
    if (run->settings.changed) {
        printf("set      ");
        rt_settings_print(&run->settings, stdout);
        printf("\n");
    }
    if (o->export_to)
        printf("export    %s\n", rt_output_name(o->export_to));
    if (o->save)
        printf("save      %s\n", o->save);
    if (o->save_async) {
        int64_t bytes = rt_staging_most(m);
        printf("staging   %lld bytes per rank (%s) of host memory\n",
               (long long)bytes, rt_size_text((double)bytes, size));
    }
    if (o->trace)
        printf("trace     steps %lld to %lld, to %s\n",
               (long long)rt->world->trace.first,
               (long long)rt->world->trace.last, rt_output_name(o->trace));
}

/* One rank writes the file while the others wait. */
static void export_weights(ParcRt *rt, const RtRun *run)
{
    if (rt->rank == 0) {
        const char *error = rt_export(rt, &run->export_to, &run->options);
        if (error)
            rt_fail_write(rt, run->options.export_to, error);
    }
}

static void finish_output(ParcRt *rt)
{
    if (fflush(stdout) != 0 || ferror(stdout))
        rt_fail(rt, "cannot write standard output: %s", strerror(errno));
}

/* Whether the ranks execute programs; otherwise they only move weights. */
static bool computes(const RtRun *run)
{
    const RtOptions *o = &run->options;
    return o->dry_run || o->steps > 0 || o->eval || o->predict || run->prompt;
}

/* A missing --resume would otherwise look like a badly trained model. */
static void note_untrained(const RtRun *run)
{
    const RtOptions *o = &run->options;
    if ((o->eval || o->predict || run->prompt) && run->done == 0 &&
        o->init.n == 0)
        rt_note("the weights are initial values: the model is not trained; "
                "--resume or --init reads trained ones");
}

/* What follows the training steps, unless a signal has stopped them. */
static void read_model(ParcRt *rt, RtRun *run)
{
    if (rt_agree_status(rt->world) != 0)
        return;
    if (rt->rank == 0)
        note_untrained(run);
    if (run->options.eval)
        rt_evaluate_only(rt, run);
    if (run->prompt)
        rt_sample(rt, run);
    if (run->options.predict)
        rt_predict(rt, run);
    if (rt->rank == 0)
        finish_output(rt);
}

static int rank_main(ParcRt *rt, void *context)
{
    RtRun *run = context;
    const RtOptions *o = &run->options;
    if (computes(run)) {
        rt_nan_open(rt);
        rt_device_open(rt);
        rt->model->init(rt); /* may use parts of the arena that are not
                                initialized yet */
        rt_program_init(rt);
    }
    rt_scale_start(rt);
    if (run->resume.path) {
        double begin = rt_now();
        rt_checkpoints_restore(rt, run);
        run->resume_seconds = rt_now() - begin;
    } else {
        rt_params_init(rt, o->seed);
    }
    if (o->init.n > 0)
        rt_weights_load(rt, &run->weights);
    if (o->dry_run) {
        rt_synchronize(rt, RT_AT_END);
        if (rt->rank == 0) {
            print_plan_of_run(rt, run);
            finish_output(rt);
        }
        return 0;
    }
    if (rt->model->nshared > 0)
        rt_synchronize(rt, RT_AT_START); /* all ranks have initialized shared
                                     parameters */
    rt_train(rt, run);
    read_model(rt, run);
    bool whole = run->done == o->steps || rt_agree_status(rt->world) == 0;
    bool exports = o->export_to && whole;
    if (exports)
        rt_params_download(rt, false);
    rt_synchronize(rt, RT_AT_END);
    if (exports) {
        export_weights(rt, run);
        rt_synchronize(rt, RT_AT_END);
    }
    return rt_checkpoints_unsaved(run) ? 1 : 0;
}

typedef struct Named {
    const char *option, *path;
} Named;

/* Whether an output and another file differ; `is_input`: it is read. */
static bool are_distinct(Named output, Named other, bool is_input)
{
    if (!output.path || !other.path ||
        !rt_is_same_file(output.path, other.path))
        return true;
    return rt_error(is_input ? "%s would overwrite what %s reads, '%s'"
                             : "%s and %s would both write '%s'",
                    output.option, other.option, rt_output_name(other.path));
}

/* Checks that the run does not write a file that it also reads or writes for
 * another option. --export may replace a file of the weights, after they are
 * read. */
static bool check_files(const RtRun *run)
{
    const RtOptions *o = &run->options;
    const Named output[] = {{"--log", o->log},
                            {"--trace", o->trace},
                            {"--predict", o->predict},
                            {"--export", o->export_to}};
    enum { OUTPUTS = sizeof output / sizeof output[0], EXPORT = OUTPUTS - 1 };
    const char *path;
    for (int i = 0; i < OUTPUTS; i++) {
        for (int j = i + 1; j < OUTPUTS; j++)
            if (!are_distinct(output[i], output[j], false))
                return false;
        const RtData *data = o->predict ? &run->inputs : &run->data;
        for (int f = 0; (path = rt_data_file(data, f)); f++)
            if (!are_distinct(output[i], (Named){"--data", path}, true))
                return false;
        for (int f = 0; (path = rt_weights_file(&run->weights, f)); f++)
            if (i != EXPORT &&
                !are_distinct(output[i], (Named){"--init", path}, true))
                return false;
    }
    return true;
}

/* Checks that rank 0 can write the files that are written at the end. */
static bool prepare_files(RtRun *run)
{
    const RtOptions *o = &run->options;
    RtWorld *w = &run->world;
    bool first = w->rank == 0;
    if (first && !check_files(run))
        return false;
    if (first && o->export_to) {
        if (!rt_export_prepare(&run->export_to, o, run->model))
            return false;
        w->temporary[RT_EXPORT_FILE] = run->export_to.temporary;
    }
    const char *const path[] = {[RT_TRACE_FILE] = o->trace,
                                [RT_PREDICT_FILE] = o->predict};
    for (int i = RT_TRACE_FILE; first && i <= RT_PREDICT_FILE; i++)
        if (path[i] && !(w->temporary[i] = rt_output_probe(path[i])))
            return false;
    return !o->trace || rt_trace_open(w, o->trace_steps, run->start, o->steps);
}

static bool open_weights(RtRun *run)
{
    const RtOptions *o = &run->options;
    return o->init.n == 0 ||
           rt_weights_open(&run->weights, o, run->launch.rank != 0,
                           run->model);
}

static int64_t staging_bytes(const RtRun *run)
{
    return run->options.save_async ? rt_staging_most(run->model) : 0;
}

/* Settings of the program, of the run that is resumed, and of --set. */
static bool open_settings(RtRun *run)
{
    const RtOptions *o = &run->options;
    rt_settings_init(&run->settings, run->model);
    rt_settings_adopt(&run->settings, &run->resume.state.settings, run->model);
    return rt_settings_set(&run->settings, &o->settings, run->model);
}

/* Opens the inputs and outputs of a process; output files come last. */
static bool prepare_run(RtRun *run, int threads)
{
    const ParcModel *m = run->model;
    RtOptions *o = &run->options;
    bool quiet = run->launch.rank != 0;
    bool launched = run->launch.by != NULL;
    return rt_params_check(m) && rt_checkpoints_open(run) &&
           open_settings(run) &&
           rt_data_open(&run->data, o->predict ? NULL : o->data, o->shuffle,
                        o->seed, m) &&
           rt_steps_open(run) && rt_evaluate_open(run) &&
           rt_predict_open(run) && rt_sample_open(run) && open_weights(run) &&
           (launched || rt_world_open(&run->world, m, threads, NULL,
                                      computes(run), staging_bytes(run))) &&
           prepare_files(run) &&
           (quiet || rt_report_open(&run->report, o, m, run->start,
                                    run->resume.state.tokens));
}

/* Under a launcher the ranks connect first. Rank 0 checks the inputs before
 * the others do, so an error is printed once, and selects the checkpoint. */
static int prepare_launched(RtRun *run, int threads)
{
    RtWorld *w = &run->world;
    const RtOptions *o = &run->options;
    struct {
        int64_t good, step;
    } first = {.good = 1};
    /* The prompt is not read yet. */
    if (!rt_world_open(w, run->model, threads, &run->launch,
                       computes(run) || o->sample || o->sample_ids,
                       staging_bytes(run))) {
        if (w->store)
            rt_job_fail(w->store, NULL);
        return 1;
    }
    if (run->launch.rank == 0) {
        first.good = prepare_run(run, threads);
        first.step = run->resume.path ? run->resume.state.step
                                      : RT_NO_CHECKPOINT;
    }
    rt_job_broadcast(w->store, RT_AT_START, &first, sizeof first);
    if (first.good && run->launch.rank != 0) {
        run->resume_step = first.step;
        if (!prepare_run(run, threads))
            rt_job_fail(w->store, NULL);
    }
    return first.good ? 0 : 1;
}

/* Checks all inputs in an order that is useful to a user; files are created
 * last. */
static int prepare(RtRun *run)
{
    const ParcModel *m = run->model;
    RtOptions *o = &run->options;
    if (o->threads > m->threads) {
        rt_error("--threads %lld: the program's memory was planned for %d "
                 "thread%s per rank; compile it again with parc --threads %lld",
                 (long long)o->threads, m->threads, m->threads == 1 ? "" : "s",
                 (long long)o->threads);
        return 2;
    }
    int threads = (int)(o->threads > 0 ? o->threads : m->threads);
    if (o->trace && o->steps == 0) {
        rt_error("--trace: there is no step to trace; give --steps 1 or more");
        return 2;
    }
    if (!rt_launcher(&run->launch, m))
        return 1;
    if (run->launch.by)
        return prepare_launched(run, threads);
    return prepare_run(run, threads) ? 0 : 1;
}

static void release(RtRun *run)
{
    rt_data_close(&run->data);
    rt_resume_close(&run->resume);
    free(run->report.events.path);
    rt_data_close(&run->val);
    rt_data_close(&run->inputs);
    free(run->prompt);
    rt_weights_close(&run->weights);
    rt_world_close(&run->world);
    rt_export_release(&run->export_to);
    free(run->world.temporary[RT_TRACE_FILE]);
    free(run->world.temporary[RT_PREDICT_FILE]);
}

static int finish_about(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    rt_error("cannot write standard output: %s", strerror(errno));
    return 1;
}

/* Prints --help, --version or --info; -1 if none of them is set. */
static int print_about(const RtOptions *o, const ParcModel *model)
{
    if (o->help)
        rt_usage(o, model);
    else if (o->version)
        printf("%s, built from %s by parc %s\n", model->name, model->source,
               model->parc_version);
    else if (o->info)
        fputs(model->info, stdout);
    else
        return -1;
    return finish_about();
}

/* --print-shards starts no ranks. Under a launcher rank 0 prints, and the
 * other processes exit. */
static int print_shards(RtRun *run)
{
    const ParcModel *m = run->model;
    const RtOptions *o = &run->options;
    if (o->resume) {
        rt_error("--print-shards does not read a checkpoint: --steps 0 "
                 "--resume %s --export FILE writes its weights, which --init "
                 "FILE reads", o->resume);
        return 2;
    }
    if (!rt_params_check(m) ||
        !rt_pattern_check(m, "--print-shards", o->print_shards) ||
        !rt_launcher(&run->launch, m))
        return 1;
    if (run->launch.rank != 0)
        return 0;
    if (!open_weights(run))
        return 1;
    rt_shards_print(m, o, &run->weights);
    return finish_about();
}

int parc_main(int argc, char **argv, const ParcModel *model)
{
    RtRun run = {.model = model, .begin = rt_now(),
                 .saver = {.lock = -1}, .resume_step = -1};
    rt_streams_prepare();
    rt_signals_open();
    int status = rt_options(&run.options, argc, argv);
    if (status < 0)
        status = print_about(&run.options, model);
    if (status >= 0)
        return status;
    rt_device_begin(argv, model, run.options.threads);
    if (model->rt_version != PARC_RT_VERSION) {
        rt_error("built for version %d of the runtime, this is version %d: run "
                 "parc again", model->rt_version, PARC_RT_VERSION);
        return 1;
    }
    if (!rt_ranks_check(model))
        return 1;
    status = run.options.print_shards ? print_shards(&run) : prepare(&run);
    if (status == 0 && !run.options.print_shards) {
        rt_signals_attach(&run.world);
        status = rt_ranks_run(&run.world, rank_main, &run);
        rt_signals_attach(NULL);
        status = status ? status : rt_agree_status(&run.world);
    }
    release(&run);
    return status;
}
