/* report_context.c: prints what attention exchanges over the axis of a context, why, and the
 * bytes of each exchange.
 *
 *   Context cp: exchange=gather (cp cannot split heads; …)
 *     sent by a rank per step: heads 12.00 MiB, gather 9.00 MiB, ring 10.00 MiB
 */
#include "ir/analysis/attention.h"
#include "ir/options.h"
#include "ir/plan/pipeline.h"
#include "ir/plan/user_axes.h"
#include "report/json.h"
#include "report/report.h"

static const Exchange exchanges[] = {EXCHANGE_HEADS, EXCHANGE_GATHER, EXCHANGE_RING};
enum { EXCHANGES = sizeof exchanges / sizeof *exchanges };

/* Bytes that a rank sends in a step for attention and its gradient. */
static double sent(const Program *p, Exchange by)
{
    double bytes = 0;
    for_ops(op, p->step) {
        bool whole = op->kind == OP_attention ||
                     (op->kind == OP_attention_step && attr_first(op));
        if (whole && op->phase == PH_FORWARD)
            bytes += attention_sent(p, op, by) * (double)op_rank_count(p, op);
    }
    return bytes;
}

static bool exchanges_anything(const Program *p)
{
    uint32_t axes = p->plan.context.axes;
    return axes && mesh_group(&p->mesh, axes) > 1;
}

void report_context(Out *o, const Program *p)
{
    const Context *c = &p->plan.context;
    if (!exchanges_anything(p))
        return;
    out_line(o, "\nContext %s: exchange=%s%s%s%s", user_axes_text(p, c->axes),
             option_word(OPTION_exchange, c->exchange), c->chosen ? " (" : "",
             c->chosen ? c->chosen : "", c->chosen ? ")" : "");
    out(o, "  sent by a rank per step:");
    for (int i = 0; i < EXCHANGES; i++)
        out(o, "%s %s %s", i ? "," : "", option_word(OPTION_exchange, exchanges[i]),
            bytes_text(p->arena, (int64_t)sent(p, exchanges[i])));
    out(o, "\n");
}

void report_json_context(Out *o, const Program *p)
{
    const Context *c = &p->plan.context;
    if (!exchanges_anything(p))
        return;
    out(o, "  \"context\": {\"exchange\": \"%s\", \"chosen\": ",
        option_word(OPTION_exchange, c->exchange));
    out_json_string(o, c->chosen ? c->chosen : "");
    out(o, ", \"sent\": {");
    for (int i = 0; i < EXCHANGES; i++)
        out(o, "%s\"%s\": %lld", i ? ", " : "", option_word(OPTION_exchange, exchanges[i]),
            (long long)sent(p, exchanges[i]));
    out(o, "}},\n");
}
