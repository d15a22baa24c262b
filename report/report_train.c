/* report_train.c: prints the training settings in the plan: the optimizer,
 * weight decay, gradient clipping, loss scale and the learning rate's schedule.
 *
 *   optimizer   AdamW, lr 0.0003, weight decay 0.1 of 7 of 12 parameters
 *               gradients are clipped to a norm of 1
 *               lr warms up for 100 steps
 *               lr falls along half a cosine to 3e-05 at step 1000
 */
#include "ir/options.h"
#include "report/report.h"

/* ", weight decay 0.1 of 7 of 12 parameters" */
static const char *decay_text(const Program *p)
{
    Arena *a = p->arena;
    int trained = 0, decayed = 0;
    if (p->train.weight_decay == 0.0)
        return "";
    for (int i = 0; i < p->param.n; i++) {
        const Param *pm = &p->param.at[i];
        bool counts = pm->trainable && pm->state_of < 0;
        trained += counts;
        decayed += counts && pm->decay;
    }
    const char *text = arena_printf(a, ", weight decay %s",
                                    double_text(a, p->train.weight_decay));
    if (decayed == trained)
        return text;
    return arena_printf(a, "%s of %d of %d parameters", text, decayed,
                        trained);
}

static void schedule(Out *o, Arena *a, const LrSchedule *s)
{
    const char *end = "the run's last step";
    if (s->warmup > 0)
        out_line(o, "            lr warms up for %lld step%s",
                 (long long)s->warmup, s->warmup == 1 ? "" : "s");
    if (s->kind == SCHEDULE_CONSTANT)
        return;
    if (s->steps > 0)
        end = arena_printf(a, "step %lld", (long long)s->steps);
    out_line(o, "            lr falls along %s to %s at %s",
             s->kind == SCHEDULE_LINEAR ? "a line" : "half a cosine",
             double_text(a, s->min_lr), end);
}

void report_train(Out *o, const Program *p)
{
    Arena *a = p->arena;
    const Train *t = &p->train;
    out(o, "optimizer   %s, lr %s", option_word(OPTION_optimizer, t->optimizer),
        double_text(a, t->lr));
    if (t->momentum > 0)
        out(o, ", momentum %s", double_text(a, t->momentum));
    out_line(o, "%s", decay_text(p));
    if (t->clip > 0)
        out_line(o, "            gradients are clipped to a norm of %s",
                 double_text(a, t->clip));
    if (t->loss_scale > 0)
        out_line(o, "            the loss is scaled by %s at first",
                 double_text(a, t->loss_scale));
    schedule(o, a, &t->schedule);
    if (t->deterministic)
        out_line(o, "            every run computes the same bits");
}
