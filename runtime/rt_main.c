/* rt_main.c: runs a training program from start to end.
 *
 * All checks of options, data, weights and output files run before the ranks
 * start. Then each rank initializes its arena, creates what the step needs,
 * initializes or loads its weights, and executes the steps.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rt_device.h"
#include "rt_forward.h"
#include "rt_run.h"

static void print_plan_of_run(const ParcRt *rt, const RtRun *run)
{
    const ParcModel *m = rt->model;
    const RtOptions *o = &run->options;
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
    printf("weights  ");
    for (int i = 0; i < o->init.n; i++) {
        printf("%s %s", i ? "," : "", o->init.at[i]);
    }
    printf("%s\n", o->init.n == 0 ? " drawn from the seed" : "");
    if (run->data.path) {
        printf("data      %s: %lld tokens, %lld sequences of %lld%s\n",
               run->data.path, (long long)run->data.tokens,
               (long long)run->data.sequences, (long long)m->seq,
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
static void export_weights(ParcRt *rt, const RtRun *run)
{
    if (rt->rank == 0) {
        const char *error = rt_export(rt, &run->export_to, &run->options);
        if (error) {
            rt_output_discard(run->export_to.temporary);
            rt_fail(rt, "cannot write '%s': %s",
                    rt_output_name(run->options.export_to), error);
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
    RtRun *run = context;
    const RtOptions *o = &run->options;
    bool runs = o->dry_run || o->steps > 0;
    if (runs) {
        rt_nan_open(rt);
        rt_device_open(rt);
        rt->model->init(rt); /* may use parts of the arena that are not
                                initialized yet */
        rt_forward_init(rt);
    }
    rt_scale_start(rt);
    rt_params_init(rt, o->seed);
    if (o->init.n > 0) {
        rt_weights_load(rt, &run->weights);
    }
    if (o->dry_run) {
        rt_meet(rt, RT_AT_END);
        if (rt->rank == 0) {
            print_plan_of_run(rt, run);
            finish_output(rt);
        }
        return 0;
    }
    if (rt->model->nshared > 0) {
        rt_meet(rt, RT_AT_START); /* all ranks have initialized shared
                                     parameters */
    }
    rt_train(rt, run);
    bool exports = o->export_to && rt_agree_status(rt->world) == 0;
    if (exports) {
        rt_params_download(rt, false);
    }
    rt_meet(rt, RT_AT_END);
    if (exports) {
        export_weights(rt, run);
        rt_meet(rt, RT_AT_END);
    }
    return 0;
}

/* Checks that rank 0 can write the files that are written at the end. */
static bool prepare_files(RtRun *run)
{
    const RtOptions *o = &run->options;
    RtWorld *w = &run->world;
    if (rt_world_rank(w) != 0) {
        return !o->trace || rt_trace_open(w, o->trace_steps, o->steps);
    }
    if (!rt_files_apart(o, &run->data)) {
        return false;
    }
    if (o->export_to) {
        if (!rt_export_prepare(&run->export_to, o, run->model)) {
            return false;
        }
        w->temporary[0] = run->export_to.temporary;
    }
    if (o->trace) {
        w->temporary[1] = run->trace_temporary =
            rt_output_probe(o->trace, o->program);
    }
    return !o->trace || (run->trace_temporary &&
                         rt_trace_open(w, o->trace_steps, o->steps));
}

static bool open_weights(RtRun *run)
{
    const RtOptions *o = &run->options;
    return o->init.n == 0 ||
           rt_weights_open(&run->weights, &o->init, o->init_partial,
                           run->model, o->program);
}

/* Opens the inputs and outputs of a process; output files come last. */
static bool prepare_run(RtRun *run, int threads)
{
    const ParcModel *m = run->model;
    RtOptions *o = &run->options;
    bool quiet = run->launch.rank != 0;
    bool launched = run->launch.by != NULL;
    bool runs = o->dry_run || o->steps > 0;
    return rt_params_check(m, o->program) &&
           rt_data_open(&run->data, o->data, o->shuffle, o->seed, m, o->program) &&
           open_weights(run) &&
           (launched ||
            rt_world_open(&run->world, m, o->program, threads, NULL, runs)) &&
           prepare_files(run) &&
           (quiet || rt_report_open(&run->report, o, m));
}

/* Under a launcher the ranks connect first. Rank 0 checks the inputs before
 * the others do, so an error is printed once. */
static int prepare_launched(RtRun *run, int threads)
{
    RtWorld *w = &run->world;
    const RtOptions *o = &run->options;
    int32_t good = 1;
    if (!rt_world_open(w, run->model, o->program, threads, &run->launch,
                       o->dry_run || o->steps > 0)) {
        if (w->store) {
            rt_job_fail(w->store, NULL);
        }
        return 1;
    }
    if (run->launch.rank == 0) {
        good = prepare_run(run, threads);
    }
    rt_job_broadcast(w->store, RT_AT_START, &good, sizeof good);
    if (good && run->launch.rank != 0 && !prepare_run(run, threads)) {
        rt_job_fail(w->store, NULL);
    }
    return good ? 0 : 1;
}

/* Checks all inputs in an order that is useful to a user; files are created
 * last. */
static int prepare(RtRun *run)
{
    const ParcModel *m = run->model;
    RtOptions *o = &run->options;
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
    if (!rt_launcher(&run->launch, m, o->program)) {
        return 1;
    }
    if (run->launch.by) {
        return prepare_launched(run, threads);
    }
    return prepare_run(run, threads) ? 0 : 1;
}

static void release(RtRun *run)
{
    rt_data_close(&run->data);
    rt_weights_close(&run->weights);
    rt_trace_close(&run->world);
    rt_world_close(&run->world);
    rt_export_release(&run->export_to);
    free(run->trace_temporary);
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
static int print_shards(RtRun *run)
{
    const ParcModel *m = run->model;
    const RtOptions *o = &run->options;
    if (!rt_params_check(m, o->program) || rt_shards_check(m, o) != 0 ||
        !rt_launcher(&run->launch, m, o->program)) {
        return 1;
    }
    if (run->launch.rank != 0) {
        return 0;
    }
    if (!open_weights(run)) {
        return 1;
    }
    rt_shards_print(m, o, &run->weights);
    return finish_about(o);
}

int parc_main(int argc, char **argv, const ParcModel *model)
{
    RtRun run = {.model = model, .begin = rt_now()};
    rt_streams_prepare();
    rt_signals_open();
    int status = rt_options(&run.options, argc, argv);
    if (status < 0) {
        status = print_about(&run.options, model);
    }
    if (status >= 0) {
        return status;
    }
    rt_device_begin(argv, model, run.options.threads);
    if (model->rt_version != PARC_RT_VERSION) {
        rt_error(run.options.program,
                 "built for version %d of the runtime, this is version %d: "
                 "run parc again",
                 model->rt_version, PARC_RT_VERSION);
        return 1;
    }
    if (!rt_ranks_check(model, run.options.program)) {
        return 1;
    }
    status = run.options.print_shards ? print_shards(&run) : prepare(&run);
    if (status == 0 && !run.options.print_shards) {
        rt_signals_attach(&run.world);
        status = rt_ranks_run(&run.world, rank_main, &run);
        rt_signals_detach();
        status = status ? status : rt_agree_status(&run.world);
    }
    release(&run);
    return status;
}
