/* cuda_launch.c: writes the kernels of all fused ops (kernels.cu), C functions
 * that launch them (launch.c), and prototypes of these functions (kernels.h). A
 * launch states the kernel's number, blocks, threads per block, bytes of
 * dynamic shared memory, and arguments:
 *
 *   void k14_norm(ParcRt *rt, parc_bf16 *y, const parc_bf16 *x)
 *   {
 *       parc_launch(rt, PARC_COMPUTE, 3, 2048, 128, 0, (void *[]){&y, &x});
 *   }
 *
 * A kernel may have a variant for GPUs with less shared memory per block; the
 * function launches the one that fits:
 *
 *       if (parc_block_has(rt, 3, 144000)) {
 *           parc_launch(rt, PARC_COMPUTE, 3, 2048, 512, 144000, (void *[]){&y, &x});
 *       } else {
 *           parc_launch(rt, PARC_COMPUTE, 4, 2048, 512, 0, (void *[]){&y, &x});
 *       }
 *
 * Kernels that differ only in names are printed once; all their launch
 * functions launch the first.
 */
#include <string.h>

#include "base/version.h"
#include "codegen/c_text.h"
#include "codegen/cuda/cuda.h"
#include "codegen/cuda/cuda_lower.h"
#include "runtime/cuda/core/rt_block_memory.h"

typedef struct Entry {
    const Op *op;
    int number;
    const CudaPlan *plan;
    bool low_shared; /* variant of the previous entry for less shared memory */
    const char *key; /* the text without names and comments */
    int same;        /* the entry whose kernel it launches: often itself */
    CudaFunction first, second;
    const char *text;
} Entry;

typedef struct Page {
    const Program *p;
    VEC(Entry) entry;
} Page;

static const char *entry_name(const Entry *e)
{
    const Program *p = e->plan->p;
    return arena_printf(p->arena, "%s%s", kernel_name(p, e->op, e->number),
                        e->low_shared ? "_low_shared" : "");
}

/* The text with parameters numbered; equal texts are equal kernels. */
static const char *key_of(const CudaPlan *plan)
{
    Arena *a = plan->p->arena;
    Out o;
    out_init(&o, a);
    const char **name = NEW_ARRAY(a, const char *, plan->k->nbuffers + 1);
    CudaFunction first, second;
    for (int i = 0; i < plan->k->nbuffers; i++) {
        name[i] = plan->k->buffer[i].name;
        plan->k->buffer[i].name = arena_printf(a, "x%d", i);
    }
    cuda_functions(&o, plan, "kernel", true, &first, &second);
    for (int i = 0; i < plan->k->nbuffers; i++)
        plan->k->buffer[i].name = name[i];
    return o.text;
}

static void add_entry(Page *page, const CudaPlan *plan, int number,
                      bool low_shared)
{
    Entry e = {.op = plan->k->op,
               .number = number,
               .plan = plan,
               .low_shared = low_shared,
               .key = key_of(plan),
               .same = page->entry.n};
    for (int i = page->entry.n; i-- > 0;)
        if (strcmp(page->entry.at[i].key, e.key) == 0)
            e.same = page->entry.at[i].same;
    Out o;
    out_init(&o, page->p->arena);
    const Entry *same = &page->entry.at[e.same];
    const char *name = e.same < page->entry.n
                           ? same->first.symbol
                           : entry_name(&e);
    cuda_functions(&o, e.plan, name, false, &e.first, &e.second);
    e.text = o.text;
    vec_push(page->p->arena, &page->entry, e);
}

static void add_op(void *context, const Program *p, const Op *fused, int number)
{
    Page *page = context;
    const CudaPlan *plan = cuda_plan(p, fused);
    add_entry(page, plan, number, false);
    if (plan->low_shared)
        add_entry(page, plan->low_shared, number, true);
}

/* ---- kernels.cu ---------------------------------------------------------- */

/* Prints "launch   264 blocks of 512, vectors of 8, rows in registers". The
 * blocks and threads of a second kernel follow: "; 16 of 256". */
static void list_launch(Out *o, const CudaPlan *c)
{
    static const char *const form[] = {
        [CUDA_FLAT] = "", [CUDA_ROWS] = "row", [CUDA_TILES] = ""};
    static const char *const storage[] = {[CUDA_REGISTERS] = "registers",
                                          [CUDA_SHARED] = "shared memory",
                                          [CUDA_STREAMED] = NULL};
    out(o, " * launch   %lld block%s of %d", (long long)c->grid,
        c->grid == 1 ? "" : "s", c->threads);
    if (c->vector > 1)
        out(o, ", vectors of %d%s", c->vector, c->guide ? ", ragged" : "");
    if (*form[c->form] && c->nphases > 1)
        out(o, ", rows %s%s", storage[c->storage] ? "in " : "streamed",
            storage[c->storage] ? storage[c->storage] : "");
    if (c->combine)
        out(o, "; %lld of %d", (long long)c->combine_grid,
            CUDA_WARP * c->combine_warps);
    out(o, "\n");
}

