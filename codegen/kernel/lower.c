/* lower.c: lowers the parts of a kernel that all targets have in common to
 * loops (lower.h). For each phase of a row (kernel.h):
 *
 *   row values                  LET r3 = r2 * 0.25
 *   stores and sums of a row    y[i0] = r3; UPDATE a7 with r3
 *   row reductions begin        SUM r5
 *   the target's loops over columns, and in them for each element
 *     its values                LET t4 = t0 * r3
 *     reductions, sums, stores  UPDATE r5 with t4; out1[e] = t4
 *   row reductions end          FINISH r5
 */
#include "codegen/kernel/lower.h"

/* ---- stores and sums ----------------------------------------------------- */

static void store(Lowering *c, const KernelRoot *root)
{
    const KernelBuffer *b = &c->k->buffer[root->target];
    for (int lane = 0; lane < kernel_lanes(c->k, b->axes); lane++) {
        const char *value = kernel_value(c, root->instr, lane);
        const char *at = root->element && !root->epilogue
                             ? c->target->element(c, root->target, lane)
                             : kernel_element(c, b, lane);
        if (root->element && !root->epilogue && c->target->is_vector &&
            c->target->is_vector(c, root->target))
            lower_line(c, "%s = %s;", at, value);
        else
            lower_line(c, "%s", kernel_stored(c, b, at, value));
    }
}

/* Adds an element, in each lane of the columns, to a row reduction. */
static void reduce(Lowering *c, const KernelRoot *root)
{
    const KernelInstr *to = &c->k->instr[root->target];
    if (c->target->reduce && c->target->reduce(c, root))
        return;
    for (int lane = 0; lane < kernel_lanes(c->k, c->k->space.column); lane++)
        lower_add(c, (Stmt){.code = STMT_UPDATE,
                            .op = to->op,
                            .source = to->source,
                            .over_columns = true,
                            .name = kernel_value(c, root->target, 0),
                            .text = kernel_value(c, root->instr, lane)});
}

/* Adds an element or a row's value to a sum over rows. */
static void accumulate(Lowering *c, const KernelRoot *root)
{
    const KernelInstr *to = &c->k->instr[root->target];
    bool columns = c->k->total[to->accumulator].columns;
    int lanes = root->element ? kernel_lanes(c->k, c->k->space.column) : 1;
    for (int lane = 0; lane < lanes; lane++)
        lower_update(c, to->op, to->source,
                     columns ? c->target->column_sum(c, root->target, lane)
                             : lower_text(c, "a%d", root->target),
                     kernel_value(c, root->instr, lane));
}

static void (*const lower_root[])(Lowering *, const KernelRoot *) = {
    [ROOT_STORE] = store, [ROOT_REDUCE] = reduce, [ROOT_TOTAL] = accumulate};

static void row_roots(Lowering *c, int phase)
{
    Stmt *outer = c->at;
    for (int r = 0; r < c->k->nroots; r++) {
        const KernelRoot *root = &c->k->root[r];
        if (root->epilogue || root->phase != phase || root->element)
            continue;
        bool guard = *c->first && (root->kind == ROOT_STORE || c->once);
        if (guard && c->at == outer)
            lower_if(c, "%s", c->first);
        if (!guard)
            c->at = outer;
        lower_root[root->kind](c, root);
    }
    c->at = outer;
}

/* ---- phases -------------------------------------------------------------- */

void lower_elements(Lowering *c, int phase)
{
    const KernelPhase *p = &c->phase[phase];
    for (int i = 0; i < p->nelement; i++) {
        const KernelStep *step = &p->element[i];
        int n = step->instr;
        if (step->early && !c->target->kept(c, n, 0))
            continue;
        if (!step->reused)
            kernel_compute(c, n);
        for (int lane = 0; lane < kernel_lanes(c->k, c->k->instr[n].axes);
             lane++) {
            const char *kept = step->reused || !c->target->kept
                                   ? NULL
                                   : c->target->kept(c, n, lane);
            if (step->reused)
                lower_var(c,
                          lower_text(c, "const %s",
                                     c_value_type(c->k->instr[n].dtype)),
                          kernel_value(c, n, lane),
                          c->target->reused(c, step, lane));
            else if (kept)
                lower_line(c, "%s = %s;", kept, kernel_value(c, n, lane));
        }
    }
    static const RootKind order[] = {ROOT_REDUCE, ROOT_TOTAL, ROOT_STORE};
    for (int o = 0; o < 3; o++)
        for (int r = 0; r < c->k->nroots; r++) {
            const KernelRoot *root = &c->k->root[r];
            if (!root->epilogue && root->phase == phase && root->element &&
                root->kind == order[o])
                lower_root[order[o]](c, root);
        }
}

