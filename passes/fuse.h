/* fuse.h: declarations that the files of the pass `fuse` share.
 *
 *   fuse_clean.c  removes identities, clones trivial producers for each use
 *   fuse_group.c  decides which ops become one kernel
 *   fuse_share.c  recomputes cheap values instead of storing them
 *   fuse.c        the pass: outlines groups as `fused` ops
 *   fuse_name.c   names kernels
 */
#ifndef PARC_PASSES_FUSE_H
#define PARC_PASSES_FUSE_H

#include "passes/fuse_space.h"

typedef VEC(Op *) OpList;

/* A group of ops of one region, in program order. An op that cannot be fused (a
 * matmul, a loop, a collective) is a group by itself. */
typedef struct FuseGroup {
    OpList op;
    bool open;   /* its ops can be fused */
    int mark;    /* the last search that visited it */
    int version; /* counts how often it has grown */
} FuseGroup;

typedef struct Fuser {
    Program *p;
    Region *r;
    Arena *arena;  /* lives as long as the pass */
    OpList op;     /* the region's ops in order */
    uint32_t nops; /* ids below this are in the tables */
    int *group_of; /* by op id */
    int *place;    /* by op id: index into `op` */
    OpList *users; /* by value id: ops of the region, each once */
    bool *yielded; /* by value id */
    FuseGroup *group;
    int ngroups, mark;
    bool whole;     /* the region has forward and backward ops */
    bool mixed;     /* groups may mix forward and backward ops */
    Arena *attempt; /* reset at each attempt */
    Space space;    /* result of the last fuse_try */
} Fuser;

void fuse_clean(Program *p, Region *r);

/* Builds the tables for the region as it is now, with a group for every op. */
void fuse_tables(Fuser *f);
/* Joins groups as long as the union is a legal kernel. */
void fuse_groups(Fuser *f);

/* Whether the value is read outside of the group. */
bool fuse_is_stored(const Fuser *f, int group, const Value *v);
/* Tries to build the iteration space of a kernel, in f->space. */
bool fuse_try(Fuser *f, const OpList *ops, const bool *stored);
/* Merges two lists in program order. */
OpList fuse_merged(const Fuser *f, const OpList *x, const OpList *y);
/* Whether ops (in program order), which are all ops of n groups, can be one
 * kernel. */
bool fuse_is_legal(Fuser *f, const OpList *ops, const int *groups, int n);

/* Clones cheap producers into the groups that read them, where that moves fewer
 * bytes. True if the region has changed (the tables are stale). */
bool fuse_share(Fuser *f);

/* A name for the kernel of these ops, unique in `used`: "attention_norm". */
typedef VEC(const char *) NameList;
const char *fuse_name(Program *p, const OpList *ops, NameList *used);

/* A copy of an op with other operands, inserted before `before`. */
Op *fuse_copy_op(Program *p, const Op *op, Value *const *args, Op *before);

/* The group of a value's producer; -1: not an op of this region, or a kernel
 * that is already outlined. */
static inline int fuse_maker(const Fuser *f, const Value *v)
{
    if (!v->def || v->def->region != f->r || v->def->id >= f->nops)
        return -1;
    return f->group_of[v->def->id];
}

static inline int64_t fuse_bytes(const Program *p, const Value *v)
{
    return type_local_bytes(&v->type, &p->mesh);
}

#endif
