/* fuse.h: between the files of the pass `fuse`.
 *
 *   fuse_clean.c  identities go, trivial producers are made for each use
 *   fuse_group.c  which ops become one kernel
 *   fuse_share.c  what a second kernel computes again rather than reads
 *   fuse.c        the pass: groups become `fused` ops
 *   fuse_name.c   what kernels are called
 */
#ifndef PARC_PASSES_FUSE_H
#define PARC_PASSES_FUSE_H

#include "passes/fuse_space.h"

typedef VEC(Op *) OpList;

/* A group of ops of one region, in program order. One op that is no kernel's
 * (a matmul, a loop, a collective) is a group too, which nothing joins. */
typedef struct FuseGroup {
    OpList op;
    bool open;   /* made of ops that can be fused */
    int mark;    /* of the last search that came by */
    int version; /* counts what has joined it */
} FuseGroup;

typedef struct Fuser {
    Program *p;
    Region *r;
    Arena *arena;  /* for what ends with the pass */
    OpList op;     /* the region's ops in order */
    uint32_t nops; /* ids below this are known to the tables */
    int *group_of; /* by op id */
    int *place;    /* by op id: index into `op` */
    OpList *users; /* by value id: ops of the region, each once */
    bool *yielded; /* by value id */
    FuseGroup *group;
    int ngroups, mark;
    bool whole;     /* the region goes forward and backward */
    bool mixed;     /* forward and backward ops may go together */
    Arena *attempt; /* for what is needed until the next attempt */
    Space space;    /* of the last attempt to make a kernel */
} Fuser;

void fuse_clean(Program *p, Region *r);

/* Tables for a region as it is now: every op a group of its own. */
void fuse_tables(Fuser *f);
/* Joins groups as long as that makes legal kernels. */
void fuse_groups(Fuser *f);

/* Whether a result is needed outside of a group. */
bool fuse_is_stored(const Fuser *f, int group, const Value *v);
/* Tries to make a kernel: its space is in f->space until the next try. */
bool fuse_try(Fuser *f, const OpList *ops, const bool *stored);
/* Two lists in program order as one. */
OpList fuse_merged(const Fuser *f, const OpList *x, const OpList *y);
/* Whether ops (in program order), which are all those of n groups, can be
 * one kernel. */
bool fuse_is_legal(Fuser *f, const OpList *ops, const int *groups, int n);

/* Clones cheap producers into the groups that read them, where that moves
 * fewer bytes. True when the region has changed (tables are stale). */
bool fuse_share(Fuser *f);

/* A name for the kernel of these ops: "attention_norm", unique in `used`. */
typedef VEC(const char *) NameList;
const char *fuse_name(Program *p, const OpList *ops, NameList *used);

/* A copy of an op with other operands, in front of `before`. */
Op *fuse_copy_op(Program *p, const Op *op, Value *const *args, Op *before);

/* The group that makes a value; -1: none of this region, or a kernel that has
 * been made already. */
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
