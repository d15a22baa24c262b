/* calibrate.c: makes a machine file of the trace of a run; see calibrate.h. */
#include "forecast/calibrate.h"

#include <math.h>
#include <string.h>

#include "codegen/target/target.h"
#include "forecast/trace_times.h"

/* Amounts and times of statements: what their rate follows from. */
typedef struct Rate {
    double amount, seconds;
    double least, most; /* rates of single statements */
} Rate;

typedef struct Attention {
    int64_t head;
    bool f32, backward;
    Rate rate;
} Attention;

typedef struct Collective {
    const char *kind;
    int64_t ranks;
    /* sums of 1 / t², b / t², b² / t², 1 / t and b / t over statements of b bytes */
    double one, b, bb, y, by;
    double largest; /* bytes */
} Collective;

typedef struct Fit {
    Out *o;
    const Program *p;
    const char *source, *date;
    Rate matmul[2];            /* 16 bits, f32 */
    Rate kernel[KERNEL_FORMS]; /* without functions */
    Rate lookup, copy;
    double functions;          /* seconds of a function of an element */
    VEC(Attention) attention;
    VEC(Collective) collective;
} Fit;

static void add(Rate *r, double amount, double seconds)
{
    if (amount <= 0 || seconds <= 0)
        return;
    double rate = amount / seconds;
    r->least = r->amount == 0 || rate < r->least ? rate : r->least;
    r->most = rate > r->most ? rate : r->most;
    r->amount += amount;
    r->seconds += seconds;
}

static double rate_of(const Rate *r)
{
    return r->seconds > 0 ? r->amount / r->seconds : 0;
}

/* ---- kernels ------------------------------------------------------------- */

/* What a function adds to a kernel: between the time of bytes alone, at the rate of the
 * kernels of the form without functions, and the measured time. */
static void fit_kernels(Fit *f, const Statement *s, const double *times, int n)
{
    double functions = 0, more = 0;
    for (int i = 0; i < n; i++)
        if (s[i].op->kind == OP_fused && kernel_functions(f->p, s[i].op) == 0)
            add(&f->kernel[kernel_form(f->p, s[i].op, true)],
                (double)s[i].bytes * (double)s[i].count,
                times[i] * (double)s[i].count);
    for (int i = 0; i < n; i++) {
        double of = s[i].op->kind == OP_fused ? kernel_functions(f->p, s[i].op) : 0;
        double rate = of > 0 ? rate_of(&f->kernel[kernel_form(f->p, s[i].op, true)]) : 0;
        if (rate <= 0 || times[i] <= 0)
            continue;
        functions += of * (double)s[i].count;
        more += (times[i] - (double)s[i].bytes / rate) * (double)s[i].count;
    }
    f->functions = functions > 0 && more > 0 ? more / functions : 0;
}

/* ---- other statements ---------------------------------------------------- */

static void fit_attention(Fit *f, const Statement *s, double seconds)
{
    if (seconds <= 0)
        return;
    ParcAttention a = target_attention(f->p, s->op);
    Attention of = {.head = a.d, .f32 = a.type == PARC_F32,
                    .backward = op_is_attention_grad(s->op->kind)};
    int i = 0;
    while (i < f->attention.n && (f->attention.at[i].head != of.head ||
                                  f->attention.at[i].f32 != of.f32 ||
                                  f->attention.at[i].backward != of.backward))
        i++;
    if (i == f->attention.n)
        vec_push(f->p->arena, &f->attention, of);
    add(&f->attention.at[i].rate, attention_flops(f->p, s) * (double)s->count,
        seconds * (double)s->count);
}

