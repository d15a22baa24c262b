/* kernel_phase.c: orders the instructions of a kernel into phases (kernel.h),
 * divides the summed rows into parts, and assigns memory to sums.
 *
 * A phase's loop computes what its roots (stores, row reductions, sums by
 * column) need. Row values are computed once, in the first phase in which their
 * operands are available. On the CPU, a costly value that a later phase needs
 * is kept in the row of a result that is written later.
 */
#include "codegen/kernel/kernel.h"

/* Limits for the parts of the summed rows: the least elements in a part, and
 * the most parts, so that combining them is cheap. The number of parts depends
 * on shapes only, so that sums are the same for every number of threads. */
enum { PART_WORK = 16384, MAX_PARTS = 64 };

typedef struct Phaser {
    Arena *arena;
    Kernel *k;
    bool *row_done; /* by instruction: in the list of row values */
    int *loop_done; /* by instruction: 1 + the last phase that computes it */
    bool *sum_done; /* by instruction: in an epilogue list */
    bool cached;
} Phaser;

static void need_row(Phaser *s, int i)
{
    const KernelInstr *instr = &s->k->instr[i];
    if (s->row_done[i] || instr->code == KERNEL_CONST ||
        instr->code == KERNEL_REDUCE || instr->code == KERNEL_ONLINE)
        return;
    s->row_done[i] = true;
    for (int a = 0; a < instr->nargs; a++)
        need_row(s, instr->arg[a]);
    if (kernel_is_element(s->k, instr->axes))
        return; /* a PICK computes it */
    KernelPhase *phase = &s->k->phase[instr->phase];
    phase->row[phase->nrow++] = i;
}

/* The buffer to which an earlier phase has stored the instruction's value. */
static int stored_before(const Kernel *k, int i, int phase)
{
    for (int r = 0; r < k->nroots; r++) {
        const KernelRoot *root = &k->root[r];
        if (root->kind == ROOT_STORE && root->element && root->instr == i &&
            root->phase < phase &&
            k->buffer[root->target].axes == k->instr[i].axes)
            return root->target;
    }
    return -1;
}

static void need_element(Phaser *s, int i, int phase, KernelStep *steps, int *n)
{
    const KernelInstr *instr = &s->k->instr[i];
    if (!kernel_is_element(s->k, instr->axes)) {
        need_row(s, i);
        return;
    }
    if (s->loop_done[i] == phase + 1)
        return;
    s->loop_done[i] = phase + 1;
    int buffer = -1;
    if (s->cached && instr->code != KERNEL_LOAD)
        buffer = stored_before(s->k, i, phase);
    for (int a = 0; a < instr->nargs && buffer < 0; a++)
        need_element(s, instr->arg[a], phase, steps, n);
    steps[(*n)++] = (KernelStep){.instr = i, .reused = buffer >= 0, .buffer = buffer};
}

static void order_phase(Phaser *s, int p)
{
    Kernel *k = s->k;
    KernelPhase *phase = &k->phase[p];
    phase->element = NEW_ARRAY(s->arena, KernelStep, k->ninstrs + 1);
    for (int r = 0; r < k->nroots; r++) {
        const KernelRoot *root = &k->root[r];
        if (root->epilogue || root->phase != p)
            continue;
        if (!root->element) {
            need_row(s, root->instr);
            continue;
        }
        phase->loop = true;
        need_element(s, root->instr, p, phase->element, &phase->nelement);
    }
}

static void need_sum(Phaser *s, int i)
{
    Kernel *k = s->k;
    const KernelInstr *instr = &k->instr[i];
    if (s->sum_done[i] || instr->code == KERNEL_CONST ||
        instr->code == KERNEL_TOTAL)
        return;
    s->sum_done[i] = true;
    for (int a = 0; a < instr->nargs; a++)
        need_sum(s, instr->arg[a]);
    if (kernel_is_element(k, instr->axes))
        k->column[k->ncolumn++] = i;
    else
        k->kept[k->nkept++] = i;
}

/* ---- keeping costly values ----------------------------------------------- */

