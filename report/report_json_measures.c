/* report_json_measures.c: prints what every number in the JSON measures: bytes,
 * flop, ranks …, of one rank or of the mesh, per call or per step.
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
#include "report/json.h"
#include "report/report.h"

#include "base/text.h"

typedef struct Measure {
    const char *key, *unit, *of, *per;
} Measure;

static const char rank[] = "rank", whole[] = "mesh";

static const Measure measure[] = {
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
    {"hints.lines", "lines of the plan", whole, NULL},
    {"hints.sent", "bytes", rank, "step"},
    {"hints.sent_after", "bytes", rank, "step"},
    {"hints.flops", "flop", rank, "step"},
    {"hints.flops_after", "flop", rank, "step"},
    {"flops.forward", "flop", whole, "step"},
    {"flops.backward", "flop", whole, "step"},
    {"flops.optimizer", "flop", whole, "step"},
    {"recomputed_flops", "flop", whole, "step"},
    {"model_flops", "flop", whole, "step"},
};

/* Fields of a forward program, after its name. */
static const Measure forward[] = {
    {"peak", "bytes", rank, NULL},
    {"more", "bytes", rank, NULL},
    {"flops", "flop", whole, "run"},
    {"kernels", "calls", rank, "run"},
    {"matmuls", "calls", rank, "run"},
    {"tensors.shape", "elements", whole, "run"},
    {"collectives.bytes", "bytes", rank, "call"},
    {"collectives.count", "calls", rank, "run"},
};

static void entry(Out *o, const Measure *m, bool first)
{
    out(o, "%s\n    ", first ? "" : ",");
    json_name(o, m->key);
    out(o, "{");
    json_text(o, "unit", m->unit);
    json_text(o, "of", m->of);
    json_text(o, "per", m->per);
    out(o, "}");
}

/* The numbers among the settings. */
static void setting_measures(Out *o)
{
    for (const Option *of = option_rows; of < option_rows + OPTIONS; of++) {
        const char *name = option_json_name(o->arena, of);
        bool number = of->takes == TAKES_INT || of->takes == TAKES_NUMBER ||
                      of->takes == TAKES_LIMIT || of->takes == TAKES_PAIR;
        Measure m = {arena_printf(o->arena, "settings.%s", name ? name : ""),
                     of->unit ? of->unit : "1", whole, NULL};
        if (name && number)
            entry(o, &m, false);
    }
}

void report_json_measures(Out *o, const Program *p)
{
    out(o, "  \"units\": {");
    for (size_t i = 0; i < sizeof measure / sizeof *measure; i++)
        entry(o, &measure[i], i == 0);
    setting_measures(o);
    for (int c = 0; c < MEM_CLASSES; c++) {
        Measure m = {arena_printf(p->arena, "memory.%s", memory_class_words[c]),
                     "bytes", rank, NULL};
        entry(o, &m, false);
    }
    for (int k = 0; k < PURPOSES; k++)
        for (size_t i = 0; p->forward[k] && i < sizeof forward / sizeof *forward;
             i++) {
            Measure m = forward[i];
            m.key = arena_printf(p->arena, "%s.%s", forward_word(p->forward[k]),
                                 m.key);
            if (p->forward[k]->output.n ||
                !starts_with(forward[i].key, "tensors"))
                entry(o, &m, false);
        }
    out(o, "\n  },\n");
}
