/* fuse_name.c: names kernels by the module that most of their ops come from and
 * by what they compute.
 *
 *   attention_norm, feed_forward_silu, cross_entropy_grad,
 *   adamw_layers_attention_wq_weight
 */
#include <string.h>

#include "ir/options.h"
#include "ir/path.h"
#include "passes/fusion/fuse.h"

static bool has(const OpList *ops, OpKind kind)
{
    for (int i = 0; i < ops->n; i++)
        if (ops->at[i]->kind == kind)
            return true;
    return false;
}

/* Known functions by two ops that identify them; the first match counts. */
typedef struct Pattern {
    OpKind has[2];
    const char *name;
} Pattern;

static const Pattern patterns[] = {
    {{OP_onehot, OP_exp}, "cross_entropy"},
    {{OP_onehot, OP_onehot}, "pick"},
    {{OP_max, OP_exp}, "softmax"},
    {{OP_rsqrt, OP_sum}, "norm"},
    {{OP_rotary, OP_rotary}, "rope"},
    {{OP_random, OP_less}, "dropout"},
    {{OP_sigmoid, OP_mul}, "silu"},
    {{OP_erf, OP_mul}, "gelu"},
    {{OP_gelu, OP_gelu}, "gelu"},
    {{OP_gelu_grad, OP_gelu_grad}, "gelu"},
    {{OP_tanh, OP_mul}, "gelu"},
    {{OP_relu, OP_relu}, "relu"},
    {{OP_step, OP_step}, "relu"},
    {{OP_sumsq, OP_sumsq}, "sumsq"},
};

/* The names of up to three of the ops, in order. */
static const char *op_names(Arena *a, const OpList *ops)
{
    const char *text = "";
    int n = 0;
    bool seen[OP_COUNT] = {false};
    for (int i = 0; i < ops->n && n < 3; i++) {
        OpKind kind = ops->at[i]->kind;
        if (seen[kind] || fuse_is_view(kind) || kind == OP_broadcast ||
            (kind == OP_full && ops->n > 1))
            continue;
        seen[kind] = true;
        text = arena_printf(a, "%s%s%s", text, n++ ? "_" : "",
                            op_info(kind)->name);
    }
    return text;
}

static const char *what(Arena *a, const OpList *ops)
{
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (has(ops, patterns[i].has[0]) && has(ops, patterns[i].has[1]))
            return patterns[i].name;
    return op_names(a, ops);
}

/* The last segment of a path that is a name: "layers.*.attention" → attention,
 * "layers.0-3" → layers. */
static const char *last_name(Arena *a, const char *path)
{
    for (int i = path_depth(path) - 1; i >= 0; i--) {
        size_t size;
        const char *segment = path_segment(path, i, &size);
        PathRange r;
        if (*segment != '*' && !path_range(segment, size, &r))
            return arena_strndup(a, segment, size);
    }
    return "";
}

static const char *common_path(const OpList *ops)
{
    const char *best = "";
    int most = 0;
    for (int i = 0; i < ops->n; i++) {
        int n = 0;
        for (int k = 0; k < ops->n; k++)
            n += strcmp(ops->at[k]->path, ops->at[i]->path) == 0;
        if (n > most && *ops->at[i]->path) {
            most = n;
            best = ops->at[i]->path;
        }
    }
    return best;
}

/* The producer of v, or of the stack that v is a slice of: updates of stacks
 * may be loops. */
static const Op *producer_of(const Value *v)
{
    while (!v->def && v->region->owner && v->region->owner->kind == OP_loop &&
           v->index >= v->region->owner->ncarry)
        v = v->region->owner->arg[v->index];
    return v->def;
}

/* The parameter that an update reads; NULL: none. */
static const char *parameter(const Program *p, const OpList *ops)
{
    for (int i = 0; i < ops->n; i++)
        for (int k = 0; k < ops->at[i]->nargs; k++) {
            const Op *def = producer_of(ops->at[i]->arg[k]);
            if (!def || def->kind != OP_param)
                continue;
            const Param *param = &p->param.at[attr_param(def)];
            if (param->state_of >= 0)
                param = &p->param.at[param->state_of];
            return param->name;
        }
    return NULL;
}

static const char *phase_suffix(const OpList *ops)
{
    bool back = false, forward = false;
    for (int i = 0; i < ops->n; i++) {
        back |= ops->at[i]->phase == PH_BACKWARD;
        forward |= ops->at[i]->phase == PH_FORWARD;
    }
    return !back ? "" : forward ? "_and_grad" : "_grad";
}

/* "layers.*.wq.weight" -> layers_wq_weight */
static const char *identifier(Arena *a, const char *name)
{
    char *s = arena_strdup(a, name), *to = s;
    for (const char *from = s; *from; from++) {
        bool plain = (*from >= 'a' && *from <= 'z') ||
                     (*from >= 'A' && *from <= 'Z') ||
                     (*from >= '0' && *from <= '9');
        if (plain)
            *to++ = *from;
        else if (to > s && to[-1] != '_')
            *to++ = '_';
    }
    while (to > s && to[-1] == '_')
        to--;
    *to = 0;
    return *s ? s : "kernel";
}

static const char *compose_name(Program *p, const OpList *ops)
{
    Arena *a = p->arena;
    const char *param = parameter(p, ops);
    if (ops->at[0]->phase == PH_OPTIMIZER && param && ops->n > 1)
        return arena_printf(a, "%s %s",
                            option_dump_word(a, &option_rows[OPTION_optimizer],
                                             p->train.optimizer),
                            param);
    const char *label = what(a, ops);
    const char *module = last_name(a, common_path(ops));
    const char *suffix = phase_suffix(ops);
    if (has(ops, OP_onehot) && has(ops, OP_exp))
        return arena_printf(a, "%s%s", label, suffix);
    bool norm = strstr(module, "norm") && has(ops, OP_sum);
    if (!*module || strstr(module, label) || norm)
        return arena_printf(a, "%s%s", *module ? module : label, suffix);
    return arena_printf(a, "%s %s%s", module, label, suffix);
}

const char *fuse_name(Program *p, const OpList *ops, TextMap *used)
{
    return text_map_unique(used, identifier(p->arena, compose_name(p, ops)),
                           '_');
}
