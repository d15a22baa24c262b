/* report_units.c: prints the fields of JSON objects, and the unit of
 * measurement (bytes, flop, …) and the scope of every number in the JSON.
 *
 *   "units": { "collectives.bytes": {"unit": "bytes", "of": "rank",
 *                                    "per": "call"}, … }
 *
 * `of` is "rank" for one rank, or "mesh" for the whole mesh (all ranks
 * together, each element or operation of the model counted once). `per` is
 * "call", "step", "run" (of a forward program), or null for a quantity that does
 * not depend on time.
 */
#include "codegen/numbers.h"
#include "report/report.h"

#include "base/text.h"

/* ---- fields -------------------------------------------------------------- */

void json_name(Out *o, const char *name)
{
    char last = o->text[o->size - 1];
    out(o, "%s\"%s\": ", last == '{' || last == ' ' ? "" : ", ", name);
}

void json_text(Out *o, const char *name, const char *text)
{
    json_name(o, name);
    if (text)
        out_json_string(o, text);
    else
        out(o, "null");
}

void json_number(Out *o, const char *name, int64_t n)
{
    json_name(o, name);
    out(o, "%lld", (long long)n);
}

void json_real(Out *o, const char *name, double x)
{
    json_name(o, name);
    out_double(o, x);
}

void json_shape(Out *o, int ndim, const int64_t *dim)
{
    json_name(o, "shape");
    out(o, "[");
    for (int d = 0; d < ndim; d++)
        out(o, "%s%lld", d ? ", " : "", (long long)dim[d]);
    out(o, "]");
}

/* ---- units --------------------------------------------------------------- */

typedef struct KeyUnit {
    const char *key, *unit, *of, *per;
} KeyUnit;

static const char rank[] = "rank", whole[] = "mesh";

static const KeyUnit table[] = {
    {"mesh.size", "ranks", whole, NULL},
    {"params.shape", "elements of a layer", whole, NULL},
    {"params.local_elements", "elements of a layer", rank, NULL},
    {"params.count", "layers", whole, NULL},
    {"collectives.group_size", "ranks", whole, NULL},
    {"collectives.bytes", "bytes", rank, "call"},
    {"collectives.count", "calls", rank, "step"},
    {"groups.size", "ranks", whole, NULL},
    {"groups.count", "groups", whole, NULL},
    {"groups.axes.size", "ranks", whole, NULL},
    {"groups.axes.stride", "ranks", whole, NULL},
    {"work.bytes", "bytes", rank, "call"},
    {"work.flops", "flop", rank, "call"},
    {"work.count", "calls", rank, "step"},
    {"memory.peak", "bytes", rank, NULL},
    {"memory.lower_bound", "bytes", rank, NULL},
    {"memory.host", "bytes", rank, NULL},
    {"memory.staging", "bytes", rank, NULL},
    {"at_peak.bytes", "bytes", rank, NULL},
    {"transfers.bytes", "bytes", rank, "call"},
    {"transfers.count", "calls", rank, "step"},
    {"warnings.ops", "operations of the program", rank, NULL},
    {"warnings.calls", "calls", rank, "step"},
    {"warnings.bytes", "bytes", rank, "step"},
    {"warnings.flops", "flop", rank, "step"},
    {"warnings.redundant_flops", "flop", rank, "step"},
    {"flops.forward", "flop", whole, "step"},
    {"flops.backward", "flop", whole, "step"},
    {"flops.optimizer", "flop", whole, "step"},
    {"recomputed_flops", "flop", whole, "step"},
    {"model_flops", "flop", whole, "step"},
};

/* Fields of a forward program, after its name. */
static const KeyUnit forward[] = {
    {"peak", "bytes", rank, NULL},
    {"more", "bytes", rank, NULL},
    {"flops", "flop", whole, "run"},
    {"kernels", "calls", rank, "run"},
    {"matmuls", "calls", rank, "run"},
    {"tensors.shape", "elements", whole, "run"},
    {"collectives.bytes", "bytes", rank, "call"},
    {"collectives.count", "calls", rank, "run"},
};

static void entry(Out *o, const KeyUnit *u, bool first)
{
    out(o, "%s\n    ", first ? "" : ",");
    json_name(o, u->key);
    out(o, "{");
    json_text(o, "unit", u->unit);
    json_text(o, "of", u->of);
    json_text(o, "per", u->per);
    out(o, "}");
}

void report_units(Out *o, const Program *p)
{
    out(o, "  \"units\": {");
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        entry(o, &table[i], i == 0);
    for (int c = 0; c < MEM_CLASSES; c++) {
        KeyUnit u = {arena_printf(p->arena, "memory.%s", memory_class_words[c]),
                     "bytes", rank, NULL};
        entry(o, &u, false);
    }
    for (int k = 0; k < PURPOSES; k++)
        for (size_t i = 0; p->forward[k] && i < sizeof forward / sizeof *forward;
             i++) {
            KeyUnit u = forward[i];
            u.key = arena_printf(p->arena, "%s.%s", forward_word(p->forward[k]),
                                 u.key);
            if (p->forward[k]->output.n ||
                !starts_with(forward[i].key, "tensors"))
                entry(o, &u, false);
        }
    out(o, "\n  },\n");
}
