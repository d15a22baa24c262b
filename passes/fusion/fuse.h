/* fuse.h: declarations that the files of the pass `fuse` share.
 *
 *   fuse_clean.c  removes identities, clones trivial producers for each use
 *   fuse_tables.c lists the users of every value
 *   fuse_order.c  keeps the groups in topological order
 *   fuse_group.c  decides which ops become one kernel
 *   fuse_share.c  recomputes cheap values instead of storing them
 *   fuse.c        the pass: outlines groups as `fused` ops
 *   fuse_name.c   names kernels
 */
#ifndef PARC_PASSES_FUSION_FUSE_H
#define PARC_PASSES_FUSION_FUSE_H

#include "passes/fusion/fuse_space.h"

typedef VEC(Op *) OpList;

/* A group of ops of one region, in program order. An op that cannot be fused (a
 * matmul, a loop, a collective) is a group by itself. */
typedef struct FuseGroup {
    OpList op;
    bool open;   /* the ops can be fused */
    int mark;    /* the last search that visited it */
    int version; /* counts how often it has grown */
    int tried;   /* mark of the last reader whose group tried to join it */
    int spans_version; /* the version that `spans` is for; -1: none */
    const Value *spans_value;
    bool spans;
    /* By phase: the last value whose readers join_readers has tried to join
     * with this group, and the number of joins at that time. */
    const Value *row_value[PH_OPTIMIZER + 1];
    int row_joins[PH_OPTIMIZER + 1];
} FuseGroup;

typedef struct Fuser {
    Program *p;
    /* Tables for all regions, one after the other: an entry is valid from
     * fuse_tables of its region on. */
    Arena *tables;
    uint32_t op_capacity, value_capacity; /* how many ids fit */
    int *group_of; /* by op id */
    int64_t *place; /* by op id: index into `op`; in fuse_clean with gaps */
    OpList *users; /* by value id: ops of the region, each once */
    bool *yielded; /* by value id */
    /* The region. */
    Region *r;
    Arena *arena;  /* lives as long as the work on the region */
    OpList op;     /* the region's ops in order */
    uint32_t nops; /* ids below this are in the tables */
    FuseGroup *group;
    int ngroups, mark, joins;
    int *position;  /* by group: its position in a topological order */
    int *group_at;  /* by position: the group; -1: none */
    int *moved;     /* groups that a join moves to higher positions */
    int mark_of_search; /* the mark of the last search that found no path */
    bool followed;      /* that search followed readers, not producers */
    bool whole;     /* the region has forward and backward ops */
    bool mixed;     /* groups may mix forward and backward ops */
    Arena *attempt; /* reset at each attempt */
    Space space;    /* result of the last fuse_try */
} Fuser;

/* ---- fuse_clean.c ---- */

void fuse_clean(Fuser *f);
/* Removes ops that can be fused and that nothing reads. */
void fuse_drop_unused(Fuser *f);

/* ---- fuse_tables.c ---- */

/* Empty lists of users for all values of the region. */
void fuse_users_start(Fuser *f);
void fuse_users_fill(Fuser *f);
void fuse_add_user(Fuser *f, const Value *v, Op *user);
/* Grows the tables to the ids of values and ops made since. */
void fuse_tables_grow(Fuser *f);

/* ---- fuse_order.c ---- */

void fuse_order_start(Fuser *f);
/* Whether a path goes from one of two groups to the other through a third. */
bool fuse_has_detour(Fuser *f, int a, int b);
/* Group b has become part of a. Requires that the last fuse_has_detour was
 * for these two, and false. */
void fuse_order_join(Fuser *f, int a, int b);
/* Groups in an order in which each comes after those that it reads; of those
 * that are ready, the one whose last op comes first. */
int *fuse_order(const Fuser *f, int *count);

/* ---- fuse_group.c, fuse_share.c, fuse_name.c ---- */

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
const char *fuse_name(Program *p, const OpList *ops, TextMap *used);

/* A copy of an op with other operands, inserted before `before`. */
Op *fuse_copy_op(Program *p, const Op *op, Value *const *args, Op *before);

/* The group of a value's producer; -1: not an op of this region, or a kernel
 * that is already outlined. */
static inline int fuse_producer(const Fuser *f, const Value *v)
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
