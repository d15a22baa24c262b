/* train.h: the `train` block: the batch, the optimizer and its schedule, and what
 * else the options of `train` set (options.def).
 */
#ifndef PARC_IR_TRAIN_H
#define PARC_IR_TRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/diag.h"
#include "ir/options.h"
#include "ir/type.h"

typedef enum OptimizerKind {
    OPT_SGD,
    OPT_ADAM,
    OPT_ADAMW,
    OPT_LION,
    OPT_MUON,
    OPT_ADAFACTOR,
    OPTIMIZERS
} OptimizerKind;

/* What Muon multiplies the learning rate of a matrix [m, n] by. */
typedef enum LrAdjustment {
    ADJUST_ORIGINAL,  /* sqrt(max(1, m / n)) */
    ADJUST_RMS,       /* 0.2 sqrt(max(m, n)): updates as large as AdamW's */
    ADJUST_UNCLAMPED, /* sqrt(m / n) */
} LrAdjustment;

/* The learning rate of step t, counted from 1, for an optimizer with lr: lr t /
 * warmup up to step `warmup`; afterwards
 *
 *   constant         lr
 *   linear, cosine   from lr to min_lr, linearly or along half a cosine; min_lr is
 *                    reached at `steps`, and constant after it
 *   wsd              lr; over the last `decay` of `steps` to min_lr, as `shape` says
 *   piecewise        lr up to step after[0], then rates[0] up to step after[1], … */
typedef enum ScheduleKind {
    SCHEDULE_CONSTANT,
    SCHEDULE_LINEAR,
    SCHEDULE_COSINE,
    SCHEDULE_WSD,
    SCHEDULE_PIECEWISE,
} ScheduleKind;
typedef enum DecayShape { DECAY_LINEAR, DECAY_SQRT, DECAY_COSINE } DecayShape;
typedef struct LrSchedule {
    ScheduleKind kind;
    int64_t warmup;
    int64_t steps; /* 0: the number of steps of the run */
    double min_lr;
    int64_t decay; /* 0: a tenth of the steps */
    DecayShape shape;
    NumberList after, rates; /* of equal length */
} LrSchedule;
/* The curve along which a schedule reaches min_lr. */
DecayShape schedule_shape(const LrSchedule *s);

/* What the backward pass recomputes outside of checkpointed modules, of cheap ops
 * (elementwise) and all-gathers over tensor axes. */
typedef enum Recompute {
    RECOMPUTE_ALL,         /* as much as saves bytes */
    RECOMPUTE_ELEMENTWISE, /* as much of the elementwise ops; gathers are saved */
    RECOMPUTE_FUSED,       /* what kernels of the backward pass compute on the way:
                            * what needs less memory traffic than to save it */
} Recompute;

/* Settings of the optimizer that `groups` changes for some parameters. */
typedef struct ParamGroup {
    double lr_factor;    /* multiplies the learning rate of a step; 0: 1 */
    double weight_decay; /* in place of the optimizer's; 0: the optimizer's */
    bool adamw;          /* AdamW updates them, in place of Muon */
} ParamGroup;

typedef struct Train {
    int64_t batch, seq;  /* global */
    int64_t head_chunk;  /* tokens of a rank's microbatch whose logits exist at
                          * a time; 0: all */
    int64_t accumulate;  /* the number of microbatches of a batch; 0 and 1: no
                          * accumulation */
    int64_t async_tp;    /* pieces of a microbatch; 0 and 1: it is not cut */
    bool bare_matmuls;   /* matmuls have no epilogues */
    bool copy_engines;   /* gather inside a node, in place of multiprocessors */
    bool deterministic;  /* every run computes the same bits; otherwise the
                          * target may use kernels whose results vary */
    Recompute recompute;
    DType precision;     /* DT_F32, DT_BF16 or DT_F16 */
    DType reduce;        /* DT_F32 or DT_BF16: the type that gradients are
                          * reduced in */
    OptimizerKind optimizer;
    double lr, beta1, beta2, eps, weight_decay, momentum;
    bool nesterov;       /* Muon, and the fields that follow */
    NumberList ns_coefficients; /* muon_coefficients */
    int64_t ns_steps;    /* Newton-Schulz iterations of a step */
    LrAdjustment adjust_lr;
    double adamw_eps;    /* `eps` of the groups that AdamW updates */
    double beta2_decay, eps1, eps2, clip_threshold; /* Adafactor; 0: no threshold */
    double clip;         /* the largest gradient norm; 0: no clipping */
    double ema;          /* the decay of an average of the weights; 0: none */
    double loss_scale;   /* the initial factor of the loss in the backward
                          * pass; 0: none */
    LrSchedule schedule;
    Loc loc;
} Train;

/* Operands of `update`; the states follow (update_first_state). UPDATE_FACTOR exists if
 * train_scales or UPDATE_GOOD does; UPDATE_GOOD if the loss is scaled, or the buffers of
 * experts may overflow. */
enum {
    UPDATE_PARAM,
    UPDATE_GRAD,
    UPDATE_LR,
    UPDATE_BIAS1,
    UPDATE_BIAS2,
    UPDATE_FACTOR, /* multiplies all gradients */
    UPDATE_GOOD,   /* 0: the step changes nothing */
};
/* Whether gradients are multiplied by a factor before use: they are clipped, or
 * the loss is scaled. */
bool train_scales(const Train *t);
/* The states that the optimizer keeps for each parameter: "m", "v", and "average", the
 * average of the weights, last. */
enum { MAX_UPDATE_STATES = 3 };
typedef struct StateNames {
    int n;
    const char *name[MAX_UPDATE_STATES];
} StateNames;
StateNames update_states(const Train *t, OptimizerKind k, const Type *param);
/* The type of state i of a parameter of that type: the parameter's, in f32; Adafactor's means
 * have one element for each row, or column, of a matrix, and are whole on every rank. */
Type update_state_type(const Train *t, OptimizerKind k, const Type *param, int i);
/* The coefficients a, b and c of an iteration X = a X + (b G + c G G) X with
 * G = X X'. */
const double *muon_coefficients(const Train *t);

#endif
