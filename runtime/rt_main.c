/* rt_main.c: a training program from start to end.
 *
 * Everything that can be refused is refused before the ranks start: options,
 * data, weights, places to write to. Then each rank takes its arena, makes
 * what the step needs, draws or loads its weights, and runs the steps.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rt.h"

typedef struct Job {
    const ParcModel *model;
    RtOptions options;
    RtWorld world;
    RtData data;
    RtWeights weights;
    RtLog log;
    char *temporary; /* beside --export's file */
} Job;

static void set_scalar(ParcRt *rt, int64_t offset, double value)
{
    if (offset >= 0) {
        *rt_floats(rt, offset) = (float)value;
    }
}

/* What the optimizer needs to know of step t (from 1). */
static void set_scalars(ParcRt *rt, int64_t t)
{
    const ParcModel *m = rt->model;
    set_scalar(rt, m->lr_offset, m->lr);
    set_scalar(rt, m->bias1_offset, 1 - pow(m->beta1, (double)t));
    set_scalar(rt, m->bias2_offset, 1 - pow(m->beta2, (double)t));
}

static void check_loss(ParcRt *rt, int64_t step)
{
    int64_t at = rt->model->loss_offset;
    if (at >= 0 && !isfinite(*rt_floats(rt, at))) {
        rt_fail(rt, "step %lld: the loss is %s", (long long)step,
                isnan(*rt_floats(rt, at)) ? "not a number" : "infinite");
    }
}

static void train(ParcRt *rt, Job *job)
{
    if (rt->rank == 0) {
        rt_log_start(&job->log);
    }
    for (int64_t step = 1; step <= job->options.steps; step++) {
        atomic_store(&rt->world->slot[rt->rank].step, step);
        rt_batch(rt, &job->data, &job->options, step - 1);
        set_scalars(rt, step);
        rt->model->step(rt);
        check_loss(rt, step);
        if (rt->rank == 0) {
            rt_log_step(&job->log, rt, step);
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
    printf("\nranks     %d, %d thread%s each\nmemory    %lld bytes a rank "
           "(%s)\n",
           rt->nranks, rt->threads, rt->threads == 1 ? "" : "s",
           (long long)rt->peak_bytes,
           rt_size_text((double)rt->peak_bytes, size));
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
        printf("export    %s\n", o->export_to);
    }
}

/* The rank that writes files does so while the others wait. */
static void export_weights(ParcRt *rt, const Job *job)
{
    if (rt->rank == 0) {
        const char *error =
            rt_export(rt, job->options.export_to, job->temporary);
        if (error) {
            unlink(job->temporary);
            rt_fail(rt, "cannot write '%s': %s", job->options.export_to, error);
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
    rt_params_init(rt, o->seed);
    if (o->init) {
        rt_weights_load(rt, &job->weights);
    }
    if (o->print_shards) {
        rt_meet(rt, RT_AT_SHARDS);
        if (rt->rank == 0) {
            rt_shards_print(rt, o->print_shards);
            finish_output(rt);
        }
        rt_meet(rt, RT_AT_END);
        return 0;
    }
    if (o->dry_run || o->steps > 0) {
        rt->model->init(rt);
    }
    if (o->dry_run) {
        rt_meet(rt, RT_AT_END);
        if (rt->rank == 0) {
            print_plan_of_run(rt, job);
            finish_output(rt);
        }
        return 0;
    }
    train(rt, job);
    rt_meet(rt, RT_AT_END);
    if (o->export_to) {
        export_weights(rt, job);
        rt_meet(rt, RT_AT_END);
    }
    return 0;
}

/* Everything that may be refused, in the order in which a user would want to
 * hear of it; files are touched last. */
static int prepare(Job *job)
{
    const ParcModel *m = job->model;
    RtOptions *o = &job->options;
    if (o->threads > m->threads) {
        rt_error(o->program,
                 "--threads %lld: the program's memory was planned for %d "
                 "thread%s a rank; build it again with parc --threads %lld",
                 (long long)o->threads, m->threads, m->threads == 1 ? "" : "s",
                 (long long)o->threads);
        return 2;
    }
    int threads = (int)(o->threads > 0 ? o->threads : m->threads);
    int status = o->print_shards ? rt_shards_check(m, o) : 0;
    if (status != 0) {
        return status;
    }
    if (!rt_params_check(m, o->program) ||
        !rt_data_open(&job->data, o->data, m, o->program) ||
        (o->init && !rt_weights_open(&job->weights, o->init, m, o->program)) ||
        !rt_world_open(&job->world, m, o->program, threads)) {
        return 1;
    }
    if (o->export_to) {
        job->temporary = rt_export_probe(o->export_to, o->program);
        job->world.temporary = job->temporary;
        if (!job->temporary) {
            return 1;
        }
    }
    bool quiet = o->print_shards != NULL;
    job->log.file = -1;
    return quiet || rt_log_open(&job->log, o, m, job->world.nranks, threads)
               ? 0
               : 1;
}

static void release(Job *job)
{
    rt_data_close(&job->data);
    rt_weights_close(&job->weights);
    if (job->world.map) {
        rt_world_close(&job->world);
    }
    free(job->temporary);
}

/* --help, --version, --info: -1 where none of them was asked for. */
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
    if (fflush(stdout) != 0 || ferror(stdout)) {
        rt_error(o->program, "cannot write standard output: %s",
                 strerror(errno));
        return 1;
    }
    return 0;
}

/* GNU's OpenMP lets idle threads spin, so that on a machine with other work
 * each parallel loop waits for a thread that has lost its core: ten times the
 * step. Sleeping costs a few microseconds a loop. The library reads the wish
 * from the environment when it is loaded, which is before main: hence again,
 * from the top. A policy that the user has set stands. */
static void wait_passively(char **argv, const ParcModel *model)
{
    if (model->threads > 1 && !getenv("OMP_WAIT_POLICY") &&
        !getenv("GOMP_SPINCOUNT") &&
        setenv("OMP_WAIT_POLICY", "passive", 1) == 0) {
        fflush(NULL);
        execv("/proc/self/exe", argv); /* where it fails, spin */
    }
}

int parc_main(int argc, char **argv, const ParcModel *model)
{
    Job job = {.model = model};
    int status = rt_options(&job.options, argc, argv);
    if (status < 0) {
        status = print_about(&job.options, model);
    }
    if (status >= 0) {
        return status;
    }
    wait_passively(argv, model);
    if (model->rt_version != PARC_RT_VERSION) {
        rt_error(job.options.program,
                 "built for version %d of the runtime, this is version %d: "
                 "run parc again",
                 model->rt_version, PARC_RT_VERSION);
        return 1;
    }
    status = prepare(&job);
    if (status == 0) {
        status = rt_ranks_run(&job.world, rank_main, &job);
    }
    release(&job);
    return status;
}
