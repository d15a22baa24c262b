/* side_program.c: keeps a side program consistent with its training step.
 *
 * A model is compiled to a training step and to side programs: FOR_LOSS
 * evaluates the loss of a batch, FOR_OUTPUTS the outputs of one microbatch, both without
 * dropout, gradients and updates; FOR_ROUNDS is the training step with experts in rounds.
 * They run between training steps, on the same ranks and in the same arena, and
 * read the same parameters. Each is a Program of its own; the pipeline runs every pass
 * on the training step first and then on its side programs. Most passes need no change.
 * The exceptions are
 *
 *   autodiff   adds nothing to a program without gradients
 *   storage, share_params, lowp_copies
 *              the training step decides which units stay gathered, which
 *              gathered parameters ranks share, and which casts of parameters
 *              become reads of low-precision copies
 *   memory     parameters and copies have the training step's offsets; other
 *              tensors begin after all that the training step keeps between
 *              steps (MemoryPlan.resident), and overwrite the rest. The arena
 *              is as large as the largest program needs
 *
 *   arena   | parameters, copies, states, constants | activations …
 *   training  ------------- resident --------------- | one training step
 *   loss      reads parameters and copies           | one evaluation
 *
 * The runtime executes a side program between two training steps, with a
 * barrier before and after it.
 */
#include "passes/side_program.h"

#include "ir/analysis/alias.h"
#include "ir/options.h"

#include <string.h>

const Param *side_param(const Program *p, const Param *pm)
{
    const Program *t = p->training;
    if (!t)
        return NULL;
    /* Both are lowered from one file: the parameters have the same numbers, but
     * not the states after them. */
    int64_t i = pm - p->param.at;
    if (i < t->param.n && !strcmp(t->param.at[i].name, pm->name))
        return &t->param.at[i];
    int at = ir_param_index(t, pm->name);
    return at < 0 ? NULL : &t->param.at[at];
}

void side_follow(Program *p)
{
    for (int i = 0; p->training && i < p->param.n; i++) {
        Param *pm = &p->param.at[i];
        const Param *of = side_param(p, pm);
        if (!of)
            continue;
        pm->gathered = of->gathered;
        pm->shared = of->shared;
        pm->host = of->host;
    }
}

static bool same_storage(const Program *p, const Param *a, const Param *b)
{
    const Address *at =
        a->value && p->memory ? value_address(a->value) : NULL;
    return type_same_shape(&a->type, &b->type) &&
           a->type.dtype == b->type.dtype && a->gathered == b->gathered &&
           a->shared == b->shared && a->host == b->host &&
           !memcmp(&a->type.place, &b->type.place, sizeof a->type.place) &&
           !memcmp(a->pad, b->pad, sizeof a->pad) && (!at || at->block >= 0);
}

const char *side_differs(const Program *p)
{
    const Mesh *m = &p->mesh, *of = &p->training->mesh;
    bool same = m->n == of->n;
    for (int a = 0; a < m->n && same; a++)
        same = m->size[a] == of->size[a];
    if (!same)
        return "the mesh";
    for (int i = 0; i < p->param.n; i++) {
        const Param *pm = &p->param.at[i], *t = side_param(p, pm);
        if (!t || !same_storage(p, pm, t))
            return pm->name;
    }
    return NULL;
}

/* A step that cannot be repeated in rounds needs buffers for all rows. */
static void refuse_rounds(Program *p, const char *what)
{
    diag_error(p->diag, p->plan.experts.item->loc, "'%s' would have another layout in a step that "
               "computes experts in rounds", what);
    diag_help(p->diag, "write '%s=none' after the modules in the clause %s",
              option_name(OPTION_buffer), clause_name(CL_EXPERT_PARALLEL));
}

void side_drop(Program *p)
{
    for (int k = 0; k < PURPOSES; k++) {
        const char *what =
            p->side[k] ? side_differs(p->side[k]) : NULL;
        if (!what)
            continue;
        if (k == FOR_ROUNDS) {
            refuse_rounds(p, what);
            continue;
        }
        diag_note(p->diag, (Loc){0},
                  "the program has no %s: '%s' would have another layout there "
                  "than in the training step",
                  k == FOR_LOSS ? "--val and --eval" : "--sample", what);
        p->side[k] = NULL;
    }
    const Program *f = p->side[FOR_OUTPUTS];
    if (f && f->repeats && f->repeats != p && !p->side[FOR_LOSS])
        p->side[FOR_OUTPUTS] = NULL; /* a part of the dropped program */
}