static void fit_collective(Fit *f, const CollectiveInfo *c, double t)
{
    double b = (double)c->bytes;
    int i = 0;
    while (i < f->collective.n && (strcmp(f->collective.at[i].kind, c->kind) != 0 ||
                                   f->collective.at[i].ranks != c->group_size))
        i++;
    if (t <= 0 || c->in_place)
        return;
    if (i == f->collective.n)
        vec_push(f->p->arena, &f->collective,
                 ((Collective){.kind = c->kind, .ranks = c->group_size}));
    Collective *of = &f->collective.at[i];
    of->one += 1 / (t * t);
    of->b += b / (t * t);
    of->bb += b * b / (t * t);
    of->y += 1 / t;
    of->by += b / t;
    of->largest = b > of->largest ? b : of->largest;
}

static void fit_statements(Fit *f, const Statement *s, const double *times, int n)
{
    int ncollectives, next = 0;
    const CollectiveInfo *c = collectives_of(f->p, &ncollectives);
    for (int i = 0; i < n; i++) {
        double calls = (double)s[i].count, seconds = times[i] * calls;
        OpKind kind = s[i].op->kind;
        if (op_is_collective(kind)) {
            while (c[next].op != s[i].op)
                next++;
            fit_collective(f, &c[next], times[i]);
        } else if (s[i].calls > 0) {
            add(&f->matmul[dtype_size(s[i].type[0]) > 2], s[i].flops * calls, seconds);
        } else if (op_is_attention(kind) || op_is_attention_grad(kind)) {
            fit_attention(f, &s[i], times[i]);
        } else if (work_class(kind) == WORK_LOOKUP) {
            add(&f->lookup, (double)s[i].bytes * calls, seconds);
        } else if (work_class(kind) == WORK_COPY) {
            add(&f->copy, (double)s[i].bytes * calls, seconds);
        }
    }
}

/* ---- the file ------------------------------------------------------------ */

static void constant(const Fit *f, const char *name, double value, double spread,
                     const char *after)
{
    out(f->o, "\"%s\": {\"value\": %.4g, \"spread\": %.2g, \"from\": ", name, value, spread);
    out_json_string(f->o, f->source);
    out(f->o, ", \"date\": ");
    out_json_string(f->o, f->date);
    out(f->o, "}%s", after);
}

static double spread_of(const Rate *r)
{
    double rate = rate_of(r);
    return rate > 0 ? fmin((r->most - r->least) / rate / 2, 1) : 1;
}

/* The rates of products: a class that the run does not have has that of the other. */
static void print_rates(const Fit *f)
{
    const Rate *low = &f->matmul[0], *f32 = &f->matmul[1];
    double rate[2] = {rate_of(low->amount > 0 ? low : f32),
                      rate_of(f32->amount > 0 ? f32 : low)};
    out(f->o, "  \"peak\": {\n    ");
    constant(f, "bf16", rate[0], spread_of(low->amount > 0 ? low : f32), ",\n    ");
    constant(f, "f32", rate[1], spread_of(f32->amount > 0 ? f32 : low), "\n  },\n");
    out(f->o, "  \"matmul\": {\n    ");
    constant(f, "sustained", 1, 0, ",\n    ");
    constant(f, "start", 0, 0, "\n  },\n");
}

static void print_memory(const Fit *f)
{
    static const char *const name[KERNEL_FORMS] = {"streaming", "row", "column"};
    const Rate *streaming = &f->kernel[FORM_ELEMENTWISE];
    if (streaming->amount == 0)
        streaming = &f->copy;
    double rate = rate_of(streaming);
    out(f->o, "  \"hbm\": {\n    ");
    constant(f, "rate", rate, spread_of(streaming), ",\n    ");
    for (int k = 0; k < KERNEL_FORMS; k++) {
        const Rate *r = f->kernel[k].amount > 0 ? &f->kernel[k] : streaming;
        constant(f, name[k], rate_of(r) / rate, spread_of(r), ",\n    ");
    }
    const Rate *lookup = f->lookup.amount > 0 ? &f->lookup : streaming;
    constant(f, "gather", rate_of(lookup) / rate, spread_of(lookup), ",\n    ");
    constant(f, "function", f->functions, 0.3, ",\n    ");
    constant(f, "start", 0, 0, "\n  },\n");
}

