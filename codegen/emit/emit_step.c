/* emit_step.c: emits train.c's functions, which compute a step.
 *
 *   forward, backward, optimizer   the phases of a step
 *   step             calls the phases in order
 *   init_constants   runs once: creates the descriptors of matmuls, computes
 *                    constants (the ops of the phase init)
 *   forward_attention, …   the parts of the phases (emit_parts.c)
 *   eval_init, eval_begin, eval_run   the functions of a forward program
 *                    (ParcEval), and the parts of eval_run
 *
 * emit_region (emit_streams.c) emits the statements, waits, records and barriers
 * of a region in their order.
 */
#include "codegen/emit/emitter.h"

/* Emits "void name(ParcRt *rt)" and declares it in model.h. */
static void function_named(Emitter *e, Function *f, const char *name)
{
    const char *head = arena_printf(e->p->arena, "void %s(ParcRt *rt)", name);
    out_line(f->enclosing, "");
    function_end(e, f, head, f->enclosing);
    out_line(&e->files->model_h, "%s;", head);
}

/* The statements of a phase; its parts follow in e->parts. */
static void phase_function(Emitter *e, const char *name, Phase phase)
{
    Function f;
    function_begin(e, &f);
    emit_region(e, e->p->step, &phase);
    function_named(e, &f, name);
}

/* What runs once: the creation of descriptors and, if `constants`, the ops of
 * the phase init. */
static void init_function(Emitter *e, const char *name, bool constants)
{
    static const Phase init = PH_INIT;
    Function f;
    function_begin(e, &f);
    emit_matmuls(e, e->p->step);
    if (e->cuda)
        emit_attentions(e, e->p->step);
    if (constants)
        emit_region(e, e->p->step, &init);
    function_named(e, &f, name);
}

/* The functions of a forward program. */
static void forward_functions(Emitter *e)
{
    static const char *const meaning[PURPOSES] = {
        [FOR_LOSS] = "Evaluation: the loss of a batch, without dropout.",
        [FOR_OUTPUTS] = "The model's outputs for one microbatch."};
    Arena *a = e->p->arena;
    const char *word = forward_word(e->p);
    Out parts;
    out_init(&parts, a);
    out_line(e->o, "\n/* ---- %s ---- */", meaning[e->p->purpose]);
    e->parts = &parts;
    phase_function(e, arena_printf(a, "%s_run", word), PH_FORWARD);
    e->parts = NULL;
    init_function(e, arena_printf(a, "%s_init", word), false);
    phase_function(e, arena_printf(a, "%s_begin", word), PH_INIT);
    out_bytes(e->o, parts.text, parts.size);
}

static void step_function(Emitter *e)
{
    Out *o = e->o;
    out(o,
        "\nvoid step(ParcRt *rt)\n{\n"
        "    forward(rt);\n"
        "    backward(rt);\n%s"
        "    optimizer(rt);\n}\n",
        e->cuda ? ""
                : "    if (parc_goes_on(rt)) /* the loss is finite */\n    ");
    out_line(&e->files->model_h, "void step(ParcRt *rt);");
}

void emit_step_functions(Emitter *e)
{
    int nmatmuls = numbers_all(e->p).matmuls;
    Out parts;
    out_init(&parts, e->p->arena);
    if (nmatmuls) {
        out_line(e->o,
                 "\n/* Descriptors, made once; a call sets the addresses. */");
        out_line(e->o, "static ParcMatmul *matmul[%d];", nmatmuls);
    }
    e->parts = &parts;
    phase_function(e, "forward", PH_FORWARD);
    phase_function(e, "backward", PH_BACKWARD);
    phase_function(e, "optimizer", PH_OPTIMIZER);
    e->parts = NULL;
    step_function(e);
    init_function(e, "init_constants", true);
    out_bytes(e->o, parts.text, parts.size);
    for (Emitter *f = e->next; f; f = f->next)
        forward_functions(f);
}