/* Whether a later phase uses the instruction's value. */
static bool is_needed_later(Arena *a, const Kernel *k, int on)
{
    bool *from = NEW_ARRAY(a, bool, k->ninstrs + 1);
    from[on] = true;
    for (int i = on + 1; i < k->ninstrs; i++)
        for (int n = 0; n < k->instr[i].nargs; n++)
            from[i] |= from[k->instr[i].arg[n]] &&
                       kernel_is_element(k, k->instr[i].axes);
    for (int r = 0; r < k->nroots; r++)
        if (k->root[r].element && !k->root[r].epilogue &&
            k->root[r].phase > k->instr[on].phase && from[k->root[r].instr])
            return true;
    return false;
}

/* The index of a result that only the last phase writes, with float elements of
 * `size` bytes and these axes; -1: none. */
static int late_result(const Kernel *k, uint32_t axes, int size)
{
    for (int r = 0; r < k->nroots; r++) {
        const KernelRoot *root = &k->root[r];
        bool late = root->kind == ROOT_STORE && root->element &&
                    !root->epilogue && root->phase == k->nphases - 1 &&
                    k->buffer[root->target].axes == axes &&
                    dtype_is_float(k->buffer[root->target].dtype) &&
                    dtype_size(k->buffer[root->target].dtype) == size;
        for (int i = 0; i < k->nroots && late; i++)
            late = i == r || k->root[i].kind != ROOT_STORE ||
                   k->root[i].target != root->target;
        if (late)
            return root->target;
    }
    return -1;
}

/* The index of an additional buffer, a row of f32 on the stack of the thread
 * that computes it; -1: the buffer is in use or would be too long, or the space
 * has a pair axis. */
static int kept_row(Kernel *k)
{
    enum { LONGEST = 65536 };
    const Space *s = &k->space;
    KernelBuffer *row = &k->buffer[k->nbuffers];
    int64_t columns = 1;
    if (k->keeps_row || s->pair >= 0)
        return -1;
    *row = (KernelBuffer){
        .name = "kept", .dtype = DT_F32, .out = true, .axes = s->all};
    for (int a = s->naxes; a-- > 0;) {
        if (!(s->column >> a & 1))
            continue;
        row->stride[a] = columns;
        columns *= s->size[a];
    }
    row->elements = columns;
    k->keeps_row = columns <= LONGEST;
    return k->keeps_row ? k->nbuffers : -1;
}

/* An exponential that a later phase needs is kept in the row of the result that
 * will be written: the row is in the cache, and the phase that writes the
 * result reads the value first. A row of 16 bits would round it: for a
 * probability near 1, the gradient of the loss is a small difference. */
static void keep_costly(Arena *a, Kernel *k)
{
    for (int i = 0; i < k->ninstrs; i++) {
        const KernelInstr *instr = &k->instr[i];
        if (instr->code != KERNEL_OP || !fuse_is_expensive(instr->op) ||
            instr->epilogue || instr->dtype != DT_F32 ||
            instr->axes != k->space.all || !is_needed_later(a, k, i) ||
            stored_before(k, i, k->nphases) >= 0)
            continue;
        int buffer = late_result(k, instr->axes, 4);
        if (buffer < 0 && late_result(k, instr->axes, 2) >= 0)
            buffer = kept_row(k);
        if (buffer < 0)
            return;
        KernelRoot *more = NEW_ARRAY(a, KernelRoot, k->nroots + 1);
        for (int r = 0; r < k->nroots; r++)
            more[r] = k->root[r];
        more[k->nroots++] = (KernelRoot){.kind = ROOT_STORE,
                                         .instr = i,
                                         .target = buffer,
                                         .element = true,
                                         .phase = instr->phase};
        k->root = more;
    }
}

/* ---- sizes --------------------------------------------------------------- */

int64_t space_size(const Space *s, uint32_t axes)
{
    int64_t n = 1;
    for (int a = 0; a < s->naxes; a++)
        if (axes >> a & 1)
            n *= s->size[a];
    return n;
}

