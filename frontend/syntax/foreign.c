/* foreign.c: finds the PDL equivalents of names and syntax of Python and
 * PyTorch, for help texts. */
#include <ctype.h>
#include <string.h>

#include "base/text.h"
#include "frontend/syntax/parser.h"

/* Names of Python and PyTorch: keywords, functions, methods and modules. */
static const struct ForeignName {
    const char *name, *help;
} names[] = {
    {"True", "did you mean 'true'?"},
    {"False", "did you mean 'false'?"},
    {"None", "did you mean 'none'?"},
    {"len", "size(x, d) is the size of one dim"},
    {"shape", "size(x, d) is the size of one dim"},
    {"T", "transpose(x, i, j) swaps two dims"},
    {"permute", "transpose(x, i, j) swaps two dims"},
    {"view", "write reshape(x, …)"},
    {"flatten", "write reshape(x, …), where one dim may be -1"},
    {"cat", "write concat(x, y, dim=d)"},
    {"stack", "write concat(unsqueeze(x, d), unsqueeze(y, d), dim=d)"},
    {"chunk", "write split(x, n, dim=d)"},
    {"matmul", "write x @ y"},
    {"bmm", "write x @ y"},
    {"expand", "write broadcast(x, …)"},
    {"contiguous", "remove it: parc chooses the memory layout of tensors"},
    {"to", "remove it: 'precision' of train sets the element type"},
    {"scaled_dot_product_attention", "write attention(q, k, v, causal=…)"},
    {"ModuleList", "write NAME: [n] Module(…)"},
    {"Sequential", "declare the children and call one after another in "
                   "forward"},
    {"randn", "normal(std) is an initial value: param w[n] = normal(0.02); "
              "random(x) draws numbers from [0, 1) in every step"},
    {"rand", "uniform(lo, hi) is an initial value; random(x) draws numbers "
             "from [0, 1) in every step"},
    {"trunc_normal_", "truncated_normal(std, lo, hi) is an initial value: param "
                      "w[n] = truncated_normal(0.02)"},
    {"trunc_normal", "truncated_normal(std, lo, hi) is an initial value: param "
                     "w[n] = truncated_normal(0.02)"},
    {"Parameter", "among the members: param NAME[n] = normal(0.02)"},
    {"MaxPool2d", "call max_pool2d(x, kernel) in forward"},
    {"AvgPool2d", "call avg_pool2d(x, kernel) in forward"},
    {"BatchNorm1d", "BatchNorm takes inputs of any rank"},
    {"BatchNorm2d", "BatchNorm takes inputs of any rank"},
    {"BatchNorm3d", "BatchNorm takes inputs of any rank"},
    {"SyncBatchNorm", "BatchNorm has the statistics of all ranks' rows"},
    {"MultiheadAttention", "declare Linears for q, k and v, and call "
                           "attention(q, k, v, causal=…)"},
    {"CrossEntropyLoss", "call cross_entropy(logits, labels) in forward"},
    {"ReLU", "call relu(x) in forward"},
    {"GELU", "call gelu(x) in forward"},
    {"SiLU", "call silu(x) in forward"},
};

/* Names of arguments of PyTorch's and NumPy's functions. */
static const struct ForeignName arguments[] = {
    {"axis", "write dim="},
    {"keepdim", "write keep="},
    {"keepdims", "write keep="},
    {"attn_mask", "attention masks with causal=true and window=W; for another mask "
                  "compute the weights: softmax(where(mask, scores, -1e9))"},
    {"sliding_window", "write window="},
    {"is_causal", "write causal="},
    {"dropout_p", "write dropout="},
    {"device", "remove it: --target and --mesh say where a program runs"},
    {"dtype", "remove it: 'precision' of train sets the element type"},
};

const char *foreign_argument_help(const char *name)
{
    const struct ForeignName *row = table_find(arguments, name);
    return row ? row->help : NULL;
}

