/* calibrate.c: makes a machine file of the trace of a run; see calibrate.h. */
#include "ir/analysis/attention.h"
#include "forecast/calibrate.h"

#include <math.h>
#include <string.h>

#include "codegen/attention_call.h"
#include "forecast/trace_times.h"

/* Amounts and times of statements: what their rate follows from. */
typedef struct Rate {
    double amount, seconds;
    double least, most; /* rates of single statements */
} Rate;

/* Products of a shape. */
typedef struct Product {
    DType type;
    int64_t batch, m, n, k;
    Rate rate;
} Product;

/* Kernels of a form without functions, of about as many bytes. */
typedef struct KernelSize {
    KernelForm form;
    long size; /* twice the logarithm of the bytes */
    double bytes, calls;
    Rate rate;
} KernelSize;

typedef struct Attention {
    int64_t head, keys;
    bool f32, dropout, backward;
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
    double function, random;   /* seconds of one, for an element */
    VEC(Product) product;
    VEC(KernelSize) size;
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

static void fit_size(Fit *f, KernelForm form, const Statement *s, double seconds)
{
    double bytes = (double)s->bytes, calls = (double)s->count;
    long size = lround(2 * log2(bytes));
    int i = 0;
    while (i < f->size.n && (f->size.at[i].form != form || f->size.at[i].size != size))
        i++;
    if (i == f->size.n)
        vec_push(f->p->arena, &f->size, ((KernelSize){.form = form, .size = size}));
    f->size.at[i].bytes += bytes * calls;
    f->size.at[i].calls += calls;
    add(&f->size.at[i].rate, bytes * calls, seconds * calls);
}

/* The rate of kernels of the form and about as many bytes; 0: none was measured. */
static double measured_rate(const Fit *f, KernelForm form, double bytes)
{
    const KernelSize *near = NULL;
    double size = 2 * log2(bytes);
    for (int i = 0; i < f->size.n; i++) {
        const KernelSize *k = &f->size.at[i];
        if (k->form == form && (!near || fabs((double)k->size - size) <
                                             fabs((double)near->size - size)))
            near = k;
    }
    return near ? rate_of(&near->rate) : 0;
}

static void fit_plain_kernels(Fit *f, const Statement *s, const TraceTime *times, int n)
{
    for (int i = 0; i < n; i++) {
        bool plain = s[i].op->kind == OP_fused &&
                     kernel_functions(f->p, s[i].op) + kernel_randoms(f->p, s[i].op) == 0;
        if (!plain || times[i].seconds <= 0 || s[i].bytes <= 0)
            continue;
        KernelForm form = kernel_form(f->p, s[i].op, true);
        fit_size(f, form, &s[i], times[i].seconds);
        add(&f->kernel[form], (double)s[i].bytes * (double)s[i].count,
            times[i].seconds * (double)s[i].count);
    }
}

/* What a function, or a random number, adds to a kernel: between the time of bytes alone,
 * at the rate of the kernels of the form without them, and the measured time. */
static double fit_more(const Fit *f, const Statement *s, const TraceTime *times, int n,
                       bool random)
{
    double numbers = 0, more = 0;
    for (int i = 0; i < n; i++) {
        const Op *op = s[i].op;
        double functions = op->kind == OP_fused ? kernel_functions(f->p, op) : 0;
        double randoms = op->kind == OP_fused ? kernel_randoms(f->p, op) : 0;
        double of = random ? randoms : functions, bytes = (double)s[i].bytes;
        if (of <= 0 || times[i].seconds <= 0 || (!random && randoms > 0))
            continue;
        double rate = measured_rate(f, kernel_form(f->p, op, true), bytes);
        double known = random ? functions * f->function : 0;
        if (rate <= 0)
            continue;
        numbers += of * (double)s[i].count;
        more += (times[i].seconds - bytes / rate - known) * (double)s[i].count;
    }
    return numbers > 0 && more > 0 ? more / numbers : 0;
}

static void fit_kernels(Fit *f, const Statement *s, const TraceTime *times, int n)
{
    fit_plain_kernels(f, s, times, n);
    f->function = fit_more(f, s, times, n, false);
    f->random = fit_more(f, s, times, n, true);
}

/* ---- other statements ---------------------------------------------------- */

static bool same_attention(const Attention *a, const Attention *b)
{
    return a->head == b->head && a->keys == b->keys && a->f32 == b->f32 &&
           a->dropout == b->dropout && a->backward == b->backward;
}

static void fit_attention(Fit *f, const Statement *s, double seconds)
{
    if (seconds <= 0)
        return;
    ParcAttention a = attention_call(f->p, s->op);
    Attention of = {.head = a.d, .keys = attention_keys(&a), .f32 = a.type == PARC_F32,
                    .dropout = a.drop > 0,
                    .backward = attention_is_backward(s->op->kind)};
    int i = 0;
    while (i < f->attention.n && !same_attention(&f->attention.at[i], &of))
        i++;
    if (i == f->attention.n)
        vec_push(f->p->arena, &f->attention, of);
    add(&f->attention.at[i].rate, attention_flops(f->p, s) * (double)s->count,
        seconds * (double)s->count);
}

static void fit_product(Fit *f, const Statement *s, double seconds)
{
    double flops = s->flops * (double)s->count;
    Product of = {.type = s->type[0], .batch = s->batch, .m = s->m, .n = s->n, .k = s->k};
    if (seconds <= 0)
        return;
    int i = 0;
    while (i < f->product.n && (f->product.at[i].type != of.type ||
                                f->product.at[i].batch != of.batch ||
                                f->product.at[i].m != of.m || f->product.at[i].n != of.n ||
                                f->product.at[i].k != of.k))
        i++;
    if (i == f->product.n)
        vec_push(f->p->arena, &f->product, of);
    add(&f->product.at[i].rate, flops, seconds);
    add(&f->matmul[dtype_size(of.type) > 2], flops, seconds);
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

/* The part by which the slowest rank is slower: ranks wait for it in collectives. With
 * more ranks than processors, ranks wait for a processor too; the more they wait for each
 * other, the less for a processor, so that both together are one part. */
static double straggler_of(const Statement *s, const TraceTime *times, int n)
{
    double waited = 0, computed = 0;
    for (int i = 0; i < n; i++) {
        waited += (double)s[i].count * times[i].waited;
        if (!op_is_collective(s[i].op->kind))
            computed += (double)s[i].count * times[i].seconds;
    }
    return computed > 0 ? waited / computed : 0;
}

static void fit_statements(Fit *f, const Statement *s, const TraceTime *times, int n)
{
    int ncollectives, next = 0;
    const CollectiveInfo *c = collectives_of(f->p, &ncollectives);
    for (int i = 0; i < n; i++) {
        double calls = (double)s[i].count, seconds = times[i].seconds * calls;
        OpKind kind = s[i].op->kind;
        if (op_is_collective(kind)) {
            while (c[next].op != s[i].op)
                next++;
            fit_collective(f, &c[next], times[i].seconds);
        } else if (op_is_einsum(kind)) {
            fit_product(f, &s[i], seconds);
        } else if (op_is_attention(kind)) {
            fit_attention(f, &s[i], times[i].seconds);
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
    const Rate *streaming = &f->kernel[FORM_STREAMING];
    if (streaming->amount == 0)
        streaming = &f->copy;
    double rate = rate_of(streaming);
    out(f->o, "  \"hbm\": {\n    ");
    constant(f, "rate", rate, spread_of(streaming), ",\n    ");
    for (int k = 0; k < KERNEL_FORMS; k++) {
        const Rate *r = f->kernel[k].amount > 0 ? &f->kernel[k] : streaming;
        constant(f, kernel_form_name[k], rate_of(r) / rate, spread_of(r), ",\n    ");
    }
    const Rate *lookup = f->lookup.amount > 0 ? &f->lookup : streaming;
    constant(f, "gather", rate_of(lookup) / rate, spread_of(lookup), ",\n    ");
    constant(f, "function", f->function, 0.3, ",\n    ");
    constant(f, "random", f->random, 0.3, ",\n    ");
    constant(f, "start", 0, 0, "\n  },\n");
}

static void print_products(const Fit *f)
{
    out(f->o, "  \"product\": [");
    for (int i = 0; i < f->product.n; i++) {
        const Product *p = &f->product.at[i];
        out(f->o, "%s    {\"type\": \"%s\", \"batch\": %lld, \"m\": %lld, \"n\": %lld, "
            "\"k\": %lld,\n     ", i ? ",\n" : "\n", dtype_name(p->type),
            (long long)p->batch, (long long)p->m, (long long)p->n, (long long)p->k);
        constant(f, "rate", rate_of(&p->rate), spread_of(&p->rate), "}");
    }
    out(f->o, "%s],\n", f->product.n ? "\n  " : "");
}

static void print_sizes(const Fit *f)
{
    out(f->o, "  \"kernel\": [");
    for (int i = 0; i < f->size.n; i++) {
        const KernelSize *k = &f->size.at[i];
        out(f->o, "%s    {\"form\": \"%s\", \"bytes\": %.0f,\n     ", i ? ",\n" : "\n",
            kernel_form_name[k->form], k->bytes / k->calls);
        constant(f, "rate", rate_of(&k->rate), spread_of(&k->rate), "}");
    }
    out(f->o, "%s],\n", f->size.n ? "\n  " : "");
}

static void print_attention(const Fit *f)
{
    out(f->o, "  \"attention\": [");
    for (int i = 0; i < f->attention.n; i++) {
        const Attention *a = &f->attention.at[i];
        out(f->o, "%s    {\"head\": %lld, \"keys\": %lld, ", i ? ",\n" : "\n",
            (long long)a->head, (long long)a->keys);
        if (a->dropout)
            out(f->o, "\"dropout\": \"yes\", ");
        if (a->f32)
            out(f->o, "\"type\": \"f32\", ");
        out(f->o, "\"pass\": \"%s\",\n     ", a->backward ? "backward" : "forward");
        constant(f, "rate", rate_of(&a->rate), spread_of(&a->rate), ",\n     ");
        constant(f, "per_tile", 0, 0, "}");
    }
    out(f->o, "%s],\n", f->attention.n ? "\n  " : "");
}

/* Least squares of relative errors of start + bytes / rate; without a start if that were
 * negative, or the rate. Of few bytes alone no rate follows: that of copies is given. */
static void solve(const Collective *c, double copy, double *start, double *rate)
{
    enum { FEW = 1 << 16 };
    if (c->largest < FEW) {
        *start = c->y / c->one;
        *rate = copy;
        return;
    }
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
    const Rate *copies = f->copy.amount > 0 ? &f->copy : &f->kernel[FORM_STREAMING];
    out(f->o, "  \"collective\": [");
    for (int i = 0; i < f->collective.n; i++) {
        const Collective *c = &f->collective.at[i];
        double start, rate;
        solve(c, rate_of(copies), &start, &rate);
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
    const TraceTime *times = trace_times(p->arena, s, n, trace, size, &ranks, &threads, &error);
    if (!times)
        return error;
    Fit f = {.o = o, .p = p, .date = date};
    f.source = arena_printf(p->arena, "%s, %d rank%s of %d thread%s", source, ranks,
                            ranks == 1 ? "" : "s", threads, threads == 1 ? "" : "s");
    fit_kernels(&f, s, times, n);
    fit_statements(&f, s, times, n);
    if (f.matmul[0].amount + f.matmul[1].amount == 0 || f.attention.n == 0 ||
        f.kernel[FORM_STREAMING].amount + f.copy.amount == 0)
        return "a machine file needs the times of matmuls, attention and elementwise "
               "kernels: trace another model";
    out(o, "{\n  \"name\": ");
    out_json_string(o, name);
    out(o, ",\n  \"target\": \"cpu\",\n  \"description\": ");
    out_json_string(o, f.source);
    out(o, ",\n  \"device\": {\n    ");
    constant(&f, "straggler", straggler_of(s, times, n), 0.5, "\n  },\n");
    print_rates(&f);
    print_memory(&f);
    out(o, "  \"node\": {\n    ");
    constant(&f, "ranks", ranks, 0, "\n  },\n");
    print_products(&f);
    print_sizes(&f);
    print_attention(&f);
    print_collectives(&f);
    out(o, "}\n");
    return NULL;
}
