/* config.c: compares the config.json of a Hugging Face model (--config) with the entries of
 * the block config of `names hf`, and takes the model's sizes from it.
 *
 *   names hf {                            {"hidden_size": 2048,
 *       config {                           "head_dim": 64,
 *           hidden_size = dim              "hidden_act": "silu",
 *           head_dim    = dim / n_heads    "use_cache": true,
 *           hidden_act  = "silu"           "attention_bias": true}
 *       }
 *   }
 *
 * config_defines takes the values of entries that are parameters of the model: dim=2048,
 * as -D does. It refuses entries that the block lacks (attention_bias), unless they are
 * false, 0 or empty, or do not concern the loss. config_compare compares the values of the
 * other entries, when they are known, with those of the file.
 *
 * If an object of the file, such as text_config, has the block's model_type, its entries are
 * compared in place of the file's.
 *
 * The file's objects rope_… have no entries of their own (driver/options/config_file.c): the
 * entry rope_scaling.factor of the block is factor of the file.
 */
#include <string.h>

#include "base/text.h"
#include "frontend/names/names.h"
#include "ir/path.h"

/* Entries that change neither the loss nor the parameters. An entry with `only` counts if
 * its value, or each item of its list, is this text. A '*' matches any characters. */
static const struct Unneeded {
    const char *key, *only;
} unneeded[] = {
    {"_*", NULL}, {"transformers*_version", NULL},
    {"torch_dtype", NULL}, {"dtype", NULL}, {"tokenizer_class", NULL},
    {"prefix", NULL}, {"problem_type", NULL}, {"finetuning_task", NULL},
    {"task_specific_params", NULL},
    {"id2label", NULL}, {"label2id", NULL},
    /* the sequence's limit, initial values */
    {"max_position_embeddings", NULL}, {"initializer_*", NULL},
    /* outputs, memory, the precision of sums */
    {"use_cache", NULL}, {"output_*", NULL}, {"return_*", NULL}, {"torchscript", NULL},
    {"gradient_checkpointing", NULL}, {"chunk_size_feed_forward", NULL},
    {"pretraining_tp", NULL},
    /* generation, other heads */
    {"bos_token_id", NULL}, {"eos_token_id", NULL}, {"pad_token_id", NULL},
    {"sep_token_id", NULL}, {"cls_token_id", NULL}, {"mask_token_id", NULL},
    {"unk_token_id", NULL}, {"forced_*_token_id", NULL}, {"*max_length", NULL},
    {"min_length", NULL}, {"do_sample", NULL},
    {"early_stopping", NULL}, {"num_beam*", NULL}, {"num_return_sequences", NULL},
    {"temperature", NULL}, {"top_k", NULL}, {"top_p", NULL}, {"typical_p", NULL},
    {"*_penalty", NULL}, {"*no_repeat_ngram_size", NULL}, {"bad_words_ids", NULL},
    {"*suppress_tokens", NULL}, {"summary_*", NULL},
    /* the default */
    {"layer_types", "full_attention"},
};

/* ---- the file's entries -------------------------------------------------- */

/* The last entry of this name, as in Python; NULL: none. */
static const Setting *entry_of(const ConfigFile *c, const char *name)
{
    for (int i = c->entry.n - 1; i >= 0; i--)
        if (strcmp(c->entry.at[i].name.name, name) == 0)
            return &c->entry.at[i];
    return NULL;
}

/* The name in the file of an entry of the block. */
static const char *file_name(const Setting *own)
{
    const char *dot = strrchr(own->name.name, '.');
    return dot ? dot + 1 : own->name.name;
}

static const Setting *own_entry(const NamesDecl *n, const char *name)
{
    for (int i = 0; i < n->config.n; i++)
        if (strcmp(file_name(&n->config.at[i]), name) == 0)
            return &n->config.at[i];
    return NULL;
}

static bool is_text(const Expr *e, const char *text)
{
    if (!e)
        return false;
    bool all = e->kind == EX_TUPLE && e->nargs > 0;
    for (int i = 0; i < e->nargs && all; i++)
        all = is_text(e->arg[i].value, text);
    return all || (e->kind == EX_STRING && strcmp(e->name, text) == 0);
}

static bool is_unneeded(const Setting *s)
{
    const char *name = s->name.name;
    for (size_t i = 0; i < sizeof unneeded / sizeof *unneeded; i++) {
        const struct Unneeded *u = &unneeded[i];
        if (path_glob(u->key, strlen(u->key), name, strlen(name)) &&
            (!u->only || is_text(s->value, u->only)))
            return true;
    }
    return false;
}

