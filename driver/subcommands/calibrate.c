/* calibrate.c: runs `parc calibrate`: makes the program that measures a machine, and the
 * machine file of its trace.
 *
 *   parc calibrate --target cpu --mesh 2x1 -o calibrate
 *   ./calibrate --steps 6 --trace trace.json
 *   parc calibrate --target cpu --mesh 2x1 --from trace.json -o cpu.json
 *
 * The program is that of forecast/calibrate.pdl, compiled and launched as any other.
 */
#include "driver/subcommands/calibrate.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "driver/subcommands/subcommand.h"

extern const char calibrate_text[];
extern const unsigned long calibrate_size;

static const char help[] =
    "Measures a machine: how fast its matmuls, attention, kernels and collectives are.\n"
    "\n"
    "  parc calibrate [options] -o PROGRAM               the program that measures\n"
    "  ./PROGRAM --steps 6 --trace TRACE                 runs it, launched as training\n"
    "  parc calibrate [options] --from TRACE -o FILE     the machine file\n"
    "  parc MODEL.pdl --machine FILE --emit plan         the time of a step\n"
    "\n"
    "The options are those of parc (--target cpu, --mesh, --threads, -D), equal both\n"
    "times. A model may be given before the options: the machine file then follows from\n"
    "the trace of its run.\n"
    "\n"
    "  --help      print this text; also -h\n"
    "\n"
    "Exit status: 0 done; 1 an error in the input; 2 wrong usage.\n";

typedef struct Calibrate {
    Subcommand run;
    const char *model, *from, *output; /* NULL: not given */
    bool help;
    VEC(const char *) rest; /* for parc */
} Calibrate;

/* Reads `name VALUE` or `name=VALUE`; NULL: argv[*at] is another argument. */
static const char *value_of(Calibrate *c, int argc, char **argv, int *at, const char *name)
{
    const char *arg = argv[*at];
    size_t n = strlen(name);
    if (!starts_with(arg, name) || (arg[n] && arg[n] != '='))
        return NULL;
    if (arg[n])
        return arg + n + 1;
    if (*at + 1 == argc)
        subcommand_fail(&c->run, 2, "%s needs a value", name);
    return *at + 1 < argc ? argv[++*at] : "";
}

static void read_arguments(Calibrate *c, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *from = value_of(c, argc, argv, &i, "--from");
        const char *output = from ? NULL : value_of(c, argc, argv, &i, "-o");
        if (from)
            c->from = from;
        else if (output)
            c->output = output;
        else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            c->help = true;
        else if (i == 1 && argv[i][0] != '-')
            c->model = argv[i];
        else
            vec_push(c->run.arena, &c->rest, (const char *)argv[i]);
    }
    if (!c->help && !c->output)
        subcommand_fail(&c->run, 2, "parc calibrate needs -o %s; see 'parc calibrate --help'",
             c->from ? "FILE" : "PROGRAM");
}

/* The name of a file with the model. */
static const char *write_model(Calibrate *c, const char *directory)
{
    const char *path = arena_printf(c->run.arena, "%s/calibrate.pdl", directory);
    FILE *file = fopen(path, "w");
    bool good = file && fwrite(calibrate_text, 1, calibrate_size, file) == calibrate_size;
    if (file && fclose(file) != 0)
        good = false;
    if (!good)
        subcommand_fail(&c->run, 1, "cannot write '%s': %s", path, strerror(errno));
    return path;
}

static void run_parc(Calibrate *c)
{
    Arena *a = c->run.arena;
    Outputs *temporary = outputs_new(a);
    const char *directory = outputs_directory(temporary);
    VEC(const char *) argument = {0};
    if (!directory)
        subcommand_fail(&c->run, 1, "cannot make a directory for temporary files: %s",
                        strerror(errno));
    else
        vec_push(a, &argument, c->model ? c->model : write_model(c, directory));
    for (int i = 0; i < c->rest.n; i++)
        vec_push(a, &argument, c->rest.at[i]);
    if (c->from) {
        vec_push(a, &argument, (const char *)"--from");
        vec_push(a, &argument, c->from);
        vec_push(a, &argument, (const char *)"--emit");
        vec_push(a, &argument, (const char *)arena_printf(a, "machine=%s", c->output));
    } else {
        vec_push(a, &argument, (const char *)"-o");
        vec_push(a, &argument, c->output);
    }
    vec_push(a, &argument, (const char *)NULL);
    if (!c->run.status)
        c->run.status = subcommand_run(&c->run, argument.at);
    outputs_abandon(temporary);
}

int calibrate_main(int argc, char **argv)
{
    Calibrate c = {.run = subcommand_new()};
    read_arguments(&c, argc, argv);
    if (c.help)
        subcommand_help(&c.run, help);
    else if (!c.run.status)
        run_parc(&c);
    return subcommand_end(&c.run);
}
