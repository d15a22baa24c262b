/* emit_step.c: emits train.c's functions, which compute a step.
 *
 *   forward, backward, optimizer   the phases of a step
 *   step             calls the phases in order
 *   init_constants   runs once: creates the descriptors of matmuls and
 *                    convolutions, computes constants (the ops of the phase init)
 *   forward_attention, …   the parts of the phases (emit_parts.c)
 *   eval_init, eval_begin, eval_run   the functions of a side program
 *                    (ParcProgram), and the parts of eval_run. One that repeats
 *                    another program calls the functions of the other where
 *                    their statements are the same
 *   rounds_run       the same of a training step in rounds, which calls
 *                    rounds_forward, rounds_backward and rounds_optimizer
 *
 * emit_region (emit_streams.c) emits the statements, waits, records and barriers
 * of a region in their order.
 */
#include "codegen/emit/emitter.h"

/* Creates the descriptors of library calls. */
static void emit_descriptors(Emitter *e)
{
    emit_matmuls(e);
    emit_convs(e);
    if (e->cuda)
        emit_attentions(e);
}

/* A function of the training step. */
static void training_function(Emitter *e, const char *name, Phase phase)
{
    Function f;
    function_begin(e, &f);
    if (phase == PH_INIT)
        emit_descriptors(e);
    emit_region(e, e->p->step, &phase);
    function_end(e, &f, name, f.enclosing);
}

/* A function of a program beside the training step, "eval_run"; without a phase that
 * which creates descriptors. */
static const char *side_function(Emitter *e, const char *what,
                                    const Phase *phase)
{
    Function f;
    function_begin(e, &f);
    if (phase)
        emit_region(e, e->p->step, phase);
    else
        emit_descriptors(e);
    return function_share(e, &f, arena_printf(e->p->arena, "%s_%s", e->word, what),
                          "ParcRt *rt", "", f.enclosing);
}

/* Writes the function that calls those of the phases; `word`: "", or "rounds_". */
static void step_function(Emitter *e, const char *name, const char *word)
{
    const char *loss = value_offset(e, program_output(e->p, "loss"));
    out(e->o,
        "\nvoid %s(ParcRt *rt)\n{\n"
        "    %sforward(rt);\n"
        "    %sbackward(rt);\n%s"
        "    %soptimizer(rt);\n}\n",
        name, word, word,
        e->cuda ? ""
                : arena_printf(e->p->arena, "    if (parc_goes_on(rt, %s)) /* the loss is "
                               "finite */\n    ", loss),
        word);
    out_line(&e->files->model_h, "void %s(ParcRt *rt);", name);
}

/* The phases of a program that trains in rounds, and the function that calls them. */
static const char *rounds_function(Emitter *e)
{
    static const Phase phase[] = {PH_FORWARD, PH_BACKWARD, PH_OPTIMIZER};
    const char *word = e->word;
    for (int i = 0; i < 3; i++) {
        const char *name = arena_printf(e->p->arena, "%s_%s", word, phase_name(phase[i]));
        e->word = name;
        training_function(e, name, phase[i]);
    }
    e->word = word;
    const char *run = arena_printf(e->p->arena, "%s_run", word);
    step_function(e, run, arena_printf(e->p->arena, "%s_", word));
    return run;
}

/* The functions of the side program of f. Where it repeats another program,
 * it reads that program's constants; those of the training step exist from the
 * start on. */
static void side_functions(Emitter *f)
{
    static const char *const meaning[PURPOSES] = {
        [FOR_LOSS] = "Evaluation: the loss of a batch, without dropout",
        [FOR_OUTPUTS] = "The model's outputs for one microbatch",
        [FOR_ROUNDS] = "A training step that overflowed the buffers of experts, in rounds"};
    Emitter *e = f->of ? f->of : f;
    Out *to = e->o, text, parts;
    out_init(&text, e->p->arena);
    out_init(&parts, e->p->arena);
    e->o = &text;
    e->word = program_word(f->p);
    e->parts = &parts;
    e->repeat = f->of ? repeat_of(f->p) : NULL;
    f->run = program_trains(f->p) ? rounds_function(e)
                                  : side_function(e, "run", &(Phase){PH_FORWARD});
    e->parts = NULL;
    e->repeat = NULL;
    f->init = f->of ? "NULL" : side_function(e, "init", NULL);
    f->begin = !f->of           ? side_function(e, "begin", &(Phase){PH_INIT})
               : e->p->training ? e->begin
                                : "NULL";
    e->word = NULL;
    e->o = to;
    out_bytes(&text, parts.text, parts.size);
    if (text.size)
        out_line(to, "\n/* ---- %s. ---- */", meaning[f->p->purpose]);
    else
        out_line(to, "\n/* %s: %s. */", meaning[f->p->purpose], f->run);
    out_bytes(to, text.text, text.size);
}

void emit_step_functions(Emitter *e)
{
    int nmatmuls = numbers_all(e->p).matmuls, nconvs = numbers_all(e->p).convs;
    Out parts;
    out_init(&parts, e->p->arena);
    if (nmatmuls) {
        out_line(e->o,
                 "\n/* Descriptors of the matmuls in matmul_spec. */");
        out_line(e->o, "static ParcMatmul *matmul[%d];", nmatmuls);
    }
    if (nconvs)
        out_line(e->o, "\n/* Descriptors of the convolutions in conv_spec. */\n"
                       "static ParcConv *conv[%d];", nconvs);
    e->parts = &parts;
    training_function(e, "forward", PH_FORWARD);
    training_function(e, "backward", PH_BACKWARD);
    training_function(e, "optimizer", PH_OPTIMIZER);
    e->parts = NULL;
    step_function(e, "step", "");
    emit_matmul_table(e);
    emit_conv_table(e);
    training_function(e, "init_constants", PH_INIT);
    out_bytes(e->o, parts.text, parts.size);
    for (Emitter *f = e->next; f; f = f->next)
        side_functions(f);
}
