/* files_apart.c: checks that a run does not overwrite what it reads, and writes no
 * file twice. */
#include "common/files.h"
#include "common/message.h"
#include "data/data.h"
#include "options/options.h"

typedef struct Named {
    const char *option, *path;
} Named;

/* Whether an output and another file differ; `is_input`: it is read. */
static bool are_apart(Named output, Named other, bool is_input)
{
    if (!output.path || !other.path ||
        !rt_is_same_file(output.path, other.path))
        return true;
    return rt_error(is_input ? "%s would overwrite what %s reads, '%s'"
                             : "%s and %s would both write '%s'",
                    output.option, other.option, rt_output_name(other.path));
}

bool rt_files_apart(const RtOptions *o, const RtData *d)
{
    const Named output[] = {{"--log", o->log},
                            {"--trace", o->trace},
                            {"--export", o->export_to}};
    enum { OUTPUTS = sizeof output / sizeof output[0] };
    for (int i = 0; i < OUTPUTS; i++) {
        for (int j = i + 1; j < OUTPUTS; j++) {
            if (!are_apart(output[i], output[j], false))
                return false;
        }
        const char *path;
        for (int f = 0; (path = rt_data_file(d, f)); f++) {
            if (!are_apart(output[i], (Named){"--data", path}, true))
                return false;
        }
    }
    return true;
}
