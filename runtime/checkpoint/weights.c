/* weights.c: finds a model's parameters in files and loads them (--init).
 *
 * The files are compared with the model before the ranks start: they must
 * contain each layer of each parameter under its name or a name of a tied
 * parameter, with the same shape, in f32, bf16 or f16. Each rank then reads
 * only what it stores.
 *
 * A model with a block `names hf` also accepts files with Hugging Face's names
 * and layouts. A file has one set of names for all its tensors, because a
 * tensor of the same name may have another layout: the set that its metadata
 * states, or else the one under which more parameters are found.
 */
#include <stdlib.h>
#include <string.h>

#include "checkpoint/safetensors.h"
#include "checkpoint/weights.h"
#include "common/files.h"
#include "common/message.h"
#include "options/options.h"
#include "params/params.h"
#include "rt.h"

enum { ERROR_LIMIT = 5, LISTED = 3 };

/* ---- names --------------------------------------------------------------- */

/* A part of a layer, as Hugging Face's files may have one; in other files it is in the tensor
 * of the layer. */
typedef struct Part {
    const ParcParam *param;
    int64_t layer, part;
} Part;

/* The tensor with the i-th name of a part: its own, then those of ties. */
static RtTensor *tensor_called(const RtSource *s, const ParcModel *m, Part of, int i)
{
    const ParcParam *p = of.param;
    char name[RT_NAME];
    if (!s->foreign) {
        rt_param_name(i == 0 ? p->name : p->alias[i - 1], p, of.layer, name);
        return rt_source_find(s, name);
    }
    rt_file_name(&p->file[i], p, of.layer, of.part, name);
    RtTensor *t = rt_source_find(s, name);
    const char *bare = rt_without_prefix(m, name);
    return t || !bare ? t : rt_source_find(s, bare);
}

static int names_of(const RtSource *s, const ParcParam *p)
{
    return s->foreign ? p->nfile : p->nalias + 1;
}

/* The tensor with the first of the part's names that the source contains. */
static RtTensor *source_tensor_of(const RtSource *s, const ParcModel *m, Part of, int *name)
{
    RtTensor *t = NULL;
    for (int i = 0; i < names_of(s, of.param) && !t; i++) {
        t = tensor_called(s, m, of, i);
        *name = i;
    }
    return t;
}

/* The number of parameters whose first layer the source contains. */
static int matches(RtSource *s, const ParcModel *m, bool foreign)
{
    int n = 0, name;
    s->foreign = foreign;
    for (int i = 0; i < m->nparams; i++)
        n += rt_param_is_weight(&m->param[i]) &&
             source_tensor_of(s, m, (Part){&m->param[i], 0, 0}, &name);
    return n;
}

static void choose_names(RtSource *s, const ParcModel *m)
{
    if (!rt_has_file_names(m))
        return;
    const char *stated = s->nfiles > 0 ? s->file[0].names : "";
    s->foreign = *stated ? strcmp(stated, "hf") == 0
                         : matches(s, m, true) >= matches(s, m, false);
}

/* ---- comparison with the model ------------------------------------------- */

static bool same_tensor(const RtTensor *a, const RtTensor *b)
{
    return a->type == b->type && a->end - a->begin == b->end - b->begin &&
           rt_same_shape(a->ndim, a->dim, b->ndim, b->dim) &&
           memcmp(a->file->map + a->begin, b->file->map + b->begin,
                  (size_t)(a->end - a->begin)) == 0;
}

/* A file may contain a tied parameter under each of its names, as state_dict()
 * returns it; the copies must be equal. */
static bool check_ties(const RtSource *s, const ParcModel *m, Part of, const RtTensor *t)
{
    for (int i = 0; i < names_of(s, of.param); i++) {
        RtTensor *other = tensor_called(s, m, of, i);
        if (!other || other == t)
            continue;
        other->used = true;
        if (!same_tensor(t, other))
            return rt_fault(other->file->path, other->at, "'%s' is not equal "
                            "to '%s', and the model ties them: leave one out",
                            other->name, t->name);
    }
    return true;
}

