/* lower_arithmetic.c: evaluates arithmetic of compile-time values.
 *
 * Integers have 64 bits and never wrap. A division of integers that leaves a
 * remainder is an error, because integers of a model are sizes. An operation on
 * an integer and a float gives a float.
 */
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "frontend/lower/lower.h"

static Datum overflow(Lower *l, Loc loc)
{
    return lower_poison(l, loc, NULL, "this integer does not fit in 64 bits");
}

static Datum int_divide(Lower *l, Loc loc, BinaryOp op, int64_t x, int64_t y)
{
    if (y == 0)
        return lower_poison(l, loc, NULL, "division by zero");
    if (x == INT64_MIN && y == -1)
        return overflow(l, loc);
    int64_t rest = x % y;
    if (op == BIN_MOD)
        return datum_int(rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest);
    if (rest != 0)
        return lower_poison(l, loc, "use floor(1.0 * x / y) to round down",
                            "%lld / %lld leaves a remainder of %lld",
                            (long long)x, (long long)y,
                            (long long)(rest < 0 ? -rest : rest));
    return datum_int(x / y);
}

static Datum int_power(Lower *l, Loc loc, int64_t x, int64_t y)
{
    int64_t result = 1;
    for (; y > 0; y--) {
        if (__builtin_mul_overflow(result, x, &result))
            return overflow(l, loc);
        if (result == 0 || result == 1)
            break;
        if (result == -1 && y % 2 == 1)
            break; /* x is -1: the remaining factors cancel in pairs */
    }
    return datum_int(result);
}

static double float_result(BinaryOp op, double x, double y)
{
    if (op == BIN_ADD)
        return x + y;
    if (op == BIN_SUB)
        return x - y;
    if (op == BIN_MUL)
        return x * y;
    if (op == BIN_DIV)
        return x / y;
    if (op == BIN_MOD)
        return x - y * floor(x / y);
    return pow(x, y);
}

static Datum float_binary(Lower *l, Loc loc, BinaryOp op, double x, double y)
{
    double r = float_result(op, x, y);
    if (isfinite(r))
        return datum_float(r);
    const char *message = "this number does not fit in 64 bits";
    if ((op == BIN_DIV || op == BIN_MOD) && y == 0)
        message = "division by zero";
    else if (isnan(r))
        message = "this power is not a real number";
    return lower_poison(l, loc, NULL, "%s", message);
}

static Datum int_binary(Lower *l, Loc loc, BinaryOp op, int64_t x, int64_t y)
{
    int64_t r = 0;
    bool wide = false;
    if (op == BIN_ADD)
        wide = __builtin_add_overflow(x, y, &r);
    else if (op == BIN_SUB)
        wide = __builtin_sub_overflow(x, y, &r);
    else if (op == BIN_MUL)
        wide = __builtin_mul_overflow(x, y, &r);
    else if (op == BIN_DIV || op == BIN_MOD)
        return int_divide(l, loc, op, x, y);
    else if (op == BIN_POW && y >= 0)
        return int_power(l, loc, x, y);
    else
        return float_binary(l, loc, op, (double)x, (double)y);
    return wide ? overflow(l, loc) : datum_int(r);
}

static bool datum_equal(Datum x, Datum y)
{
    if (datum_is_number(x) && datum_is_number(y)) {
        if (x.kind == DATUM_INT && y.kind == DATUM_INT)
            return x.integer == y.integer;
        return datum_number(x) == datum_number(y);
    }
    if (x.kind != y.kind)
        return false;
    if (x.kind == DATUM_WORD)
        return strcmp(x.text, y.text) == 0;
    if (x.kind == DATUM_BOOL)
        return x.integer == y.integer;
    if (x.kind == DATUM_INIT)
        return x.init.kind == y.init.kind && x.init.a == y.init.a &&
               x.init.b == y.init.b && x.init.c == y.init.c &&
               x.init.depth == y.init.depth;
    return x.kind == DATUM_NONE;
}

static Datum compare(BinaryOp op, Datum x, Datum y)
{
    double a = datum_number(x), b = datum_number(y);
    bool both = x.kind == DATUM_INT && y.kind == DATUM_INT;
    bool less = both ? x.integer < y.integer : a < b;
    bool equal = datum_equal(x, y);
    if (op == BIN_LT)
        return datum_bool(less);
    if (op == BIN_LE)
        return datum_bool(less || equal);
    if (op == BIN_GT)
        return datum_bool(!less && !equal);
    return datum_bool(!less);
}

