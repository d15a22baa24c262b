/* kernel_unused.c: checks that unused names of a printed kernel are removed. */
#include "codegen/cuda_kernel.h"
#include "tests/unit/check.h"

static void pruned(Check *c, Arena *a, const char *text, const char *expected)
{
    CHECK_TEXT(c, cuda_without_unused(a, text), expected);
}

int main(void)
{
    Check c = {0, 0};
    Arena *a = arena_new();
    CHECK(&c, cuda_mentions("x + j;", "j") && cuda_mentions("j", "j"));
    CHECK(&c, !cuda_mentions("x + j0 + _j + jj;", "j"));
    CHECK(&c, !cuda_mentions("", "j"));
    /* A name that only its own block uses. */
    pruned(&c, a,
           "    {\n        const int j = t * 4;\n        f(s);\n    }\n"
           "    {\n        const int j = t * 4;\n        f(j);\n    }\n",
           "    {\n        f(s);\n    }\n"
           "    {\n        const int j = t * 4;\n        f(j);\n    }\n");
    /* A name that only removed names use is removed too. */
    pruned(&c, a, "    const int t = thread_index();\n"
                  "    const int64_t j = t * 4;\n    f();\n",
           "    f();\n");
    /* All other text is unchanged. */
    pruned(&c, a, "    int j = 1;\n    const float x = 2.0f;\n"
                  "    const int k =\n        f();\n",
           "    int j = 1;\n    const float x = 2.0f;\n"
           "    const int k =\n        f();\n");
    pruned(&c, a, "    const int j = 3; /* llama.pdl:4 */\n    f(j)",
           "    const int j = 3; /* llama.pdl:4 */\n    f(j)");
    pruned(&c, a, "", "");
    arena_free(a);
    return check_end(&c);
}