static bool fits_param(const RtTensor *t, const ParcParam *p,
                       const ParcFileTensor *view)
{
    char has[RT_SHAPE_TEXT], wants[RT_SHAPE_TEXT];
    int ndim = view ? view->ndim : p->ndim;
    const int64_t *dim = view ? view->dim : p->dim;
    if (!rt_same_shape(t->ndim, t->dim, ndim, dim))
        return rt_fault(t->file->path, t->at, "'%s' is %s; the model's is %s",
                        t->name, rt_shape_text(t->ndim, t->dim, has),
                        rt_shape_text(ndim, dim, wants));
    bool table = t->type == PARC_I64 && t->ndim > 0; /* num_batches_tracked is a count */
    if (t->type < 0 || table)
        return rt_fault(t->file->path, t->at, "'%s' has dtype %s; F32, BF16 "
                        "and F16 can be read", t->name, t->dtype_name);
    return true;
}

/* Finds a part in all sources; the last one that has it takes precedence. */
static bool find_part(RtWeights *w, Part of, RtFound *found)
{
    const ParcModel *m = w->model;
    for (int i = 0; i < w->nsources; i++) {
        const RtSource *s = &w->source[i];
        int name = 0;
        RtTensor *t = source_tensor_of(s, m, of, &name);
        if (!t)
            continue;
        const ParcFileTensor *view = s->foreign ? &of.param->file[name] : NULL;
        t->used = true;
        if (!fits_param(t, of.param, view) || !check_ties(s, m, of, t))
            return false;
        *found = (RtFound){t, view};
    }
    return true;
}

static void report_missing(const RtWeights *w, const char *name)
{
    const RtSource *s = &w->source[0];
    RT_OWNED const char **names = rt_allocate(((size_t)s->n + 1) * sizeof *names);
    for (int i = 0; i < s->n; i++)
        names[i] = s->entry[i].name;
    const char *near = rt_near_miss(name, names, s->n);
    rt_say("%s: %serror: the %s no tensor '%s'%s%s%s", s->path,
           w->nsources == 1 && s->nfiles == 1 ? "byte 8: " : "",
           w->nsources > 1 ? "files of --init have" : "file has", name,
           near ? "; the nearest is '" : "", near ? near : "",
           near ? "'" : "");
}

/* Names the first tensors that no file has. */
static void note_missing(const RtWeights *w, bool quiet, int missing, int all,
                         char (*listed)[RT_NAME])
{
    int n = missing < LISTED ? missing : LISTED;
    char text[LISTED * (RT_NAME + 4)] = "";
    RtText t = {.at = text, .capacity = sizeof text};
    for (int i = 0; i < n; i++)
        rt_add(&t, "%s'%s'", i ? ", " : "", listed[i]);
    if (missing == all)
        rt_error("--init-partial: '%s' has none of the model's %d tensors, "
                 "such as '%s'", w->source[0].path, all, listed[0]);
    else if (!quiet)
        rt_note("--init-partial: %d of %d tensors are missing and keep their "
                "initial values: %s%s", missing, all, text,
                missing > n ? ", …" : "");
}

static bool find_all(RtWeights *w, const RtOptions *o, bool quiet)
{
    int errors = 0, missing = 0, all = 0;
    char listed[LISTED][RT_NAME], name[RT_NAME];
    bool foreign = w->source[0].foreign; /* names of the first source */
    for (int i = 0; i < w->model->nparams; i++) {
        const ParcParam *p = &w->model->param[i];
        int64_t n = w->first[i + 1] - w->first[i], parts = rt_file_parts(p);
        for (int64_t k = 0; k < n && errors < ERROR_LIMIT; k++) {
            RtFound *found = &w->found[w->first[i] + k];
            Part of = {p, k / parts, k % parts};
            all++;
            if (!find_part(w, of, found)) {
                errors++;
            } else if (!found->tensor && o->init_partial) {
                rt_layer_name(p, of.layer, of.part, foreign,
                              missing < LISTED ? listed[missing] : name);
                missing++;
            } else if (!found->tensor) {
                rt_layer_name(p, of.layer, of.part, foreign, name);
                report_missing(w, name);
                errors++;
            }
        }
    }
    if (missing && !errors)
        note_missing(w, quiet, missing, all, listed);
    return errors == 0 && (missing == 0 || missing < all);
}