Datum eval_binary(Lower *l, Loc loc, BinaryOp op, Datum x, Datum y)
{
    if (x.kind == DATUM_POISON || y.kind == DATUM_POISON)
        return datum_poison();
    if (op == BIN_EQ || op == BIN_NE)
        return datum_bool(datum_equal(x, y) == (op == BIN_EQ));
    if (op == BIN_AND || op == BIN_OR) {
        if (x.kind == DATUM_BOOL && y.kind == DATUM_BOOL)
            return datum_bool(op == BIN_AND ? x.integer && y.integer
                                            : x.integer || y.integer);
    } else if (datum_is_number(x) && datum_is_number(y) && op != BIN_MATMUL) {
        if (op >= BIN_LT)
            return compare(op, x, y);
        if (x.kind == DATUM_INT && y.kind == DATUM_INT)
            return int_binary(l, loc, op, x.integer, y.integer);
        return float_binary(l, loc, op, datum_number(x), datum_number(y));
    }
    return lower_poison(l, loc, NULL, "'%s' does not work on %s and %s",
                        binary_sign(op), datum_text(l->arena, x),
                        datum_text(l->arena, y));
}

Datum eval_unary(Lower *l, Loc loc, ExprKind kind, Datum x)
{
    if (x.kind == DATUM_POISON)
        return x;
    if (kind == EX_NOT && x.kind == DATUM_BOOL)
        return datum_bool(!x.integer);
    if (kind == EX_NEG && x.kind == DATUM_INT)
        return int_binary(l, loc, BIN_SUB, 0, x.integer);
    if (kind == EX_NEG && x.kind == DATUM_FLOAT)
        return datum_float(-x.number);
    return lower_poison(l, loc, NULL, "'%s' does not work on %s",
                        kind == EX_NOT ? "not" : "-", datum_text(l->arena, x));
}

/* ---- functions of numbers ---- */

static double reciprocal_root(double x)
{
    return 1 / sqrt(x);
}

static double reciprocal(double x)
{
    return 1 / x;
}

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

static double gelu_tanh(double x)
{
    const double root = 0.79788456080286535588; /* sqrt(2 / pi) */
    return x / 2 * (1 + tanh(root * (x + 0.044715 * x * x * x)));
}

static const struct NumberFunction {
    const char *name;
    double (*f)(double);
    bool whole; /* the result is an integer */
} number_functions[] = {
    {"sqrt", sqrt, false},   {"rsqrt", reciprocal_root, false},
    {"exp", exp, false},     {"log", log, false},
    {"sin", sin, false},     {"cos", cos, false},
    {"tanh", tanh, false},   {"erf", erf, false},
    {"floor", floor, true},  {"ceil", ceil, true},
    {"round", round, true},  {"sigmoid", logistic, false},
    {"recip", reciprocal, false}, {"gelu_tanh", gelu_tanh, false},
};

static Datum number_result(Lower *l, Loc loc, const char *name, double r,
                           bool whole)
{
    if (!isfinite(r) || (whole && fabs(r) >= (double)INT64_MAX))
        return lower_poison(l, loc, NULL, "'%s' of this argument is not a "
                            "finite number", name);
    return whole ? datum_int((int64_t)r) : datum_float(r);
}

bool eval_function(Lower *l, Loc loc, const char *name, int n, const Datum *x,
                   Datum *result)
{
    for (int i = 0; i < n; i++)
        if (!datum_is_number(x[i]))
            return false;
    if (n == 2) {
        bool low = strcmp(name, "minimum") == 0;
        if (!low && strcmp(name, "maximum") != 0)
            return false;
        Datum first_less = compare(BIN_LT, x[0], x[1]);
        *result = (first_less.integer != 0) == low ? x[0] : x[1];
        return true;
    }
    if (n != 1)
        return false;
    if (strcmp(name, "abs") == 0) {
        bool negative = datum_number(x[0]) < 0;
        *result = negative ? eval_unary(l, loc, EX_NEG, x[0]) : x[0];
        return true;
    }
    const struct NumberFunction *row = table_find(number_functions, name);
    if (row)
        *result = number_result(l, loc, name, row->f(datum_number(x[0])),
                                row->whole);
    return row;
}
