/* storage.h: declarations that the files of the pass `storage` share.
 *
 * The pass shards parameters by FSDP unit (storage.c). It collects gathers and
 * reductions as Moves, then emits one grouped collective for each unit. */
#ifndef PARC_PASSES_FSDP_STORAGE_H
#define PARC_PASSES_FSDP_STORAGE_H

#include "ir/units.h"
#include "ir/analysis/uses.h"
#include "passes/pass.h"

/* A tensor of a grouped collective under construction: a shard that is
 * gathered, or a gradient that is reduced. `to` is created first, so that
 * readers can refer to it. */
typedef struct Move {
    OpKind kind;       /* all_gather, reduce_scatter or all_reduce */
    uint32_t axes;
    Region *region;
    Phase phase;
    const char *group; /* the unit, or for replicas the module, that it is
                        * grouped by */
    const Unit *unit;  /* NULL: none */
    Value *from, *to;
    Op *first;         /* gathers: the first reader in the region */
    bool frozen;       /* gathers: the parameter is not trained */
    Loc loc;           /* where the plan's item or the parameter is */
    bool done;
} Move;

typedef struct Storage {
    Program *p;
    const TargetInfo *t;
    Uses uses; /* storage_shard_param: before gathers are added; storage_reduce:
                * before gradients are reduced */
    VEC(Move) gather;
    VEC(Move) reduce;
} Storage;

/* storage_move.c: the type t, with each of the axes placed as `kind`. */
Type storage_type(Type t, uint32_t axes, AxisKind kind);
/* Whether flattening pads a layer: the equal runs of its ranks together hold
 * more elements than the layer. */
bool storage_is_padded(const Program *p, const Type *flat, uint32_t axes);
/* Adds one grouped collective for n moves before `before` (NULL: at the
 * region's end). */
Op *storage_emit(Storage *s, Move *const *move, int n, Op *before,
                 const Attr *attr, const char *why);

/* storage_gather.c: storage_shard_param makes a parameter a shard, and adds a
 * Move for each reader that needs the full tensor; storage_emit_gathers emits
 * them. */
void storage_shard_param(Storage *s, int param, const Unit *u);
void storage_emit_gathers(Storage *s);

/* storage_reduce.c: reduces gradients where they are computed. */
void storage_reduce(Storage *s);

#endif
