/* save_index.c: writes index.json, which describes a checkpoint.
 *
 *   {
 *   "format": "parc-checkpoint", "version": 1,
 *   "state": {"step": 1000, …},
 *   "parc": "0.5", "model": "Llama", "source": "llama.pdl",
 *   "optimizer": "AdamW", "mesh": {"dp": 2, "tp": 2},
 *   "plan": "…",
 *   "tensors": {
 *   "layers.0.wq.weight.m": {"dtype": "F32", "shape": [16, 64], "pieces": [
 *   {"file": "rank-00000.safetensors", "bytes": [4096, 6144],
 *    "offset": [0, 0], "extent": [8, 64], "crc32c": 305419896},
 *   …
 *   "crc32c": 2596996162
 *   }
 *
 * The checksum is that of all bytes before its name.
 *
 * Each rank lists its pieces in a file, in the order of the tensors. Rank 0
 * merges the lists, so that the pieces of a tensor are together.
 */
#include <string.h>
#include <unistd.h>

#include "checkpoint/save.h"
#include "common/files.h"
#include "common/json.h"
#include "common/message.h"
#include "params/params.h"
#include "rt.h"

/* The list of a rank's pieces. */
typedef struct List {
    const unsigned char *text;
    int64_t at, size;
} List;

/* Maps the list. An empty one is valid: a rank may own no piece. */
static int open_list(List *l, const char *directory, int rank)
{
    char name[RT_SAVE_NAME];
    rt_pieces_name(rank, name);
    RT_OWNED char *path = rt_path_join(directory, name);
    int error = rt_file_map(path, &l->text, &l->size);
    unlink(path);
    return error;
}

/* Prints the rank's next pieces if they belong to tensor `number`. */
static void merge(FILE *f, List *l, int64_t number, bool *first)
{
    char begin[32];
    int n = snprintf(begin, sizeof begin, "%lld ", (long long)number);
    while (l->size - l->at > n &&
           memcmp(l->text + l->at, begin, (size_t)n) == 0) {
        const unsigned char *line = l->text + l->at + n;
        const unsigned char *end =
            memchr(line, '\n', (size_t)(l->size - l->at - n));
        if (!end)
            return;
        fprintf(f, "%s\n%.*s", *first ? "" : ",", (int)(end - line),
                (const char *)line);
        *first = false;
        l->at = end + 1 - l->text;
    }
}

static void print_tensor(FILE *f, const ParcParam *p, int64_t layer)
{
    char name[RT_NAME], shape[RT_SHAPE_TEXT];
    rt_param_name(p->name, p, layer, name);
    rt_json_print(f, name);
    fprintf(f, ": {\"dtype\": \"F32\", \"shape\": %s, \"pieces\": [",
            rt_shape_text(p->ndim, p->dim, shape));
}

static void print_tensors(FILE *f, const ParcRt *rt, List *list)
{
    int64_t number = 0;
    for (int i = 0; i < rt->model->nparams; i++) {
        const ParcParam *p = &rt->model->param[i];
        int64_t layers = rt_param_is_saved(p) ? rt_param_layers(p) : 0;
        for (int64_t l = 0; l < layers; l++, number++) {
            bool first = true;
            fprintf(f, "%s\n", number > 0 ? "," : "");
            print_tensor(f, p, l);
            for (int r = 0; r < rt->nranks; r++)
                merge(f, &list[r], number, &first);
            fprintf(f, "]}");
        }
    }
}

static void print_text(FILE *f, const char *name, const char *value)
{
    fprintf(f, "\"%s\": ", name);
    rt_json_print(f, value ? value : "");
    fprintf(f, ",\n");
}

static void print_index(FILE *f, const ParcRt *rt, const char *state,
                        List *list)
{
    const ParcModel *m = rt->model;
    fprintf(f,
            "{\n\"format\": \"" RT_CHECKPOINT_FORMAT "\", "
            "\"version\": %d,\n\"state\": %s,\n",
            RT_CHECKPOINT_VERSION, state);
    print_text(f, "parc", m->parc_version);
    print_text(f, "model", m->name);
    print_text(f, "source", m->source);
    print_text(f, "optimizer", m->optimizer);
    fprintf(f, "\"mesh\": {");
    for (int a = 0; a < m->naxes; a++)
        fprintf(f, "%s\"%s\": %lld", a ? ", " : "", m->axis[a].name,
                (long long)m->axis[a].size);
    fprintf(f, "},\n");
    print_text(f, "plan", m->info);
    fprintf(f, "\"tensors\": {");
    print_tensors(f, rt, list);
    fprintf(f, "\n},\n");
}

int rt_index_write(const ParcRt *rt, const char *state, const char *directory)
{
    int error = 0;
    RT_OWNED List *list = rt_allocate((size_t)rt->nranks * sizeof *list);
    for (int r = 0; r < rt->nranks; r++) {
        int failed = open_list(&list[r], directory, r);
        error = error ? error : failed;
    }
    if (!error) {
        RtOutput o;
        RT_OWNED char *path = rt_path_join(directory, RT_INDEX_NAME);
        rt_output_create(&o, path);
        FILE *f = rt_output_stream(&o);
        if (f) {
            print_index(f, rt, state, list);
            fflush(f);
            fprintf(f, "\"crc32c\": %lu\n}\n", (unsigned long)o.crc);
            fclose(f);
        }
        error = rt_output_end(&o, true);
    }
    for (int r = 0; r < rt->nranks; r++)
        rt_input_unmap(list[r].text, list[r].size);
    return error;
}
