/* resume.c: selects the checkpoint that a run continues from, and compares it
 * with the model.
 *
 *   --resume runs/a/step-00001000   this checkpoint
 *   --resume runs/a                 the newest whole checkpoint of runs/a
 *   --resume auto                   the same of --save's directory; without a
 *                                   checkpoint the run starts at step 0
 *
 * A checkpoint that was truncated, or lacks a file, is skipped with a note that
 * says why. A checkpoint of another model is an error, since no older one of
 * the directory would fit better. The mesh, the plan, the precision and the
 * target may differ from those of the run that saved it.
 */
#include "checkpoint/resume.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "checkpoint/save.h"
#include "common/files.h"
#include "common/message.h"
#include "params/params.h"

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
    if ((n > 0 && open_newest(c, directory, steps, n)) || (optional && (n == 0 || (n < 0 && error == ENOENT))))
        return true;
    if (n < 0)
        return rt_error("--resume: cannot read '%s': %s", directory,
                        strerror(error));
    return rt_error("--resume: '%s' has no %scheckpoint: a directory "
                    "step-<number> with index.json", directory,
                    n > 0 ? "whole " : "");
}

bool rt_resume_open(RtResume *c, const char *option, const char *saves,
                    int64_t step, const ParcModel *model)
{
    bool automatic = strcmp(option, "auto") == 0;
    bool good = !automatic && step_of_path(option) >= 0
                    ? rt_resume_read(c, option) || rt_say("%s", c->why)
                    : open_directory(c, automatic ? saves : option, automatic,
                                     step);
    return good && (!c->path || compare(c, model));
}

bool rt_resume_is_in(const RtResume *c, const char *directory)
{
    struct stat a, b;
    RT_OWNED char *parent = rt_path_join(c->path, "..");
    return stat(parent, &a) == 0 && stat(directory, &b) == 0 &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}
