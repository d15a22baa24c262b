/* eval.c: makes and names the values of expressions. */
#include "frontend/eval/eval.h"

#include <string.h>

#include "base/text.h"

/* ---- making and naming ---- */

Datum datum_poison(void)
{
    return (Datum){.kind = DATUM_POISON};
}

Datum datum_none(void)
{
    return (Datum){.kind = DATUM_NONE};
}

Datum datum_int(int64_t x)
{
    return (Datum){.kind = DATUM_INT, .integer = x};
}

Datum datum_float(double x)
{
    return (Datum){.kind = DATUM_FLOAT, .number = x};
}

Datum datum_bool(bool x)
{
    return (Datum){.kind = DATUM_BOOL, .integer = x};
}

Datum datum_word(const char *text)
{
    return (Datum){.kind = DATUM_WORD, .text = text};
}

Datum datum_tensor(Value *v)
{
    if (!v)
        return datum_poison();
    return (Datum){.kind = DATUM_TENSOR, .tensor = v};
}

bool datum_is_number(Datum x)
{
    return x.kind == DATUM_INT || x.kind == DATUM_FLOAT;
}

double datum_number(Datum x)
{
    return x.kind == DATUM_INT ? (double)x.integer : x.number;
}

const char *datum_text(Arena *a, Datum x)
{
    static const Mesh no_mesh;
    switch (x.kind) {
    case DATUM_POISON:
        return "an error";
    case DATUM_NONE:
        return "none";
    case DATUM_INT:
        return arena_printf(a, "%lld", (long long)x.integer);
    case DATUM_FLOAT: {
        Out o;
        out_init(&o, a);
        out_double(&o, x.number);
        if (!strpbrk(o.text, ".en"))
            out(&o, ".0"); /* a float never prints as an integer */
        return o.text;
    }
    case DATUM_BOOL:
        return x.integer ? "true" : "false";
    case DATUM_WORD:
        return arena_printf(a, "'%s'", x.text);
    case DATUM_RANGE:
        return "a range";
    case DATUM_INIT:
        return "an initializer";
    case DATUM_TUPLE:
        return arena_printf(a, "a tuple of %d", x.nitems);
    case DATUM_TENSOR:
        return type_text(a, &x.tensor->type, &no_mesh);
    case DATUM_MODULE:
        return "a module";
    case DATUM_ARRAY:
        return "an array of modules";
    case DATUM_PARAM:
        return "a parameter";
    case DATUM_BUFFER:
        return "a buffer";
    }
    return "nothing";
}

/* ---- words ---- */

const char *const word_names[] = {"zeros", "ones", "half", "interleaved",
                                  "tanh",  "mean", "sum", "lowest",
                                  "softmax", "sigmoid", "bias"};
const int word_count = sizeof word_names / sizeof *word_names;

bool eval_word(const char *name, Datum *result)
{
    bool zeros = strcmp(name, "zeros") == 0;
    if (zeros || strcmp(name, "ones") == 0) {
        *result = (Datum){.kind = DATUM_INIT};
        result->init.kind = zeros ? INIT_ZEROS : INIT_ONES;
        return true;
    }
    bool known = row_find(word_names, word_count, name);
    if (known)
        *result = datum_word(name);
    return known;
}
