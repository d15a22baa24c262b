/* report_optimizer.c: prints the settings of the optimizer's groups of parameters.
 *
 *   optimizer   AdamW, lr 0.003, weight decay 2 of 3 of 7 parameters
 *               lr times 0.1, no weight decay: 1 of 7 parameters
 */
#include "report/report.h"

static bool is_trained(const Param *p)
{
    return p->trainable && p->state_of < 0;
}

static bool has_group(const Param *p)
{
    return p->group.lr_factor > 0 || p->group.weight_decay > 0 || p->group.adamw;
}

static bool has_equal_settings(const Train *t, const Param *p, const Param *q)
{
    return param_optimizer(t, p) == param_optimizer(t, q) &&
           param_lr_factor(p) == param_lr_factor(q) &&
           param_weight_decay(t, p) == param_weight_decay(t, q);
}

const char *param_group_text(const Program *p, const Param *param)
{
    Arena *a = p->arena;
    const Train *t = &p->train;
    double decay = param_weight_decay(t, param);
    const char *own = "", *lr = "", *rest = "";
    if (!has_group(param))
        return "";
    if (param->group.adamw)
        own = option_word(OPTION_group_optimizer, true);
    if (param->group.lr_factor > 0)
        lr = arena_printf(a, "lr times %s",
                          double_text(a, param->group.lr_factor));
    if (decay != t->weight_decay && decay > 0)
        rest = arena_printf(a, "weight decay %s", double_text(a, decay));
    else if (decay != t->weight_decay)
        rest = "no weight decay";
    lr = arena_printf(a, "%s%s%s", own, *own && *lr ? ", " : "", lr);
    return arena_printf(a, "%s%s%s", lr, *lr && *rest ? ", " : "", rest);
}

const char *weight_decay_text(const Program *p)
{
    Arena *a = p->arena;
    int trained = 0, decayed = 0;
    if (p->train.weight_decay == 0.0)
        return "";
    for (int i = 0; i < p->param.n; i++) {
        const Param *pm = &p->param.at[i];
        trained += is_trained(pm);
        decayed += is_trained(pm) && param_weight_decay(&p->train, pm) ==
                                         p->train.weight_decay;
    }
    const char *text = arena_printf(a, ", weight decay %s",
                                    double_text(a, p->train.weight_decay));
    if (decayed == trained)
        return text;
    return arena_printf(a, "%s of %d of %d parameters", text, decayed,
                        trained);
}

void report_param_groups(Out *o, const Program *p)
{
    for (int i = 0; i < p->param.n; i++) {
        const Param *pm = &p->param.at[i];
        int equal = 0, earlier = 0, trained = 0;
        for (int k = 0; k < p->param.n; k++) {
            const Param *q = &p->param.at[k];
            bool same = is_trained(q) && has_equal_settings(&p->train, q, pm);
            trained += is_trained(q);
            equal += same;
            earlier += same && k < i;
        }
        if (is_trained(pm) && has_group(pm) && earlier == 0)
            out_line(o, "            %s: %d of %d parameters",
                     param_group_text(p, pm), equal, trained);
    }
}
