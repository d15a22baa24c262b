/* resume.c: begins a run with the options --save and --resume: selects the
 * checkpoint that the run continues from, and compares it with the model.
 *
 *   --resume runs/a/step-00001000   this checkpoint
 *   --resume runs/a                 the newest whole checkpoint of runs/a
 *   --resume auto                   the same of --save's directory; without a
 *                                   checkpoint the run starts at step 0
 *
 * A checkpoint that was truncated, or lacks a file, is skipped with a note that
 * says why. A checkpoint of another model is an error, since no older one of
 * the directory would fit better. The mesh, the plan, the precision and the
 * target may differ from those of the run that saved it. What decides the
 * batches and random numbers cannot change.
 *
 *   --save run                    step 1 …, saves in run/
 *   --save run --resume auto      step 1 …, or from run's newest checkpoint on
 *   --resume old --save new       from old's newest checkpoint on, saves in new/
 *
 * A directory has the checkpoints of one run: a run does not save where there
 * is one of a later step than the one at which it starts.
 */
#include "checkpoint/resume.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "checkpoint/save.h"
#include "common/files.h"
#include "common/message.h"
#include "options/options.h"
#include "params/params.h"
#include "run.h"

enum { ERROR_LIMIT = 5 };

/* ---- the model ----------------------------------------------------------- */