static void set_sizes(Kernel *k)
{
    k->tasks = space_size(&k->space, k->space.kept);
    k->rows = space_size(&k->space, k->space.summed);
    k->columns = space_size(&k->space, k->space.column);
    k->work = k->tasks * k->rows * k->columns;
    int64_t parts = k->work / PART_WORK;
    if (parts > MAX_PARTS)
        parts = MAX_PARTS;
    parts /= k->tasks;
    if (parts > k->rows)
        parts = k->rows;
    k->parts = parts < 1 ? 1 : parts;
}

/* The result that stores a total, if it is the only use; -1: none. */
static int direct_buffer(const Kernel *k, int instr)
{
    int buffer = -1;
    if (k->parts > 1)
        return -1;
    for (int r = 0; r < k->nroots; r++) {
        if (k->root[r].instr != instr)
            continue;
        if (buffer >= 0 || k->root[r].kind != ROOT_STORE ||
            k->buffer[k->root[r].target].dtype != DT_F32)
            return -1;
        buffer = k->root[r].target;
    }
    for (int i = 0; i < k->ninstrs; i++)
        for (int a = 0; a < k->instr[i].nargs; a++)
            if (k->instr[i].arg[a] == instr)
                return -1;
    return buffer;
}

static void add_total(Kernel *k, const KernelRoot *root, int64_t *floats)
{
    int at = k->ntotals++;
    KernelTotal *total = &k->total[at];
    k->instr[root->target].accumulator = at;
    *total = (KernelTotal){
        .instr = root->target, .arg = root->instr, .columns = root->element};
    total->buffer = direct_buffer(k, root->target);
    total->direct = total->buffer >= 0;
    int64_t stride = 1;
    for (int a = k->space.naxes; a-- > 0;) {
        if (!(k->space.column >> a & 1))
            continue;
        total->stride[a] =
            total->direct ? k->buffer[total->buffer].stride[a] : stride;
        stride *= k->space.size[a];
    }
    if (total->direct)
        return;
    total->offset = *floats;
    *floats += k->tasks * k->parts * (total->columns ? k->columns : 1);
}

static void lay_out_totals(Arena *a, Kernel *k)
{
    int64_t floats = 0;
    k->total = NEW_ARRAY(a, KernelTotal, k->nroots + 1);
    for (int r = 0; r < k->nroots; r++)
        if (k->root[r].kind == ROOT_TOTAL)
            add_total(k, &k->root[r], &floats);
    k->workspace = floats * (int64_t)sizeof(float);
}

static void count_phases(Kernel *k)
{
    k->nphases = 0;
    for (int r = 0; r < k->nroots; r++)
        if (!k->root[r].epilogue && k->root[r].phase >= k->nphases)
            k->nphases = k->root[r].phase + 1;
}

void kernel_order(const Program *p, Kernel *k, bool cached)
{
    Arena *a = p->arena;
    Phaser s = {.arena = a,
                .k = k,
                .cached = cached,
                .row_done = NEW_ARRAY(a, bool, k->ninstrs + 1),
                .loop_done = NEW_ARRAY(a, int, k->ninstrs + 1)};
    count_phases(k);
    k->phase = NEW_ARRAY(a, KernelPhase, k->nphases + 1);
    for (int i = 0; i < k->nphases; i++)
        k->phase[i].row = NEW_ARRAY(a, int, k->ninstrs + 1);
    for (int i = 0; i < k->nphases; i++)
        order_phase(&s, i);
}

void kernel_phases(const Program *p, Kernel *k, bool cached)
{
    Arena *a = p->arena;
    Phaser s = {.arena = a,
                .k = k,
                .sum_done = NEW_ARRAY(a, bool, k->ninstrs + 1)};
    k->kept = NEW_ARRAY(a, int, k->ninstrs + 1);
    k->column = NEW_ARRAY(a, int, k->ninstrs + 1);
    count_phases(k);
    if (cached)
        keep_costly(a, k);
    kernel_order(p, k, cached);
    for (int r = 0; r < k->nroots; r++)
        if (k->root[r].epilogue)
            need_sum(&s, k->root[r].instr);
    set_sizes(k);
    lay_out_totals(a, k);
}