const char *foreign_help(const char *name)
{
    const struct ForeignName *row = table_find(names, name);
    return row ? row->help : NULL;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The word that ends just before `end`. */
static const char *word_before(const Parser *p, size_t end)
{
    size_t begin = end;
    while (begin > 0 && is_word(p->text[begin - 1]))
        begin--;
    return arena_strndup(p->arena, p->text + begin, end - begin);
}

static const char *word_after(const Parser *p, size_t begin)
{
    size_t end = begin;
    while (end < p->size && is_word(p->text[end]))
        end++;
    return arena_strndup(p->arena, p->text + begin, end - begin);
}

/* For "x.view(", "torch.relu(" or "self.wq(": `object` is the word before the
 * dot, `name` the word after it. */
static const char *method_help(const Parser *p, const char *object,
                               const char *name)
{
    static const char *const packages[] = {"torch", "nn", "F", "np",
                                           "functional"};
    if (strcmp(object, "self") == 0)
        return arena_printf(p->arena, "write %s without 'self.'", name);
    const char *help = foreign_help(name);
    if (help)
        return help;
    return arena_printf(p->arena, table_find(packages, object)
                                      ? "names have no prefix: write %s(…)"
                                      : "tensors have no methods: write "
                                        "%s(x, …)", name);
}

/* For "layers[0]" in a plan: the same path with a dot, "layers.0"; the '[' is
 * the current token. */
static const char *path_index_help(const Parser *p)
{
    const char *array = word_before(p, p->token_begin);
    if (*array == 0) /* "attention.[q, k]" */
        return "write a line for each module, or a pattern that matches all "
               "of them: attention.w*";
    size_t size = strspn(p->text + p->offset, "0123456789");
    if (size > 0 && p->offset + size < p->size &&
        p->text[p->offset + size] == ']')
        return arena_printf(p->arena, "an index follows a dot: write %s.%.*s",
                            array, (int)size, p->text + p->offset);
    return arena_printf(p->arena, "an index follows a dot: write %s.0, %s.0-3 "
                        "or %s.*", array, array, array);
}

/* Whether the '(' at `at` follows an element: "layers.1(x)", "layers[1](x)" or
 * "layers.1.wq(x)". */
static bool calls_element(const Parser *p, size_t at)
{
    const char *name = word_before(p, at);
    size_t dot = at - strlen(name);
    if (*name == 0)
        return at > 0 && p->text[at - 1] == ']';
    if (dot == 0 || p->text[dot - 1] != '.')
        return false;
    const char *outer = word_before(p, dot - 1);
    return isdigit((unsigned char)*name) || isdigit((unsigned char)*outer);
}

const char *foreign_syntax(const Parser *p)
{
    size_t at = p->token_begin;
    char c = at < p->size ? p->text[at] : 0;
    char after = p->offset < p->size ? p->text[p->offset] : 0;
    if (c != 0 && strchr("+-*/@", c) && after == '=') {
        size_t end = at;
        while (end > 0 && p->text[end - 1] == ' ')
            end--;
        const char *name = word_before(p, end);
        return arena_printf(p->arena, "PDL has no '%c=': write %s = %s %c …",
                            c, name, name, c);
    }
    if (c == '.') {
        const char *name = word_after(p, at + 1);
        return *name && !isdigit((unsigned char)*name)
                   ? method_help(p, word_before(p, at), name)
                   : NULL;
    }
    if (c == '[' && p->in_plan && p->nnest > 2)
        return path_index_help(p);
    if (c == '[' && strcmp(word_before(p, at), "int") == 0)
        return "int takes the number of values: int(vocab)[…]";
    if (c == '[' && at > 0 &&
        (is_word(p->text[at - 1]) || p->text[at - 1] == ')'))
        return "tensors have no subscripts: slice(x, start, size, dim=d) is a "
               "part of x, and reshape(…) drops a dim of size 1";
    if (c == '(') {
        const char *name = word_before(p, at);
        if (calls_element(p, at))
            return "the elements of an array are called in a loop: "
                   "for layer in layers { x = layer(x) }";
        size_t begin = at - strlen(name);
        if (*name && begin > 0 && p->text[begin - 1] == '.')
            return method_help(p, word_before(p, begin - 1), name);
    }
    size_t end = at;
    while (end > 0 && p->text[end - 1] == ' ')
        end--;
    if (strcmp(word_before(p, end), "def") == 0)
        return arena_printf(p->arena, "write %s(…) { … } without 'def'",
                            word_after(p, at));
    if (strcmp(word_after(p, at), "if") == 0)
        return "an if is a statement: if condition { … } else { … }";
    return NULL;
}
