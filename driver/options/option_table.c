/* option_table.c: the table of parc's options in the order of the help. */
#include "driver/options/option_table.h"

#include <stddef.h>
#include <string.h>

#include "base/diag.h"

const OptionRow option_table[] = {
    {OPT_MESH, "--mesh", NULL, "SHAPE", VALUE_TEXT, NULL,
     "8x8, or named: dp=8,tp=8; default: every axis is 1.\n"
     "auto, or dp=auto,tp=8: parc chooses sizes for --ranks"},
    {OPT_RANKS, "--ranks", NULL, "N", VALUE_TEXT, NULL,
     "the number of ranks of the mesh; --mesh auto needs it"},
    {OPT_NODE_SIZE, "--node-size", NULL, "N", VALUE_TEXT, NULL,
     "the ranks of a node (machine): traffic inside nodes and\n"
     "between them is planned separately; a program for\n"
     "--target cpu then runs under mpirun, N ranks a node"},
    {OPT_SEARCH, "--search", NULL, "N", VALUE_TEXT, NULL,
     "with --machine and --mesh auto or --plan auto: compile\n"
     "and time at most N meshes or plans (default 64), and\n"
     "choose the fastest"},
    {OPT_PLAN, "--plan", NULL, "NAME", VALUE_TEXT, NULL,
     "the plan to use, if the file has several; auto: parc\n"
     "writes one, and chooses it by time with --machine"},
    {OPT_CONFIG, "--config", NULL, "DIR|FILE", VALUE_FILE, NULL,
     "take the model's sizes from the config.json of a Hugging\n"
     "Face model; refuse what the model does not compute"},
    {OPT_DEFINE, "-D", NULL, "NAME=VALUE", VALUE_TEXT, NULL,
     "override a model parameter or a train setting; the\n"
     "last -D applies: -D n_layers=2 -D optimizer.lr=1e-3"},
    {OPT_TARGET, "--target", NULL, "cuda|cpu", VALUE_WORDS, "cuda cpu",
     "default cuda; compiling needs no GPU"},
    {OPT_ARCH, "--arch", NULL, "LIST", VALUE_ARCH, NULL,
     "GPU architectures to embed: sm_80,sm_90a"},
    {OPT_CPU, "--cpu", NULL, "LEVEL", VALUE_WORDS,
     "native x86-64-v3 x86-64-v4 amx aarch64",
     "native | x86-64-v3 | x86-64-v4 | amx | aarch64: the\n"
     "instruction set of a program for --target cpu. native\n"
     "(default) is this machine's; plans of the other levels\n"
     "do not depend on the machine"},
    {OPT_THREADS, "--threads", NULL, "N", VALUE_TEXT, NULL,
     "CPU threads of a rank, for planning its workspace;\n"
     "default: cores divided by ranks, or 1 with --cpu"},
    {OPT_MEMORY, "--device-memory", NULL, "SIZE", VALUE_TEXT, NULL,
     "reject a plan that needs more memory (80G), and list\n"
     "changes that make it fit"},
    {OPT_MACHINE, "--machine", NULL, "NAME|FILE", VALUE_TEXT, NULL,
     "forecast the time of a step on this machine:\n"
     "a100-sxm-80, h100-sxm, h200, b200, or a machine file"},
    {OPT_FROM, "--from", NULL, "TRACE", VALUE_FILE, NULL,
     "for --emit machine: the trace of a run of the program\n"
     "(./train --trace TRACE)"},
    {OPT_OUTPUT, "-o", NULL, "FILE", VALUE_FILE, NULL,
     "write the training binary"},
    {OPT_SOURCE_TREE, "-S", NULL, "DIR", VALUE_DIRECTORY, NULL,
     "write the program as a self-contained source tree"},
    {OPT_NO_EVAL, "--no-eval", NULL, NULL, VALUE_NONE, NULL,
     "leave out the programs for --val, --eval and --sample"},
    {OPT_EMIT, "--emit", NULL, "KIND[=FILE]", VALUE_WORDS,
     "ast ir plan json dot machine html pdl-plan",
     "ast | ir | plan | json | dot | machine | html |\n"
     "pdl-plan; default FILE: standard output. html is a page\n"
     "of the plan that a browser opens without a network;\n"
     "pdl-plan is the plan block, to keep and to edit"},
    {OPT_EXPLAIN, "--explain", NULL, "NAME", VALUE_TEXT, NULL,
     "explain a parameter, module, kernel, collective, mesh\n"
     "axis or value of the plan, or 'memory'"},
    {OPT_DUMP_BEFORE, "--dump-before", NULL, "PASS", VALUE_PASS, NULL,
     "print the IR before a pass"},
    {OPT_DUMP_AFTER, "--dump-after", NULL, "PASS", VALUE_PASS, NULL,
     "print the IR after a pass"},
    {OPT_DUMP_ALL, "--dump-after-all", NULL, NULL, VALUE_NONE, NULL,
     "print the IR after every pass"},
    {OPT_STOP_AFTER, "--stop-after", NULL, "PASS", VALUE_PASS, NULL,
     "stop after a pass"},
    {OPT_START_AFTER, "--start-after", NULL, "PASS", VALUE_PASS, NULL,
     "the input is an IR dump made after PASS; run the\n"
     "passes that follow"},
    {OPT_LIST_PASSES, "--list-passes", NULL, NULL, VALUE_NONE, NULL,
     "list the passes in order"},
    {OPT_LIST_OPTIONS, "--list-options", NULL, NULL, VALUE_NONE, NULL,
     "list the clauses and options of plan and train"},
    {OPT_TIME_PASSES, "--time-passes", NULL, NULL, VALUE_NONE, NULL,
     "print the time of each pass on standard error"},
    {OPT_VERBOSE, "-v", NULL, NULL, VALUE_NONE, NULL,
     "print each step and each tool that parc runs"},
    {OPT_COLOR, "--color", NULL, "WHEN", VALUE_WORDS, "auto always never",
     "auto | always | never"},
    {OPT_COMPLETION, "--completion", NULL, "SHELL", VALUE_WORDS,
     "bash zsh fish",
     "print a completion script for bash, zsh or fish"},
    {OPT_MANUAL, "--manual", NULL, NULL, VALUE_NONE, NULL,
     "print the manual page parc.1"},
    {OPT_HELP, "--help", "-h", NULL, VALUE_NONE, NULL, "print this text"},
    {OPT_VERSION, "--version", "-V", NULL, VALUE_NONE, NULL,
     "print parc's version"},
};
const int option_count = sizeof option_table / sizeof *option_table;

const OptionGroup option_groups[] = {
    {OPT_MESH, "program"},
    {OPT_TARGET, "target machine"},
    {OPT_OUTPUT, "outputs"},
    {OPT_EMIT, "reports"},
    {OPT_DUMP_BEFORE, "compiler passes"},
    {OPT_VERBOSE, "general"},
};
const int option_group_count = sizeof option_groups / sizeof *option_groups;

const char *option_near(Arena *a, const char *name)
{
    const char **bare = NEW_ARRAY(a, const char *, option_count);
    const char *word = name + strspn(name, "-"), *near = NULL;
    for (int i = 0; i < option_count; i++) {
        bare[i] = option_table[i].name + strspn(option_table[i].name, "-");
        if (strcmp(bare[i], word) == 0)
            near = bare[i];
    }
    if (!near)
        near = diag_near_miss(word, bare, option_count);
    for (int i = 0; near && i < option_count; i++)
        if (bare[i] == near)
            return option_table[i].name;
    return NULL;
}
