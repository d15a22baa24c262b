/* emitter.h: declares the Emitter, the state of writing train.c, model.c and
 * model.h, and the functions of the files that write a part of them.
 *
 * Names: a value keeps its name from the model, converted to a C identifier;
 * views have no variable and use their root's. Addresses: every block of the
 * arena is a #define AT_name; a value is a pointer into it.
 */
#ifndef PARC_CODEGEN_EMIT_EMITTER_H
#define PARC_CODEGEN_EMIT_EMITTER_H

#include "base/out.h"
#include "codegen/c_text.h"
#include "codegen/emit/train_c.h"
#include "codegen/numbers.h"
#include "codegen/statements/statements.h"
#include "ir/analysis/alias.h"
#include "ir/analysis/repeat.h"
#include "ir/plan/user_axes.h"
#include "passes/pipeline/staged_loop.h"

/* A function, or a block inside of one, that declares its own variables. */
typedef struct Scope Scope;
/* A phase's statements of one module: emit_parts.c. */
typedef struct Part Part;

typedef struct Emitter Emitter;
struct Emitter {
    Out *o;          /* where the next line is written */
    SourceFiles *files;
    const Program *p;
    Emitter *next;   /* of the next side program; NULL: none */
    Numbers first;   /* of collectives, kernels, … in the tables of model.c */
    Emitter *of;     /* a program that repeats another: the other's emitter,
                      * which writes its statements; NULL: its own do */
    const char *run, *init, *begin; /* functions of a side program: that
                      * of the statements, those that precede a run; "NULL" */
    TextMap *block_names, *function_names; /* of all programs */
    TextMap *functions; /* of all programs: the name of a function by its
                         * parameters and body */
    const TargetInfo *t;
    const MemoryPlan *memory;
    const EmitOptions *options;
    const CudaProgram *cuda; /* NULL: for the CPU */
    CollectiveInfo *collective;
    int ncollectives;
    const char **block_name; /* by block */
    const char **axis_name;  /* by mesh axis: AXIS_dp */
    const char **loop_name;  /* by op id: the variable of a loop */
    const char **next_name;  /* by op id: the variable for another iteration of
                              * a loop, inside of that or another loop */
    TextMap *loop_names;     /* of the variables of loops of all programs */
    Statement *statement;
    int nstatements;
    int *collective_of;      /* by op id: index in collective; -1: none */
    int *statement_of;       /* by op id: index in `statement`; -1: none */
    int *number;             /* by op id: number of the kernel, matmul or convolution */
    Scope *scope;            /* of the statement being written */
    int nscopes;             /* number of scopes so far */
    const char **variable;   /* by value id: in the newest scope that declares
                              * it, the scope scope_of */
    int *scope_of;           /* by value id: a scope's number; 0: none */
    bool uses_arena;         /* the function being written uses A, the address
                              * of the arena, … */
    bool uses_stage;         /* … `stage`, the stage of the pipeline that runs, … */
    bool uses_coordinate;    /* … and `coordinate`, the rank's on its axis, if it has
                              * several stages */
    const bool *rows;        /* by value id: expert_rows_find */
    bool in_stage;           /* the rank has several stages, and one of them runs:
                              * `stage` is a parameter or a loop's variable */
    int at;                  /* the stage that runs the statement being written;
                              * -1: all do */
    const Region *moments;   /* the region of microbatches of which the statements
                              * of one moment are written; NULL: those of all */
    Moment moment;
    bool *once;              /* by op id: all ranks run it, a rank that has several
                              * stages for the first of them only */
    const Repeat *repeat;    /* the part of p that is being written; NULL: all
                              * of p */
    const char *word;        /* the first word of functions: "eval"; NULL: that
                              * of the phase */
    Out *parts;              /* receives the functions of parts; NULL: a
                              * phase's statements are not divided */
    Part *part;              /* of the innermost loop; NULL: outside a phase */
    const Op *headed;        /* the op whose first part precedes its barriers;
                              * NULL: none */
};