static void list_variant(Out *o, const Page *page, int n)
{
    const Entry *e = &page->entry.at[n];
    out_line(o, "\n/* %s", entry_name(e));
    out_line(o, " * for      %s on GPUs with %d KiB of shared memory per block",
             kernel_name(e->plan->p, e->op, e->number), RT_SHARED_MIN >> 10);
}

static void print_entry(Out *o, const Page *page, int n)
{
    const Entry *e = &page->entry.at[n];
    if (e->low_shared)
        list_variant(o, page, n);
    else
        kernel_comment(o, e->plan->p, e->plan->k, e->number);
    if (e->same != n) {
        out_line(o, " * same as  %s", page->entry.at[e->same].first.symbol);
        out_line(o, " */");
        return;
    }
    list_launch(o, e->plan);
    out_line(o, " */");
    out(o, "%s", e->text);
}

static Page page_of(const Program *p)
{
    Page page = {.p = p};
    kernel_each(p, add_op, &page);
    return page;
}

void cuda_kernels_emit(Out *cu, const Program *p)
{
    Page page = page_of(p);
    out_line(cu, "/* kernels.cu: the kernels of %s, written by parc "
                 PARC_VERSION ".",
             c_comment(p->arena, p->model));
    out_line(cu, " *");
    out_line(cu, " * Each fused kernel is a group of elementwise ops and "
                 "reductions that accesses");
    out_line(cu, " * memory once. The comment above a kernel has the lines of "
                 "the model that it");
    out_line(cu, " * computes, and its tensors: a rank's part `of` the type of "
                 "the global tensor.");
    out_line(cu, " * launch.c launches the kernels. */");
    out_line(cu, "#include \"parc_device.h\"");
    for (int i = 0; i < page.entry.n; i++)
        print_entry(cu, &page, i);
}

/* ---- launch.c ------------------------------------------------------------ */

int cuda_kernel_number(CudaKernels *k, const char *symbol)
{
    for (int i = 0; i < k->symbol.n; i++)
        if (!strcmp(k->symbol.at[i], symbol))
            return i;
    vec_push(k->arena, &k->symbol, symbol);
    return k->symbol.n - 1;
}

static void launch(Out *o, const Program *p, const Entry *e,
                   const CudaFunction *f, CudaKernels *list)
{
    Arena *a = p->arena;
    const char *call =
        arena_printf(a, "parc_launch(rt, %s, %d, %lld, %d, %lld, (void *[]){",
                     c_stream_name(e->op->stream), cuda_kernel_number(list, f->symbol),
                     (long long)f->grid, f->threads, (long long)f->shared_bytes);
    for (int i = 0; i < f->nargs; i++)
        call = arena_printf(a, "%s%s&%s", call, i ? ", " : "",
                            f->arg[i] < e->plan->k->nbuffers
                                ? e->plan->k->buffer[f->arg[i]].name
                                : "workspace");
    out_code(o, "%s});", call);
}

/* Prints the launches of both kernels of an entry, or of its only one. */
static void launches(Out *o, const Program *p, const Entry *e,
                     CudaKernels *list)
{
    launch(o, p, e, &e->first, list);
    if (e->second.grid)
        launch(o, p, e, &e->second, list);
}

/* Prints the launches of `e` or, if its shared memory does not fit the GPU, of
 * its variant, the next entry. */
static void launches_that_fit(Out *o, const Program *p, const Entry *e,
                              CudaKernels *list)
{
    out_open(o, "if (parc_block_has(rt, %d, %lld)) {",
             cuda_kernel_number(list, e->first.symbol),
             (long long)e->first.shared_bytes);
    launches(o, p, e, list);
    o->indent -= OUT_INDENT;
    out_open(o, "} else {");
    launches(o, p, e + 1, list);
    out_close(o);
}

static bool is_passed(const Entry *e, int buffer)
{
    bool passed = false;
    for (int i = 0; i < e->first.nargs; i++)
        passed |= e->first.arg[i] == buffer;
    for (int i = 0; i < e->second.nargs; i++)
        passed |= e->second.arg[i] == buffer;
    return passed || (e->plan->low_shared && is_passed(e + 1, buffer));
}

void cuda_launch_emit(Out *c, const Program *p, CudaKernels *list)
{
    Page page = page_of(p);
    out_line(c, "/* launch.c: the functions of kernels.h, which launch the "
                "kernels of kernels.cu. */");
    out_line(c, "#include \"kernels.h\"");
    for (int n = 0; n < page.entry.n; n++) {
        const Entry *e = &page.entry.at[n];
        if (e->low_shared)
            continue;
        out_line(c, "");
        kernel_function(c, e->plan->p, e->plan->k, e->number, "", "");
        out_open(c, "{");
        for (int i = 0; i < e->plan->k->nbuffers; i++)
            if (!is_passed(e, i))
                out_line(c, "(void)%s;", e->plan->k->buffer[i].name);
        if (e->plan->low_shared)
            launches_that_fit(c, p, e, list);
        else
            launches(c, p, e, list);
        out_close(c);
    }
}

static void prototype(void *context, const Program *p, const Op *fused,
                      int number)
{
    kernel_function(context, p, cuda_plan(p, fused)->k, number, "", ";");
}

void cuda_prototypes_emit(Out *h, const Program *p)
{
    prototypes_emit(h, p, "launch.c", prototype, h);
}
