/* option_help.c: helps with names that are no options: names of PyTorch and of
 * trainers built on it, options in the wrong place, and near misses.
 *
 *   train { lr = 1e-3 }   it is an argument of the optimizer: optimizer =
 *                         NAME(lr=…)
 */
#include <string.h>

#include "base/text.h"
#include "frontend/options/options.h"

/* ---- names of other libraries -------------------------------------------- */

/* Other names of options. */
static const struct OtherName {
    const char *name;
    OptionName is;
} other_names[] = {
    {"batch_size", OPTION_batch},
    {"train_batch_size", OPTION_batch},
    {"global_batch_size", OPTION_batch},
    {"per_device_train_batch_size", OPTION_batch},
    {"micro_batches", OPTION_accumulate},
    {"gradient_accumulation_steps", OPTION_accumulate},
    {"accumulate_grad_batches", OPTION_accumulate},
    {"clip_grad_norm", OPTION_clip},
    {"clip_grad_norm_", OPTION_clip},
    {"max_grad_norm", OPTION_clip},
    {"max_norm", OPTION_clip},
    {"gradient_clip_val", OPTION_clip},
    {"grad_clip", OPTION_clip},
    {"seq_len", OPTION_seq},
    {"seq_length", OPTION_seq},
    {"block_size", OPTION_seq},
    {"max_seq_len", OPTION_seq},
    {"dtype", OPTION_precision},
    {"reduce_dtype", OPTION_reduce},
    {"scheduler", OPTION_schedule},
    {"lr_scheduler", OPTION_schedule},
    {"warmup_steps", OPTION_warmup},
    {"milestones", OPTION_after},
    {"boundaries", OPTION_after},
    {"decay_steps", OPTION_decay},
    {"num_decay_steps", OPTION_decay},
    {"decay_type", OPTION_shape},
    {"end_lr", OPTION_min_lr},
    {"grad_scaler", OPTION_loss_scale},
    {"learning_rate", OPTION_lr},
    {"no_weight_decay", OPTION_no_decay},
    {"param_groups", OPTION_groups},
    {"lr_mult", OPTION_lr_factor},
    {"lr_scale", OPTION_lr_factor},
    {"reshard_after_forward", OPTION_reshard},
    {"sharding_strategy", OPTION_strategy},
    {"limit_all_gathers", OPTION_prefetch},
    {"forward_prefetch", OPTION_prefetch},
    {"backward_prefetch", OPTION_prefetch},
};

/* Names of what parc does not have as an option. */
static const struct ForeignOption {
    const char *name, *help;
} foreign_options[] = {
    {"mesh", "the axis follows the word: fully_shard dp { … }"},
    {"mp_policy", "write precision=bf16 and reduce=f32 in train"},
    {"mixed_precision", "write precision=bf16 and reduce=f32 in train"},
    {"offload_policy", "write offload { optimizer, parameters } in the plan"},
    {"cpu_offload", "write offload { optimizer, parameters } in the plan"},
    {"auto_wrap_policy", "write the units as items: every Block, "
                         "or min_params=N"},
    {"use_orig_params", "omit it: parc always keeps the parameters apart"},
    {"sync_module_states", "omit it: every rank computes the same initial "
                           "values"},
    {"foreach", "omit it: the update is compiled to few kernels"},
    {"fused", "omit it: the update is compiled to few kernels"},
    {"capturable", "omit it: the update can always be captured"},
    {"amsgrad", "parc has Adam and AdamW without this variant"},
    {"use_muon", "write Muon(…, groups=group(\"PATTERN\", optimizer=AdamW)) for the "
                 "parameters that Muon does not update"},
    {"params", "groups have patterns of names: group(\"*.bias\", …)"},
    {"epochs", "the length of a run is an option of the program: ./train "
               "--epochs N"},
    {"max_epochs", "the length of a run is an option of the program: ./train "
                   "--epochs N"},
    {"max_steps", "the length of a run is an option of the program: ./train "
                  "--steps N"},
    {"seed", "the seed is an option of the program: ./train --seed N"},
    {"compile", "omit it: parc always compiles the whole step"},
};