/* Makes the emitter of a training step, and those of its side programs. */
void emitter_init(Emitter *e, SourceFiles *files, const Program *p,
                  const TargetInfo *t, const EmitOptions *options,
                  const CudaProgram *cuda);

/* The prefix of the tables of the program's pipeline: "" for those of the training step,
 * "rounds_". */
const char *emitter_own(const Emitter *e);

/* What a loop is over: "micro", "chunk", "round", "iteration" (of Muon) or "layer". */
const char *loop_kind(const Program *p, const Op *loop);

/* Of the rank's layers the number of the stage's first one, as a C expression; NULL:
 * it is 0. */
const char *stage_first_row(Emitter *e, int cut);
/* v's byte offset in the arena as a C expression: "AT_wq + layer * 4096". */
const char *value_offset(Emitter *e, Value *v);
/* value_is_inside: whether v is a parameter's shard that is stored in place
 * inside the gathered parameter, which stays resident. value_row_offset: the
 * offset at which the gathered layer begins. */
bool value_is_inside(const Value *v);
const char *value_row_offset(Emitter *e, Value *v);

/* The segment that contains a block, NULL: the rank's own part of the arena;
 * the name of the segment's offset: SHARED_dp. */
const Segment *emitter_segment(const Emitter *e, const Block *b);
const char *emitter_segment_name(const Emitter *e, const Segment *s);

/* A set of mesh axes as a C expression: "AXIS_dp | AXIS_tp". */
const char *axes_expression(const Emitter *e, uint32_t axes);

/* c_names.c: reserves and returns a C name for a name of PDL or of the IR. It
 * differs from every name that emitted code and the C library use. */
const char *c_name(TextMap *s, const char *text);

/* emit_function.c. A scope has names of its own. emit_declaration: declares
 * the variable that holds v's address, unless the scope has one; use_variable:
 * lets v use a variable of the scope; value_variable: its name. */
void scope_begin(Emitter *e);
void scope_end(Emitter *e);
void emit_declaration(Emitter *e, Value *v);
void use_variable(Emitter *e, Value *v, const char *variable);
const char *value_variable(const Emitter *e, Value *v);
/* The workspace of an op as a pointer expression; "NULL" if it has none. */
const char *workspace_variable(Emitter *e, const Op *op);
/* A function's statements are written between function_begin and function_end,
 * which writes the function to `to`, and its prototype to model.h. They nest:
 * inside of a function, another one may be written. function_share does not write
 * a function with the same parameters and statements as an earlier one; it
 * returns the name of the function to call, which may also differ from `name` if
 * that is in use, or "NULL" if there are no statements. `parameters`: "ParcRt *rt"; `what`: a comment, or "". */
typedef struct Function {
    Out *enclosing, body;
    bool uses_arena, uses_stage, uses_coordinate; /* of the enclosing function */
    bool takes_stage; /* function_share: it has the parameter `stage` */
} Function;
void function_begin(Emitter *e, Function *f);
void function_end(Emitter *e, Function *f, const char *name, Out *to);
const char *function_share(Emitter *e, Function *f, const char *name,
                           const char *parameters, const char *what, Out *to);

/* emit_parts.c: divides a phase into functions, one for each module in turn.
 * The statements of `loop`, NULL: those outside of loops, are written between
 * parts_begin and parts_end; parts_at precedes each op, or with NULL ops that
 * belong to no part. */
void parts_begin(Emitter *e, const Op *loop);
void parts_at(Emitter *e, const Op *op);
void parts_end(Emitter *e);

/* emit_step.c: the functions init_constants, forward, backward, optimizer and
 * step; those of side programs. */
void emit_step_functions(Emitter *e);

/* emit_ops.c. emit_head emits the first part of a statement, the declarations of its
 * variables and its parc_mark; emit_body emits its operation. */