/* Entries whose default is true. */
static const char *const true_by_default[] = {"tie_word_embeddings", "truncate",
                                              "scale_attn_weights", "qkv_bias",
                                              "use_parallel_residual", "is_causal"};

/* Whether a value asks for nothing: null, false, 0, "" or []. */
static bool is_empty(const Setting *s)
{
    const Expr *e = s->value;
    for (size_t i = 0; i < sizeof true_by_default / sizeof *true_by_default; i++)
        if (strcmp(s->name.name, true_by_default[i]) == 0)
            return e && e->kind == EX_NONE;
    if (!e)
        return false;
    switch ((int)e->kind) {
    case EX_NONE: return true;
    case EX_INT: case EX_BOOL: return e->integer == 0;
    case EX_FLOAT: return e->number == 0;
    case EX_STRING: return !e->name[0];
    case EX_TUPLE: return e->nargs == 0;
    default: return false;
    }
}

static void check_unknown(Diag *d, const NamesDecl *n, const ConfigFile *c)
{
    for (int i = 0; i < c->entry.n; i++) {
        const Setting *s = &c->entry.at[i];
        if (own_entry(n, s->name.name) || is_empty(s) || is_unneeded(s) ||
            strcmp(s->name.name, "num_labels") == 0) /* follows from id2label */
            continue;
        diag_error(d, s->name.loc, "the model has no entry '%s' in its block config",
                   s->name.name);
        diag_note(d, n->config_word.loc, "add '%s = VALUE' if the model computes it, or "
                  "'%s = any' if it does not matter", s->name.name, s->name.name);
    }
}

/* ---- parameters of the model --------------------------------------------- */

static bool mentions(const Expr *e, const char *name)
{
    if (e->kind == EX_NAME && strcmp(e->name, name) == 0)
        return true;
    for (int i = 0; i < e->nargs; i++)
        if (mentions(e->arg[i].value, name))
            return true;
    return false;
}

static bool mentions_formal(const Expr *e, const Decl *model)
{
    for (int i = 0; i < model->nformals; i++)
        if (mentions(e, model->formal[i].name.name))
            return true;
    return false;
}

static const Formal *formal_of(const Decl *model, const Expr *e)
{
    return e->kind == EX_NAME ? row_find(model->formal, model->nformals, e->name) : NULL;
}

/* The file's value of a parameter; NULL: none, or null. */
static const Setting *value_of(const NamesDecl *n, const ConfigFile *c, const char *formal)
{
    for (int i = 0; i < n->config.n; i++) {
        const Setting *own = &n->config.at[i];
        const Setting *s = own->value->kind == EX_NAME && strcmp(own->value->name, formal) == 0
                               ? entry_of(c, file_name(own)) : NULL;
        if (s && s->value && s->value->kind != EX_NONE)
            return s;
    }
    return NULL;
}

static const Setting *user_define(const FrontendOptions *o, const char *name)
{
    for (int i = 0; i < o->ndefines; i++)
        if (strcmp(o->define[i]->name.name, name) == 0)
            return o->define[i];
    return NULL;
}

/* Whether the file has none of the entries of the object that an entry of the block belongs
 * to: it may be absent, but not in part. */
static bool object_is_absent(const NamesDecl *n, const ConfigFile *c, const Setting *own)
{
    const char *name = own->name.name, *dot = strchr(name, '.');
    for (int i = 0; i < n->config.n && dot; i++) {
        const Setting *other = &n->config.at[i];
        bool same = strncmp(other->name.name, name, (size_t)(dot + 1 - name)) == 0;
        const Setting *s = same ? entry_of(c, file_name(other)) : NULL;
        if (s && !(s->value && s->value->kind == EX_NONE))
            return false;
    }
    return dot != NULL;
}

/* A parameter that an entry of the block sets has a value in the file, or -D has one, or
 * its default follows from other parameters. */
static void check_given(Diag *d, const NamesDecl *n, const ConfigFile *c, const Decl *model,
                        const FrontendOptions *o)
{
    for (int i = 0; i < n->config.n; i++) {
        const Setting *own = &n->config.at[i];
        const Formal *f = formal_of(model, own->value);
        const Expr *plain = f ? f->value : NULL;
        if (!f || value_of(n, c, f->name.name) || user_define(o, f->name.name) ||
            is_unneeded(own) || object_is_absent(n, c, own) ||
            (plain && (plain->kind == EX_NONE || mentions_formal(plain, model))))
            continue;
        diag_error(d, c->loc, "the file has no '%s'", own->name.name);
        diag_help(d, "give the model's parameter: -D %s=VALUE", f->name.name);
    }
}