static bool check_layer(const RtResume *c, const ParcModel *m,
                        const ParcParam *p, int64_t layer)
{
    char name[RT_NAME], has[RT_SHAPE_TEXT], wants[RT_SHAPE_TEXT];
    rt_param_name(p->name, p, layer, name);
    const RtSavedTensor *t = rt_saved_find(c, name);
    if (!t && p->state)
        return rt_say("%s/" RT_INDEX_NAME ": error: the checkpoint has no "
                      "optimizer state '%s': it was saved with %s, and the "
                      "program has %s", c->path, name, c->optimizer,
                      m->optimizer);
    if (!t)
        return rt_say("%s/" RT_INDEX_NAME ": error: the checkpoint has no "
                      "tensor '%s': it is of another model", c->path, name);
    if (rt_same_shape(t->ndim, t->dim, p->ndim, p->dim))
        return true;
    return rt_say("%s/" RT_INDEX_NAME ": byte %lld: error: '%s' is %s; the "
                  "model's is %s", c->path, (long long)t->at, name,
                  rt_shape_text(t->ndim, t->dim, has),
                  rt_shape_text(p->ndim, p->dim, wants));
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Reports a tensor of the checkpoint that the model lacks. The model has `n`
 * tensors, and the checkpoint all of them. */
static bool check_extra(const RtResume *c, const ParcModel *m, int64_t n)
{
    if (n == c->ntensors)
        return true;
    RT_OWNED char(*names)[RT_NAME] = rt_allocate((size_t)n * RT_NAME + 1);
    int64_t count = 0, i = 0;
    for (int k = 0; k < m->nparams; k++) {
        const ParcParam *p = &m->param[k];
        int64_t layers = rt_param_is_saved(p) ? rt_param_layers(p) : 0;
        for (int64_t l = 0; l < layers; l++)
            rt_param_name(p->name, p, l, names[count++]);
    }
    qsort(names, (size_t)n, RT_NAME, by_text);
    while (i < n && strcmp(names[i], c->tensor[i].name) == 0)
        i++; /* both are sorted */
    return rt_say("%s/" RT_INDEX_NAME ": byte %lld: error: the program has no "
                  "'%s': the checkpoint is of another model or optimizer (%s)",
                  c->path, (long long)c->tensor[i].at, c->tensor[i].name,
                  c->optimizer);
}

/* Compares the tensors with those of the model; false after messages. */
static bool compare(const RtResume *c, const ParcModel *m)
{
    int errors = 0;
    int64_t n = 0;
    for (int i = 0; i < m->nparams; i++) {
        const ParcParam *p = &m->param[i];
        int64_t layers = rt_param_is_saved(p) ? rt_param_layers(p) : 0;
        for (int64_t l = 0; l < layers && errors < ERROR_LIMIT; l++, n++)
            errors += !check_layer(c, m, p, l);
    }
    return errors == 0 && check_extra(c, m, n);
}

/* ---- the selection ------------------------------------------------------- */

/* The last part of a path, which may end with slashes. */
static int64_t step_of_path(const char *path)
{
    size_t n = strlen(path);
    while (n > 0 && path[n - 1] == '/')
        n--;
    RT_OWNED char *text = rt_format("%.*s", (int)n, path);
    const char *slash = strrchr(text, '/');
    return rt_step_of(slash ? slash + 1 : text);
}

static bool open_step(RtResume *c, const char *directory, int64_t step)
{
    char name[RT_SAVE_NAME];
    rt_step_name(step, name);
    RT_OWNED char *path = rt_path_join(directory, name);
    if (!rt_resume_read(c, path))
        return false;
    if (c->state.step != step)
        snprintf(c->why, sizeof c->why, "%s/" RT_INDEX_NAME ": error: the "
                 "index is that of step %lld", path, (long long)c->state.step);
    return c->state.step == step;
}

/* Opens the newest whole checkpoint of the list, and reports the newer ones. */
static bool open_newest(RtResume *c, const char *directory,
                        const int64_t *steps, int n)
{
    for (int i = 0; i < n; i++) {
        if (open_step(c, directory, steps[i])) {
            c->newest = true;
            return true;
        }
        rt_note("--resume skips step %lld: %s", (long long)steps[i], c->why);
        rt_resume_close(c);
    }
    return false;
}

/* Selects a checkpoint of a directory. If `optional`, there may be none. */
static bool open_directory(RtResume *c, const char *directory, bool optional,
                           int64_t step)
{
    if (step >= 0)
        return open_step(c, directory, step) || rt_say("%s", c->why);
    RT_OWNED int64_t *steps = NULL;
    int n = rt_steps_list(directory, &steps), error = errno;
    bool none = n == 0 || (n < 0 && error == ENOENT);
    if ((n > 0 && open_newest(c, directory, steps, n)) || (optional && none))
        return true;
    if (n < 0)
        return rt_error("--resume: cannot read '%s': %s", directory,
                        strerror(error));
    return rt_error("--resume: '%s' has no %scheckpoint: a directory "
                    "step-<number> with index.json", directory,
                    n > 0 ? "whole " : "");
}

/* Opens the checkpoint that --resume names: a checkpoint, the newest whole one
 * of a directory, or for "auto" that of `saves`, the directory of --save.
 * c->path stays NULL if "auto" finds none. `step`: only this one; -1: any.
 * False after a message. */
static bool open_resume(RtResume *c, const char *option, const char *saves,
                    int64_t step, const ParcModel *model)
{
    bool automatic = strcmp(option, "auto") == 0;
    bool good = !automatic && step_of_path(option) >= 0
                    ? rt_resume_read(c, option) || rt_say("%s", c->why)
                    : open_directory(c, automatic ? saves : option, automatic,
                                     step);
    return good && (!c->path || compare(c, model));
}

/* Whether the checkpoint is one of `directory`. */
static bool is_in(const RtResume *c, const char *directory)
{
    struct stat a, b;
    RT_OWNED char *parent = rt_path_join(c->path, "..");
    return stat(parent, &a) == 0 && stat(directory, &b) == 0 &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* ---- the run ------------------------------------------------------------- */

/* DIR of --save may have no checkpoint of a later step: two runs would be mixed
 * in one directory. Damaged ones, which --resume has skipped, are replaced. */
static bool check_later(const RtRun *run)
{
    const RtOptions *o = &run->options;
    bool own = run->resume.path && is_in(&run->resume, o->save);
    RT_OWNED int64_t *steps = NULL;
    int n = own && run->resume.newest ? 0 : rt_steps_list(o->save, &steps);
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
    if (!run->resume.path || run->launch.rank != 0)
        return true;
    RtSettings old;
    rt_settings_init(&old, run->model);
    rt_settings_adopt(&old, &run->resume.state.settings, run->model);
    rt_settings_note_steps(&run->settings, &old, run->start,
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
        (!open_resume(&run->resume, o->resume, o->save, run->resume_step,
                         run->model) ||
         (run->resume.path && !adopt_state(run))))
        return false;
    if (o->save && run->resume.path && is_in(&run->resume, o->save))
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