/* Reports the tensors of a source that the model does not have. */
static void note_unused(const RtSource *s)
{
    int unused = 0;
    const RtTensor *first = NULL;
    for (int i = 0; i < s->n; i++) {
        const RtTensor *t = s->entry[i].tensor;
        if (t->used)
            continue;
        unused++;
        if (!first || (t->file == first->file && t->at < first->at))
            first = t;
    }
    if (unused)
        rt_say("%s: note: %d tensor%s not in the model; the first is '%s'",
               s->path, unused, unused == 1 ? " is" : "s are", first->name);
}

/* Allocates an entry for each part of each layer of each parameter. */
static void allocate_found(RtWeights *w)
{
    int64_t n = 0;
    w->first = rt_allocate(((size_t)w->model->nparams + 1) * sizeof *w->first);
    for (int i = 0; i < w->model->nparams; i++) {
        const ParcParam *p = &w->model->param[i];
        w->first[i] = n;
        n += rt_param_is_weight(p) ? rt_param_layers(p) * rt_file_parts(p) : 0;
    }
    w->first[w->model->nparams] = n;
    w->found = rt_allocate(((size_t)n + 1) * sizeof *w->found);
}

/* What the files contain that the model lacks, or has with another value. */
static void print_notes(const RtWeights *w)
{
    for (int i = 0; i < w->nsources; i++) {
        const RtSource *s = &w->source[i];
        note_unused(s);
        if (s->foreign && s->directory) {
            RT_OWNED char *path = rt_path_join(s->directory, "config.json");
            rt_config_compare(path, w->model);
        }
    }
}

bool rt_weights_open(RtWeights *w, const RtOptions *o, bool quiet,
                     const ParcModel *model)
{
    *w = (RtWeights){.model = model};
    w->source = rt_allocate(((size_t)o->init.n + 1) * sizeof *w->source);
    for (int i = 0; i < o->init.n; i++) {
        w->nsources++;
        if (!rt_source_open(&w->source[i], o->init.at[i]))
            return false;
        choose_names(&w->source[i], model);
    }
    allocate_found(w);
    if (!find_all(w, o, quiet))
        return false;
    if (!quiet)
        print_notes(w);
    return true;
}

const char *rt_weights_file(const RtWeights *w, int number)
{
    for (int i = 0; i < w->nsources; i++) {
        if (number < w->source[i].nfiles)
            return w->source[i].file[number].path;
        number -= w->source[i].nfiles;
    }
    return NULL;
}

void rt_weights_close(RtWeights *w)
{
    for (int i = 0; i < w->nsources; i++)
        rt_source_close(&w->source[i]);
    free(w->source);
    free(w->found);
    free(w->first);
    *w = (RtWeights){0};
}

/* ---- values -------------------------------------------------------------- */

/* n elements of a layer from element `global` on, as far as files have them; returns how many
 * of them one tensor has. */
static int64_t read_run(const RtWeights *w, const ParcParam *p, int64_t layer, int64_t global,
                        int64_t n, float *to, bool *found)
{
    int64_t parts = rt_file_parts(p), each = rt_param_layer_elements(p) / parts;
    int64_t at = global % each;
    const RtFound *f = &w->found[w->first[p - w->model->param] + layer * parts + global / each];
    n = n < each - at ? n : each - at;
    *found = f->tensor != NULL;
    if (f->tensor)
        rt_view_read(to, f->tensor, f->view, f->view ? at : global, n);
    return n;
}

bool rt_weights_value(const RtWeights *w, const ParcParam *param, int64_t layer,
                      int64_t element, float *value)
{
    bool found = false;
    if (w->nsources > 0)
        read_run(w, param, layer, element, 1, value, &found);
    return found;
}

void rt_weights_load(ParcRt *rt, const RtWeights *w)
{
    for (int i = 0; i < rt->model->nparams; i++) {
        const ParcParam *p = &rt->model->param[i];
        if (!rt_param_is_weight(p))
            continue;
        RtShard s;
        rt_shard(&s, rt->model, rt->rank, p);
        for (int64_t l = -1; (l = rt_shard_next(&s, l)) >= 0;) {
            float *to = rt_shard_layer(rt, rt->rank, &s, l);
            int64_t global, n;
            bool found;
            for (int64_t at = 0; (n = rt_shard_run(&s, &at, &global)) > 0; at += n)
                for (int64_t done = 0; done < n;)
                    done += read_run(w, p, l, global + done, n - done, to + at + done, &found);
        }
        rt_param_upload(rt, &s);
    }
}