/* The model_type of the block, or NULL. */
static const Setting *own_type(const NamesDecl *n)
{
    const Setting *own = own_entry(n, "model_type");
    return own && own->value->kind == EX_STRING ? own : NULL;
}

/* The file, or the part of it, that has the model_type of the block; NULL: none. */
static const ConfigFile *part_of_type(const ConfigFile *c, const char *type)
{
    const Setting *s = entry_of(c, "model_type");
    if (s && is_text(s->value, type))
        return c;
    for (int i = 0; i < c->part.n; i++) {
        const ConfigFile *part = part_of_type(c->part.at[i], type);
        if (part)
            return part;
    }
    return NULL;
}

/* The part of the file that describes the model: the file itself, or for the language
 * model of several its text_config. */
static const ConfigFile *part_for(const NamesDecl *n, const ConfigFile *c)
{
    const Setting *own = own_type(n);
    const ConfigFile *part = own ? part_of_type(c, own->value->name) : NULL;
    return part ? part : c;
}

/* Whether the file is of the block's type of models. */
static bool check_model(Diag *d, const NamesDecl *n, const ConfigFile *c)
{
    const Setting *own = own_type(n), *s = entry_of(c, "model_type");
    if (!own || !s || is_text(s->value, own->value->name))
        return true;
    diag_error(d, s->name.loc, "this is no config.json of '%s'", own->value->name);
    return diag_note(d, own->value->range, "here");
}

Setting *const *config_defines(Arena *a, Diag *d, const File *file, const FrontendOptions *o,
                               int *n)
{
    const NamesDecl *names = file->names.n ? file->names.at[0] : NULL;
    const Decl *model = file_model(file);
    const ConfigFile *c = o->config;
    VEC(Setting *) define = {0};
    if (!names || !names->config_word.name) {
        diag_error(d, c->loc, "the model has no block names hf { config { … } }, which says what "
                   "entries mean");
        return NULL;
    }
    c = part_for(names, c);
    if (!check_model(d, names, c))
        return NULL;
    check_unknown(d, names, c);
    check_given(d, names, c, model, o);
    for (int i = 0; i < model->nformals; i++) {
        const Setting *s = value_of(names, c, model->formal[i].name.name);
        if (!s)
            continue;
        Setting *new = NEW(a, Setting);
        *new = (Setting){.name = {model->formal[i].name.name, s->name.loc}, .value = s->value};
        vec_push(a, &define, new);
    }
    for (int i = 0; i < o->ndefines; i++)
        vec_push(a, &define, o->define[i]);
    *n = define.n;
    return define.at;
}

/* ---- values of the model ------------------------------------------------- */

static bool same(Datum x, Datum y)
{
    if (datum_is_number(x) && datum_is_number(y))
        return datum_number(x) == datum_number(y);
    bool equal = x.kind == y.kind && x.nitems == y.nitems;
    for (int i = 0; i < x.nitems && equal; i++)
        equal = same(x.item[i], y.item[i]);
    return equal && (x.kind != DATUM_BOOL || x.integer == y.integer) &&
           (x.kind != DATUM_WORD || strcmp(x.text, y.text) == 0);
}

/* Whether a -D of the command line sets a parameter that an entry reads. */
static bool user_changes(const Lower *l, const Expr *e)
{
    for (int i = 0; i < l->options->ndefines; i++) {
        const Ident *name = &l->options->define[i]->name;
        if (name->loc.file != l->options->config->loc.file && mentions(e, name->name))
            return true;
    }
    return false;
}

bool config_accepts_any(const Lower *l, const Setting *own)
{
    return own->value->kind == EX_NAME && strcmp(own->value->name, "any") == 0 &&
           !formal_of(l->model, own->value);
}

void config_compare(Lower *l, const Setting *own, Datum value)
{
    const ConfigFile *c = l->options->config;
    const Setting *s = c ? entry_of(part_for(l->file->names.at[0], c), file_name(own)) : NULL;
    bool differs = s && s->value && s->value->kind != EX_NONE && value.kind != DATUM_POISON &&
                   !is_unneeded(s) && !user_changes(l, own->value) &&
                   !same(lower_expr(l, s->value), value);
    if (s && !s->value) {
        diag_error(l->diag, s->name.loc, "'%s' is an object; the model has %s",
                   own->name.name, datum_text(l->arena, value));
    } else if (differs) {
        Datum d = lower_expr(l, s->value);
        diag_error(l->diag, s->value->range, "'%s' is %s; the model has %s",
                   own->name.name, datum_text(l->arena, d), datum_text(l->arena, value));
        diag_note(l->diag, own->value->range, "here");
    }
}
