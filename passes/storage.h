/* storage.h: the parts of the pass storage. */
#ifndef PARC_PASSES_STORAGE_H
#define PARC_PASSES_STORAGE_H

#include "ir/units.h"
#include "passes/pass.h"

/* A grouped collective under construction has one Move for each tensor: a
 * shard that becomes whole for its readers, or a gradient that is reduced.
 * `to` is made beforehand, so that readers can refer to it. */
typedef struct Move {
    OpKind kind;       /* all_gather, reduce_scatter or all_reduce */
    uint32_t axes;
    Region *region;
    Phase phase;
    const char *group; /* the unit, or for replicas the module, that it is
                          grouped by */
    const Unit *unit;  /* NULL: none */
    Value *from, *to;
    Op *first;         /* gathers: the first reader in the region */
    bool frozen;       /* gathers: the parameter is not trained */
    Loc loc;           /* of the plan's item, or of the parameter */
    bool done;
} Move;

typedef struct Storage {
    Program *p;
    const TargetInfo *t;
    VEC(Move) gather;
    VEC(Move) reduce;
} Storage;

/* The type with one axis placed otherwise. */
Type storage_type(Type t, int axis, AxisKind kind);
/* A region's op that comes first of two; NULL is the region's start. */
bool storage_before(const Op *a, const Op *b);
/* One grouped collective for n moves, in front of `before` (NULL: at the
 * region's end). */
Op *storage_emit(Storage *s, Move *const *move, int n, Op *before,
                 const Attr *attr, const char *why);

/* storage_gather.c: parameter i, a shard from now on, is gathered wherever it
 * is needed whole. */
void storage_spread(Storage *s, int param, const Unit *u);
void storage_emit_gathers(Storage *s);

/* storage_lookup.c: tables that are not gathered are looked up before the rows
 * are cast to the compute type. */
void storage_lookups(Program *p);

/* storage_reduce.c: gradients are reduced where they are made. */
void storage_reduce(Storage *s);

#endif