static void print_attention(const Fit *f)
{
    out(f->o, "  \"attention\": [");
    for (int i = 0; i < f->attention.n; i++) {
        const Attention *a = &f->attention.at[i];
        out(f->o, "%s    {\"head\": %lld, ", i ? ",\n" : "\n", (long long)a->head);
        if (a->f32)
            out(f->o, "\"type\": \"f32\", ");
        out(f->o, "\"pass\": \"%s\",\n     ", a->backward ? "backward" : "forward");
        constant(f, "rate", rate_of(&a->rate), spread_of(&a->rate), ",\n     ");
        constant(f, "per_tile", 0, 0, "}");
    }
    out(f->o, "%s],\n", f->attention.n ? "\n  " : "");
}

/* Least squares of relative errors of start + bytes / rate; without a start if that were
 * negative, or the rate. */
static void solve(const Collective *c, double *start, double *rate)
{
    double det = c->one * c->bb - c->b * c->b;
    double a = det > 1e-9 * c->one * c->bb ? (c->y * c->bb - c->by * c->b) / det : 0;
    double slope = det > 1e-9 * c->one * c->bb ? (c->one * c->by - c->b * c->y) / det
                                               : c->by / c->bb;
    if (a < 0 || slope <= 0) {
        a = slope <= 0 ? c->y / c->one : 0;
        slope = slope <= 0 ? a / c->largest * 1e-3 : c->by / c->bb;
    }
    *start = a;
    *rate = 1 / slope;
}

static void print_collectives(const Fit *f)
{
    out(f->o, "  \"collective\": [");
    for (int i = 0; i < f->collective.n; i++) {
        const Collective *c = &f->collective.at[i];
        double start, rate;
        solve(c, &start, &rate);
        out(f->o, "%s    {\"kind\": \"%s\", \"nodes\": 1, \"ranks\": %lld,\n     ",
            i ? ",\n" : "\n", c->kind, (long long)c->ranks);
        constant(f, "start", start, 0.2, ",\n     ");
        constant(f, "fill", 0, 0, ",\n     ");
        constant(f, "rate", rate, 0.2, ",\n     ");
        constant(f, "blocks", 0, 0, "}");
    }
    out(f->o, "%s]\n", f->collective.n ? "\n  " : "");
}

const char *calibrate(Out *o, const Program *p, const char *name, const char *trace,
                      size_t size, const char *source, const char *date)
{
    int n, ranks, threads;
    const char *error = NULL;
    const Statement *s = statements_of(p, &n);
    const double *times = trace_times(p->arena, s, n, trace, size, &ranks, &threads, &error);
    if (!times)
        return error;
    Fit f = {.o = o, .p = p, .date = date};
    f.source = arena_printf(p->arena, "%s, %d rank%s of %d thread%s", source, ranks,
                            ranks == 1 ? "" : "s", threads, threads == 1 ? "" : "s");
    fit_kernels(&f, s, times, n);
    fit_statements(&f, s, times, n);
    if (f.matmul[0].amount + f.matmul[1].amount == 0 || f.attention.n == 0 ||
        f.kernel[FORM_ELEMENTWISE].amount + f.copy.amount == 0)
        return "a machine file needs the times of matmuls, attention and elementwise "
               "kernels: trace another model";
    out(o, "{\n  \"name\": ");
    out_json_string(o, name);
    out(o, ",\n  \"target\": \"cpu\",\n  \"description\": ");
    out_json_string(o, f.source);
    out(o, ",\n  \"device\": {\n    ");
    constant(&f, "straggler", 0, 0, "\n  },\n");
    print_rates(&f);
    print_memory(&f);
    out(o, "  \"node\": {\n    ");
    constant(&f, "ranks", ranks, 0, "\n  },\n");
    print_attention(&f);
    print_collectives(&f);
    out(o, "}\n");
    return NULL;
}
