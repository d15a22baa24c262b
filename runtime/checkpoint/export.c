/* export.c: writes weights as safetensors (--export).
 *
 * One rank writes the file. For each layer it assembles the shards of the
 * ranks that own them in a buffer of one layer. It reads the arenas of other
 * ranks in place, or requests their bytes over the connections of a job.
 *
 * With the names of `names hf` a tensor of the file may consist of several
 * parameters in other layouts: GPT-2's c_attn.weight is the concatenation of
 * the transposes of q, k and v. The list of tensors is made first: pieces with
 * equal names are one tensor.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/export.h"
#include "checkpoint/safetensors.h"
#include "common/files.h"
#include "common/message.h"
#include "common/type.h"
#include "options/options.h"
#include "params/params.h"
#include "rt.h"

/* ---- the list ------------------------------------------------------------ */

/* A piece and the name of its tensor, for sorting. */
typedef struct Named {
    RtPiece piece;
    char *name;
    int order;
} Named;

static int by_name(const void *a, const void *b)
{
    const Named *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : x->order - y->order;
}

static int by_order(const void *a, const void *b)
{
    return ((const Named *)a)->order - ((const Named *)b)->order;
}

static int64_t parts_of(const ParcParam *p, bool foreign)
{
    return foreign ? rt_file_parts(p) : 1;
}

static int count_pieces(const ParcModel *m, bool foreign)
{
    int64_t n = 0;
    for (int i = 0; i < m->nparams; i++)
        if (rt_param_is_weight(&m->param[i]))
            n += rt_param_layers(&m->param[i]) * parts_of(&m->param[i], foreign);
    return (int)n;
}

static void name_pieces(Named *to, const ParcModel *m, bool foreign)
{
    int n = 0;
    for (int i = 0; i < m->nparams; i++) {
        const ParcParam *p = &m->param[i];
        int64_t parts = parts_of(p, foreign);
        int64_t all = rt_param_is_weight(p) ? rt_param_layers(p) * parts : 0;
        for (int64_t k = 0; k < all; k++) {
            char name[RT_NAME];
            RtPiece piece = {p, k / parts, k % parts, foreign && p->nfile > 0 ? p->file : NULL};
            rt_layer_name(p, piece.layer, piece.part, foreign, name);
            to[n] = (Named){piece, rt_format("%s", name), n};
            n++;
        }
    }
}

/* Whether --export-only selects the piece. */
static bool is_selected(const ParcModel *m, const RtOptions *o, const Named *n)
{
    for (int i = 0; i < o->export_only.n; i++) {
        const char *pattern = rt_pattern(m, o->export_only.at[i]);
        if (rt_param_matches(pattern, n->piece.param, n->piece.layer))
            return true;
    }
    return o->export_only.n == 0;
}

/* Removes the tensors of which no piece is selected, and returns the number of
 * pieces that stay. The pieces of a tensor are together. */
static int select_pieces(Named *piece, int n, const ParcModel *m,
                         const RtOptions *o)
{
    int kept = 0;
    for (int first = 0, end; first < n; first = end) {
        bool selected = false;
        for (end = first; end < n && piece[end].order == piece[first].order;
             end++)
            selected |= is_selected(m, o, &piece[end]);
        for (int i = first; i < end; i++)
            if (selected)
                piece[kept++] = piece[i];
            else
                free(piece[i].name);
    }
    return kept;
}

/* Gives the pieces of one tensor the order of its first piece, so that tensors
 * keep the order of the model. */
static void group_pieces(Named *piece, int n)
{
    qsort(piece, (size_t)n, sizeof *piece, by_name);
    for (int i = 1; i < n; i++)
        if (strcmp(piece[i].name, piece[i - 1].name) == 0)
            piece[i].order = piece[i - 1].order;
    qsort(piece, (size_t)n, sizeof *piece, by_order);
}

static void describe_tensor(RtExportTensor *t, const RtPiece *p)
{
    t->ndim = p->view ? p->view->ndim : p->param->ndim;
    t->dim = p->view ? p->view->dim : p->param->dim;
    t->elements = rt_elements(t->dim, t->ndim);
}

int64_t rt_export_bytes(const RtExportList *l, const RtExportTensor *t)
{
    return t->elements * (l->type == PARC_F32 ? 4 : 2);
}

static void split_files(RtExportList *l, int64_t most)
{
    int64_t used = 0;
    l->nfiles = 1;
    for (int i = 0; i < l->n; i++) {
        int64_t bytes = rt_export_bytes(l, &l->tensor[i]);
        if (most > 0 && used > 0 && bytes > most - used) {
            l->nfiles++;
            used = 0;
        }
        used += bytes;
        l->tensor[i].file = l->nfiles - 1;
    }
}

void rt_export_list(RtExportList *l, const ParcModel *model,
                    const RtOptions *o, int64_t most)
{
    static const ParcType types[] = {PARC_F32, PARC_F32, PARC_BF16, PARC_F16};
    enum { PARC_NAMES = 2 }; /* of --export-names */
    *l = (RtExportList){.model = model, .type = types[o->export_dtype]};
    l->foreign =
        rt_has_file_names(model) && o->export_names != PARC_NAMES;
    int n = count_pieces(model, l->foreign);
    Named *named = rt_allocate(((size_t)n + 1) * sizeof *named);
    l->piece = rt_allocate(((size_t)n + 1) * sizeof *l->piece);
    l->tensor = rt_allocate(((size_t)n + 1) * sizeof *l->tensor);
    name_pieces(named, model, l->foreign);
    group_pieces(named, n);
    n = select_pieces(named, n, model, o);
    for (int i = 0; i < n; i++) {
        bool begins = i == 0 || named[i].order != named[i - 1].order;
        RtExportTensor *t = &l->tensor[begins ? l->n++ : l->n - 1];
        if (begins) {
            t->name = named[i].name;
            t->first = i;
            describe_tensor(t, &named[i].piece);
        } else {
            free(named[i].name);
        }
        t->n++;
        l->piece[i] = named[i].piece;
    }
    free(named);
    split_files(l, most);
}