/* A PICK (kernel_online.c) is the element in one column of the row. Every
 * thread of the row computes it, so that no exchange is needed. */
static void pick(Lowering *c, int instr)
{
    const KernelInstr *p = &c->k->instr[instr];
    const char *column = kernel_value(c, c->k->instr[p->arg[1]].arg[0], 0);
    const char *there =
        lower_text(c, "%s >= 0 && %s < %lld", column, column,
                   (long long)space_size(&c->k->space, c->k->space.column));
    if (p->arg[0] == p->arg[1]) {
        lower_value(c, instr, 0,
                    lower_text(c, "parc_select(%s, 1.0f, 0.0f)", there));
        return;
    }
    Stmt *outer = c->at;
    const char *name = kernel_value(c, instr, 0);
    lower_var(c, c_value_type(p->dtype), name, "0");
    lower_if(c, "%s", there);
    lower_let(c, lower_text(c, "const %s", c->column_type), c->inner, "%s",
              column);
    kernel_compute(c, p->arg[0]);
    lower_line(c, "%s = %s;", name, kernel_value(c, p->arg[0], 0));
    c->at = outer;
}

static void row_values(Lowering *c, const KernelPhase *phase, bool hoisted)
{
    for (int i = 0; i < phase->nrow; i++) {
        int n = phase->row[i];
        if ((c->hoisted && c->hoisted[n]) != hoisted)
            continue;
        if (c->k->instr[n].code == KERNEL_PICK)
            pick(c, n);
        else
            kernel_compute(c, n);
    }
}

void lower_hoisted(Lowering *c)
{
    for (int n = 0; n < c->nphases; n++)
        row_values(c, &c->phase[n], true);
}

void lower_row(Lowering *c)
{
    for (int n = 0; n < c->nphases; n++) {
        row_values(c, &c->phase[n], false);
        row_roots(c, n);
        if (!c->phase[n].loop)
            continue;
        for (int r = 0; r < c->k->nroots; r++)
            if (c->k->root[r].kind == ROOT_REDUCE && c->k->root[r].phase == n)
                lower_add(c, (Stmt){.code = STMT_SUM,
                                    .op = c->k->instr[c->k->root[r].target].op,
                                    .name = kernel_value(
                                        c, c->k->root[r].target, 0)});
        c->target->columns(c, n);
        c->target->finish(c, n);
    }
}

/* ---- the epilogue -------------------------------------------------------- */

const char *lower_start(const Lowering *c, int instr)
{
    return c->k->instr[instr].op == OP_max ? "-INFINITY" : "0.0f";
}

void lower_total(Lowering *c, int instr, int lane, const char *value)
{
    c->epilogue = true;
    lower_value(c, instr, lane, value);
    c->epilogue = false;
}

static void epilogue_stores(Lowering *c, bool element)
{
    for (int r = 0; r < c->k->nroots; r++) {
        const KernelRoot *root = &c->k->root[r];
        const KernelInstr *instr = &c->k->instr[root->instr];
        bool direct = instr->code == KERNEL_TOTAL &&
                      c->k->total[instr->accumulator].direct;
        if (root->kind == ROOT_STORE && root->epilogue && !direct &&
            root->element == element)
            store(c, root);
    }
}

void lower_task_epilogue(Lowering *c, const char *one)
{
    Stmt *outer = c->at;
    c->epilogue = true;
    for (int i = 0; i < c->k->nkept; i++)
        kernel_compute(c, c->k->kept[i]);
    if (*one)
        lower_if(c, "%s", one);
    epilogue_stores(c, false);
    c->at = outer;
    c->epilogue = false;
}

void lower_column_epilogue(Lowering *c)
{
    c->epilogue = true;
    for (int i = 0; i < c->k->ncolumn; i++)
        kernel_compute(c, c->k->column[i]);
    epilogue_stores(c, true);
    c->epilogue = false;
}
