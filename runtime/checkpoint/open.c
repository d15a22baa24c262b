/* open.c: begins a run with the options --save and --resume.
 *
 *   --save run                    step 1 …, saves in run/
 *   --save run --resume auto      step 1 …, or from run's newest checkpoint on
 *   --resume old --save new       from old's newest checkpoint on, saves in new/
 *
 * A directory has the checkpoints of one run: a run does not save where there
 * is one of a later step than the one at which it starts. What decides the
 * batches and random numbers cannot change when a run is resumed.
 */
#include "common/message.h"
#include "options/options.h"
#include "rt.h"
#include "run.h"

#include <stdlib.h>
#include <string.h>

/* DIR of --save may have no checkpoint of a later step: two runs would be mixed
 * in one directory. Damaged ones, which --resume has skipped, are replaced. */
static bool check_later(const RtRun *run)
{
    const RtOptions *o = &run->options;
    bool is_in = run->resume.path && rt_resume_is_in(&run->resume, o->save);
    RT_OWNED int64_t *steps = NULL;
    int n = is_in && run->resume.newest ? 0 : rt_steps_list(o->save, &steps);
    if (n <= 0 || steps[0] <= run->start)
        return true;
    return rt_error("--save: '%s' has a checkpoint of step %lld, after step "
                    "%lld at which this run starts; --resume %s continues it, "
                    "or save to another directory", o->save,
                    (long long)steps[0], (long long)run->start, o->save);
}

/* A checkpoint of the last step or a later one is a note, but an error with
 * --trace. */
static bool check_steps(const RtRun *run)
{
    const RtOptions *o = &run->options;
    if (!run->resume.path || o->steps == 0 || o->steps > run->start)
        return true;
    if (o->trace)
        rt_error("--trace: there is no step to trace: the checkpoint is of "
                 "step %lld", (long long)run->start);
    else if (run->launch.rank == 0)
        rt_note("--steps %lld counts from the start of the run: the checkpoint "
                "is of step %lld, and no step is left", (long long)o->steps,
                (long long)run->start);
    return !o->trace;
}

/* The number of steps after which every sample has been used --epochs times.
 * False after a message. */
static bool set_steps(RtRun *run)
{
    RtOptions *o = &run->options;
    const RtData *d = &run->data;
    const ParcModel *m = run->model;
    bool every = o->save_every == RT_EPOCH || o->val_every == RT_EPOCH;
    if (!o->epochs && !every)
        return true;
    if (d->nshares != 1)
        return rt_error("%s: %s has no epochs; use a number of steps",
                        o->epochs                   ? "--epochs"
                        : o->save_every == RT_EPOCH ? "--save-every epoch"
                                                    : "--val-every epoch",
                        d->nshares ? "a mixture" : "synthetic data");
    if (!o->epochs)
        return true;
    int64_t seq = m->seq > 0 ? m->seq : 1, samples;
    int64_t used = (run->resume.state.tokens + seq - 1) / seq;
    if (__builtin_mul_overflow(o->epochs, d->samples, &samples))
        return rt_error("--epochs %lld: too many steps", (long long)o->epochs);
    int64_t left = samples > used ? samples - used : 0;
    o->steps = run->start + left / m->batch + (left % m->batch != 0);
    return true;
}

bool rt_steps_open(RtRun *run)
{
    const RtOptions *o = &run->options;
    if (!set_steps(run) || !check_steps(run))
        return false;
    if (run->resume.path && run->launch.rank == 0)
        rt_settings_note_steps(&run->settings, run->start,
                               run->resume.state.steps, o->steps);
    return true;
}

bool rt_ends_epoch(const RtRun *run, int64_t step)
{
    const RtData *d = &run->data;
    int64_t batch = run->model->batch;
    return rt_first_sample(d, batch, step) / d->samples >
           rt_first_sample(d, batch, step - 1) / d->samples;
}

/* Seed, order and data of a resumed run are those of its checkpoint. Without a
 * training step, --seed is that of samples alone. */
static bool adopt_state(RtRun *run)
{
    RtOptions *o = &run->options;
    const RtRunState *s = &run->resume.state;
    bool own_seed = o->seed_given && o->steps == 0;
    if (!rt_data_can_resume(run->model, s->step, s->tokens))
        return rt_error("'%s': step %lld and %lld tokens are beyond any run of "
                        "this model: the index is damaged; --resume DIR/STEP "
                        "selects another checkpoint",
                        run->resume.path, (long long)s->step,
                        (long long)s->tokens);
    if (o->seed_given && !own_seed && o->seed != s->seed)
        return rt_error("--seed %lld: the checkpoint's run has the seed %lld, "
                        "which cannot change; leave --seed out",
                        (long long)o->seed, (long long)s->seed);
    if (o->shuffle && !s->shuffle)
        return rt_error("--shuffle: the checkpoint's run does not shuffle, "
                        "which cannot change; leave --shuffle out");
    o->seed = own_seed ? o->seed : s->seed;
    o->shuffle = s->shuffle;
    if (!o->data && s->data.spec && strcmp(s->data.spec, "synthetic") != 0)
        o->data = s->data.spec;
    run->start = run->done = s->step;
    return true;
}

/* Rank 0 locks the directory before it selects a checkpoint. */
bool rt_checkpoints_open(RtRun *run)
{
    const RtOptions *o = &run->options;
    RtSaver *s = &run->saver;
    bool first = run->launch.rank == 0;
    *s = (RtSaver){.directory = o->save, .lock = -1, .every = o->save_every,
                   .keep = o->keep, .saved = -1};
    if (o->save && first && !rt_saver_open(s))
        return false;
    if (o->resume && run->resume_step != RT_NO_CHECKPOINT &&
        (!rt_resume_open(&run->resume, o->resume, o->save, run->resume_step,
                         run->model) ||
         (run->resume.path && !adopt_state(run))))
        return false;
    if (o->save && run->resume.path && rt_resume_is_in(&run->resume, o->save))
        s->saved = run->start;
    return !o->save || !first || check_later(run);
}

/* A program without a loss scale ignores that of the checkpoint; one with a
 * scale keeps its own if there is none. */
void rt_checkpoints_restore(ParcRt *rt, RtRun *run)
{
    const RtResume *c = &run->resume;
    rt_data_resume(&run->data, run->model, &c->state.data, c->state.step,
                   c->state.tokens);
    rt->updates = c->state.updates;
    if (rt->scale.scale > 0 && c->state.scale.scale > 0)
        rt->scale = c->state.scale;
    rt_resume_load(rt, c);
}

bool rt_checkpoints_unsaved(const RtRun *run)
{
    return run->saver.directory && run->done > run->start &&
           run->saver.saved != run->done;
}