static const struct ForeignWord {
    const char *name, *own;
} foreign_words[] = {
    {"fp16", "f16"},    {"float16", "f16"},    {"half", "f16"},
    {"16", "f16"},      {"16-mixed", "f16"},   {"16-true", "f16"},
    {"fp32", "f32"},    {"float32", "f32"},    {"float", "f32"},
    {"32", "f32"},      {"32-true", "f32"},    {"bfloat16", "bf16"},
    {"bf16-mixed", "bf16"}, {"bf16-true", "bf16"},
    {"FULL_SHARD", "full_shard"}, {"SHARD_GRAD_OP", "shard_grad_op"},
    {"NO_SHARD", "no_shard"}, {"HYBRID_SHARD", "hybrid_shard"},
};

const char *option_foreign_word(const char *word)
{
    const struct ForeignWord *w = table_find(foreign_words, word);
    return w ? w->own : NULL;
}

/* ---- options in the wrong place ------------------------------------------ */

static const char *clause_of(OptionScope scope)
{
    for (int k = 0; k < CLAUSES; k++)
        if (clause_rows[k].scope == scope)
            return clause_rows[k].name;
    return NULL;
}

/* Where an option of another scope is written. */
static const char *own_place(Arena *a, const Option *o)
{
    const char *call = o->scope == SCOPE_OPTIMIZER
                           ? option_name(OPTION_optimizer)
                       : o->scope == SCOPE_SCHEDULE
                           ? option_name(OPTION_schedule) : NULL;
    if (o->scope == SCOPE_GROUP && o->size > 0)
        return arena_printf(a, "it is an argument of a group: %s=group("
                            "\"PATTERN\", %s=…)", option_name(OPTION_groups),
                            o->name);
    if (call)
        return arena_printf(a, "it is an argument of the %s: %s = NAME(%s=…)",
                            call, call, o->name);
    if (o->scope == SCOPE_TRAIN)
        return arena_printf(a, "it is a setting of train: %s = …", o->name);
    if (!option_is_usable(o) || !clause_of(o->scope))
        return NULL;
    return arena_printf(a, "it is an option of an item of %s in a plan: PATH: "
                        "%s=…", clause_of(o->scope), o->name);
}

const char *option_foreign(Arena *a, OptionScope scope, const char *name)
{
    const struct ForeignOption *f = table_find(foreign_options, name);
    const struct OtherName *n = table_find(other_names, name);
    const Option *is = n ? &option_rows[n->is] : NULL;
    if (f)
        return f->help;
    if (is && is->scope == scope && is->takes == TAKES_FLAG)
        return arena_printf(a, "write %s=true or %s=false", is->name,
                            is->name);
    if (is && is->scope == scope)
        return arena_printf(a, "write %s=…: %s", is->name, is->help);
    if (is)
        return arena_printf(a, "parc's name is '%s'; %s", is->name,
                            own_place(a, is));
    for (const Option *o = option_rows; o < option_rows + OPTIONS; o++) {
        const char *place = o->scope != scope && strcmp(o->name, name) == 0
                                ? own_place(a, o) : NULL;
        if (place)
            return place;
    }
    return NULL;
}

const char *option_define_help(Arena *a, const char *name)
{
    static const OptionScope scopes[] = {SCOPE_TRAIN, SCOPE_OPTIMIZER,
                                         SCOPE_SCHEDULE};
    char *word = arena_strdup(a, name);
    for (char *c = word; *c; c++)
        *c = *c == '-' ? '_' : *c;
    const struct OtherName *n = table_find(other_names, word);
    const Option *is = n ? &option_rows[n->is] : NULL;
    for (int i = 0; i < 3 && !is; i++)
        is = option_find(scopes[i], word);
    if (is && option_prefix(is->scope))
        return arena_printf(a, "write -D %s%s=VALUE", option_prefix(is->scope),
                            is->name);
    return option_foreign(a, SCOPE_TRAIN, word);
}

/* ---- near misses --------------------------------------------------------- */

void options_add_names(NameList *l, OptionScope scope)
{
    for (const Option *o = option_rows; o < option_rows + OPTIONS; o++)
        if (o->scope == scope && option_is_usable(o))
            names_add(l, o->name, (Loc){0});
}

void option_help(Lower *l, OptionScope scope, const char *name)
{
    const char *foreign = option_foreign(l->arena, scope, name);
    NameList names = {.arena = l->arena};
    options_add_names(&names, scope);
    if (foreign)
        diag_help(l->diag, "%s", foreign);
    else
        names_suggest_or_list(l->diag, &names, name);
}
