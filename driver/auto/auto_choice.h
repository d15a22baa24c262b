/* auto_choice.h: the state of the choice of a mesh or a plan, for the files of --mesh auto
 * and --plan auto.
 *
 *   auto_mesh.c    chooses a mesh by the rules of auto_mesh.h, and reports
 *   auto_plan.c    chooses a plan: see auto_plan.h
 *   auto_variants.c lists the plans: see auto_variants.h
 *   auto_time.c    chooses by the forecast of --machine
 *   auto_workers.c runs trials in several processes
 *   auto_sizes.c   reads --mesh, and lists the candidates
 *   auto_trial.c   compiles a candidate
 */
#ifndef PARC_DRIVER_AUTO_CHOICE_H
#define PARC_DRIVER_AUTO_CHOICE_H

#include "driver/auto/auto_mesh.h"
#include "forecast/forecast.h"

enum { AUTO = 0 };

/* Machines with a group of constants changed by their spread, up or down. */
enum { CHANGED_MACHINES = 6 };

/* The forecast of a candidate's step. */
typedef struct CandidateTime {
    bool timed; /* it compiles and fits */
    double seconds, mfu, bubble, by_class[WORK_CLASSES];
    double changed[CHANGED_MACHINES]; /* seconds on these machines */
} CandidateTime;

/* Further -D options of a candidate, "recompute=fused", each of another option, in the
 * order of the alphabet. */
enum { MOST_DEFINES = 4 };
typedef struct Defines {
    const char *text[MOST_DEFINES];
    int n;
} Defines;

typedef struct Candidate {
    int64_t size[MAX_MESH_AXES];
    bool across;       /* the tensor axes have several nodes */
    const char *mesh;  /* "dp=8,tp=8" */
    const char *name;  /* what notes call it: the mesh, or what is special in a plan */
    const File *file;  /* with its plan; NULL: that of the compilation */
    Defines define;    /* that its plan has */
    const char *error; /* why it does not compile; NULL: it does */
    int64_t peak;      /* bytes of a rank */
    CandidateTime time; /* with --machine */
} Candidate;

typedef struct Choice {
    const Program *p;
    const PlanSource *from;
    const Options *o;
    Diag *d;
    Arena *a;
    int n;                        /* axes, in the plan's order */
    int64_t given[MAX_MESH_AXES]; /* AUTO: to be chosen */
    uint32_t named;              /* axes that --mesh names */
    int64_t ranks, node;
    int64_t stages; /* the ranks of an automatic axis of the pipeline */
    VEC(Candidate) candidate;
    int untried; /* further candidates, which --search leaves out */
    const char *option, *things; /* "--mesh auto", "meshes" */
} Choice;

/* What an axis splits. */
typedef enum Splits {
    SPLITS_BATCH, SPLITS_TENSORS, SPLITS_LAYERS, SPLITS_SEQUENCES
} Splits;

/* ---- auto_sizes.c -------------------------------------------------------- */

/* Reads --mesh into c->given; false after an error. */
bool choice_read_mesh(Choice *c);
/* The last axis of a kind whose size is to be chosen; -1: none. */
int choice_auto_axis(const Choice *c, Splits kind);
/* The ranks of a candidate's axes of a kind; these axes as text, "dp=8", without those of
 * one rank. */
int64_t choice_ranks(const Choice *c, const Candidate *t, Splits kind);
const char *choice_sizes(const Choice *c, const Candidate *t, Splits kind);
/* Adds the candidates with c->stages stages that the rules of auto_mesh.h allow. */
void choice_add_candidates(Choice *c);
/* Adds all candidates: every way to divide the ranks among the axes to be chosen. Tensor
 * axes inside a node come first, then fewer stages and larger tensor axes. */
void choice_add_all(Choice *c);

/* ---- auto_time.c --------------------------------------------------------- */

/* Chooses the candidate that fits and whose step takes the least time by forecast; NULL:
 * none. *tried: how many have been compiled. */
const Candidate *choice_by_time(Choice *c, int *tried);
/* Compiles a candidate, and forecasts its step. */
void choice_time(const Choice *c, Candidate *t);
/* The candidates but `best` that have a time, the fastest first, and their number. */
int choice_others(const Choice *c, const Candidate *best, const Candidate ***timed);
/* Notes that report the choice, and why the others take longer. */
void choice_report_times(const Choice *c, const Candidate *best, int tried);

/* ---- auto_workers.c ------------------------------------------------------ */

/* Calls `time` for the candidates first to n - 1, in a process for each core. */
typedef void TimeCandidate(const Choice *c, Candidate *t);
void choice_time_all(Choice *c, int first, int n, TimeCandidate *time);

/* ---- auto_trial.c -------------------------------------------------------- */

/* Adds a candidate's -D options to those of a compilation. */
void choice_define(const Choice *c, const Candidate *t, PlanSource *from);
/* Compiles the candidate until its memory plan, with the side programs if `side`
 * and the compilation has them; NULL and t->error: it does not compile. */
Program *choice_compile(const Choice *c, Candidate *t, bool side);
/* Whether it compiles and fits --device-memory. */
bool choice_fits(const Choice *c, const Candidate *t);
/* The most candidates that --search allows. */
int choice_most(const Choice *c);
/* Compiles a candidate with the side programs too, which can add to its memory; false,
 * and it has no time: it does not fit. */
bool choice_fits_sides(const Choice *c, Candidate *t);

#endif