void rt_export_list_free(RtExportList *l)
{
    for (int i = 0; i < l->n; i++)
        free(l->tensor[i].name);
    free(l->piece);
    free(l->tensor);
}

/* ---- one file ------------------------------------------------------------ */

/* Names contain no characters that JSON escapes. */
static void write_header(RtOutput *w, const RtExportList *l, int file)
{
    static const char *const dtype[] = {
        [PARC_F32] = "F32", [PARC_BF16] = "BF16", [PARC_F16] = "F16"};
    RtHeader h;
    int64_t begin = 0;
    if (rt_header_begin(&h)) {
        fprintf(h.f,
                "\"__metadata__\": {\"format\": \"pt\", \"parc\": \"%s\", "
                "\"model\": \"%s\", \"names\": \"%s\"}",
                l->model->parc_version, l->model->name,
                l->foreign ? "hf" : "parc");
        for (int i = 0; i < l->n; i++) {
            const RtExportTensor *t = &l->tensor[i];
            int64_t end = begin + rt_export_bytes(l, t);
            if (t->file != file)
                continue;
            rt_header_add(&h, t->name, dtype[l->type], t->ndim, t->dim, begin,
                          end);
            begin = end;
        }
    }
    w->error = rt_header_end(&h, RT_LENGTH_BYTES);
    rt_output_put(w, h.text, h.n);
    free(h.text);
}

static void put_floats(RtOutput *w, ParcType type, const float *from,
                       int64_t n)
{
    enum { CHUNK = 1 << 14 };
    uint16_t half[CHUNK];
    if (type == PARC_F32) {
        rt_output_put(w, from, (size_t)n * sizeof *from);
        return;
    }
    for (int64_t at = 0; at < n; at += CHUNK) {
        int64_t some = n - at < CHUNK ? n - at : CHUNK;
        rt_narrow(type, half, from + at, some);
        rt_output_put(w, half, (size_t)some * sizeof half[0]);
    }
}

/* Buffers that all tensors use, each as large as the largest so far: for a
 * tensor, for a layer, and for bytes of other processes. */
typedef struct Buffers {
    RtBuffer tensor, layer, remote;
    RtPiece held; /* the piece whose layer is in `layer` */
} Buffers;

static float *floats(RtBuffer *buffer, int64_t n)
{
    return rt_buffer_grow(buffer, n * (int64_t)sizeof(float));
}

/* The average of a parameter; NULL: it has none. */
static const ParcParam *average_of(const ParcModel *m, const ParcParam *p)
{
    for (const ParcParam *s = m->param; s < m->param + m->nparams; s++)
        if (s->state && strcmp(s->state, "average") == 0 &&
            strncmp(s->name, p->name, strlen(p->name)) == 0 &&
            strcmp(s->name + strlen(p->name), ".average") == 0)
            return s;
    return NULL;
}

/* The elements of a piece: of the parameter, or of its average. The state e is
 * d e + (1 - d) w after each step, from 0 on, so the weights of its sum are 1 - d^steps
 * together. */
static void assemble(ParcRt *rt, const RtExportList *l, const RtPiece *p, float *to,
                     RtBuffer *remote)
{
    const ParcParam *average = l->average > 0 ? average_of(l->model, p->param) : NULL;
    rt_param_assemble(rt, average ? average : p->param, p->layer, to, remote);
    int64_t n = average ? rt_param_layer_elements(p->param) : 0;
    for (int64_t i = 0; i < n; i++)
        to[i] = (float)((double)to[i] / l->average);
}

static void write_tensor(RtOutput *w, ParcRt *rt, const RtExportList *l,
                         const RtExportTensor *t, Buffers *b)
{
    float *all = floats(&b->tensor, t->elements);
    for (int i = t->first; i < t->first + t->n; i++) {
        const RtPiece *p = &l->piece[i];
        int64_t n = rt_param_layer_elements(p->param);
        if (!p->view) {
            assemble(rt, l, p, all, &b->remote);
            continue;
        }
        float *layer = floats(&b->layer, n);
        if (b->held.param != p->param || b->held.layer != p->layer)
            assemble(rt, l, p, layer, &b->remote);
        b->held = *p;
        int64_t each = n / rt_file_parts(p->param);
        rt_view_write(all, p->view, layer + p->part * each, each);
    }
    put_floats(w, l->type, all, t->elements);
}

void rt_export_file(RtOutput *w, ParcRt *rt, const RtExportList *l, int file)
{
    Buffers b = {0};
    write_header(w, l, file);
    for (int i = 0; i < l->n && !w->error; i++)
        if (l->tensor[i].file == file)
            write_tensor(w, rt, l, &l->tensor[i], &b);
    free(b.tensor.at);
    free(b.layer.at);
    free(b.remote.at);
}