void emit_head(Emitter *e, const Op *op);
void emit_body(Emitter *e, const Op *op);
/* Prepares the attention calls of the program, so that the runtime can choose an
 * implementation. */
void emit_attentions(Emitter *e);
/* emitter.c: "path: kind detail (file:line:column)", then the first result's type. */
void emit_comment(Emitter *e, const Op *op, const char *detail);

/* emit_matmul.c. emit_matmul: the call of an einsum. emit_matmul_table: the table
 * of the matmuls of all programs. emit_matmuls: the creation of the program's
 * descriptors. */
void emit_matmul(Emitter *e, const Op *op);
void emit_matmul_table(Emitter *e);
void emit_matmuls(Emitter *e);

/* emit_conv.c: the same for convolutions. */
void emit_conv(Emitter *e, const Op *op);
void emit_conv_table(Emitter *e);
void emit_convs(Emitter *e);

/* emit_experts.c: the calls of a mixture of experts. */
void emit_of_experts(Emitter *e, const Op *op);

/* emit_streams.c. emit_region: the statements of a region, with waits, records
 * and barriers; `phase`: only those of one phase, NULL: all. */
void emit_region(Emitter *e, const Region *r, const Phase *phase);

/* emit_moves.c: statements of ops that move data between ranks or within
 * memory. */
void emit_collective(Emitter *e, const Op *op);
void emit_local_part(Emitter *e, const Op *op); /* local_slice,
                                                   mask_to_partial */
void emit_transfer(Emitter *e, const Op *op);   /* fetch, store */
void emit_copy_op(Emitter *e, const Op *op);    /* copy, transpose, … */

/* emit_pipeline.c. stage_begin: what follows, until stage_end, runs on this stage
 * only; stage_end needs what stage_begin returns. */
int stage_begin(Emitter *e, int stage);
/* The stage that runs an op; -1: all do. FIRST_STAGES: all ranks, for the first of
 * their stages. */
enum { FIRST_STAGES = MAX_STAGES };
int emitted_stage(const Emitter *e, const Op *op);
void stage_end(Emitter *e, int before);
/* What follows, until stages_end, the rank runs for each of its stages, if it has
 * several; false: nothing needs an end. */
bool stages_begin(Emitter *e);
void stages_end(Emitter *e, bool begun);
/* The first and the last index of a loop on the rank, as C expressions. */
const char *loop_first(Emitter *e, const Op *loop);
const char *loop_last(Emitter *e, const Op *loop);
/* The index of iteration number `iteration`, from 0 on, as a C expression. */
const char *loop_iteration(Emitter *e, const Op *loop, int64_t iteration);
/* Whether an op of a region is written now: all are, or those of one moment of a
 * staged loop. */
bool emits(const Emitter *e, const Op *op);
/* Of n elements or bytes of all rows of a stack: those of the rows that the rank has.
 * n itself if the type is no stack that stages divide. */
const char *own_rows_of(Emitter *e, const Type *t, int64_t n);
/* emit_hand_over: send, receive, move. emit_stage_layers: the layers of the
 * rank's stages out of a stack. */
void emit_hand_over(Emitter *e, const Op *op);
void emit_stage_layers(Emitter *e, const Op *op);

/* emit_stages.c: the tables of what the stages of a pipeline have; nothing without
 * one. emit_stage_names declares them in model.h. */
void emit_stage_names(Emitter *e);
void emit_stage_tables(Emitter *e);

/* emit_order.c: the table of what each rank of a pipeline does (ParcPipeline), which
 * has a staged loop. */
void emit_order(Emitter *e);

/* emit_statements.c: the table of statements (ParcWork). */
void emit_statements(Emitter *e);

/* emit_map.c: the mesh axes and the memory map. */
void emit_map(Emitter *e);

/* emit_tables.c: all tables that describe the program to the runtime
 * (ParcParam, ParcInput, ParcWork, ParcModel). */
void emit_tables(Emitter *e);

#endif
