/* report_unsharded.c: notes that parameters outside every FSDP unit stay
 * replicated.
 *
 *   fully_shard dp { blocks.* }     the embedding, the last norm and the head
 *                                   are on every rank of dp
 *
 * PyTorch's fully_shard(model) puts what its inner units leave into the root's
 * unit; a plan that names only the layers looks the same and is not.
 */
#include "ir/units.h"
#include "report/report.h"

enum { LEAST_PART = 20, NAMES = 3 }; /* least part of a rank's parameters and
                                       * states: 1/LEAST_PART */

typedef struct Rest {
    int64_t bytes, all; /* of parameters and states on a rank: those without a
                         * unit, and all */
    int n;              /* parameters without a unit */
    const char *names;  /* "a, b, c" */
    uint32_t axes;      /* that units shard over */
    Loc loc;            /* of the first unit that shards */
} Rest;

static void add_param(const Program *p, int i, Rest *r)
{
    const Param *q = &p->param.at[i];
    const Unit *u = sharding_unit(p, i);
    int64_t bytes = type_local_bytes(&q->type, &p->mesh);
    if (q->init.kind == INIT_COPY) /* of the compute type */
        return;
    r->all += bytes;
    if (u) {
        r->loc = r->axes ? r->loc : u->loc;
        r->axes |= unit_axes(p, u);
    }
    if (unit_of_param(p, i))
        return;
    r->bytes += bytes;
    if (q->state_of >= 0)
        return;
    if (r->n < NAMES)
        r->names = arena_printf(p->arena, "%s%s%s", r->names,
                                r->n ? ", " : "", q->name);
    r->n++;
}

void report_unsharded(const Program *p)
{
    Rest r = {.names = ""};
    for (int i = 0; i < p->param.n; i++)
        add_param(p, i, &r);
    if (!r.axes || r.bytes == 0 || r.bytes * LEAST_PART < r.all)
        return;
    const char *more =
        r.n > NAMES ? arena_printf(p->arena, " and %d more", r.n - NAMES) : "";
    const char *axes = user_axes_text(p, r.axes);
    diag_note(p->diag, r.loc, "%s%s %s in no unit: every rank of '%s' stores "
              "all of %s (%s of parameters and optimizer states)",
              r.names, more, r.n == 1 ? "is" : "are", axes,
              r.n == 1 ? "it" : "them", bytes_text(p->arena, r.bytes));
    diag_help(p->diag, "add 'model' to 'fully_shard' for one unit of the rest, "
              "as PyTorch's fully_shard(model)");
}
