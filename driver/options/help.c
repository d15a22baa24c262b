/* help.c: prints the option table as the text of --help, as the manual page and
 * as completion scripts for bash, zsh and fish.
 *
 * Example: the row of --mesh becomes
 *
 *     --help      "  --mesh SHAPE            8x8, or named: dp=8,tp=8; …"
 *     parc.1      ".It Fl Fl mesh Ar SHAPE" and a sentence
 */
#include "driver/options/help.h"

#include <string.h>

#include "base/text.h"
#include "codegen/machine.h"
#include "driver/options/options.h"

enum { HELP_COLUMN = 26 };

static const char help_head[] =
    "parc compiles a model, a parallelize plan and a device mesh into a\n"
    "training program. At compile time it decides where every tensor is\n"
    "stored and which collectives each step needs.\n"
    "\n"
    "  parc [options] MODEL.pdl          ('-' reads standard input)\n"
    "\n"
    "  parc llama.pdl --mesh 2x2 --emit plan           what will run, and why\n"
    "  parc llama.pdl --mesh 2x2 --target cpu -o train the training binary\n"
    "  ./train --data bytes:FILE --steps 100 --log log.jsonl\n"
    "  parc plot log.jsonl                             the curve of the loss\n"
    "  parc calibrate --target cpu -o measure          measures this machine\n"
    "  parc compare llama.pdl --mesh 2x2 --mesh 4x1    what differs, and its cost\n";
static const char help_tail[] =
    "\n"
    "--emit without -o or -S stops after planning. Exit status: 0 done;\n"
    "1 an error in the input, or a tool or file that failed; 2 wrong usage.\n";

const char **option_words(Arena *a, const OptionRow *row, int *n)
{
    VEC(const char *) words = {0};
    if (row->kind == VALUE_PASS)
        for (int i = -1; i < pass_count; i++)
            vec_push(a, &words, pass_name(i));
    if (row->kind == VALUE_ARCH)
        for (int i = 0; cuda_archs[i]; i++)
            vec_push(a, &words, cuda_archs[i]);
    for (const char *s = row->words; s && *s;) {
        size_t size = strcspn(s, " ");
        vec_push(a, &words, arena_strndup(a, s, size));
        s += size + (s[size] == ' ');
    }
    *n = words.n;
    return words.at;
}

/* The title of the group that begins with a row, or NULL. */
static const char *group_title(OptionId id)
{
    for (int i = 0; i < option_group_count; i++)
        if (option_groups[i].first == id)
            return option_groups[i].title;
    return NULL;
}

/* ---- --help ---- */

static void help_row(Out *o, const OptionRow *row)
{
    int begin = (int)o->size;
    out(o, "  %s%s%s%s%s", row->alias ? row->alias : "",
        row->alias ? ", " : "", row->name, row->value ? " " : "",
        row->value ? row->value : "");
    for (const char *s = row->help; s;) {
        const char *end = strchr(s, '\n');
        int used = s == row->help ? (int)o->size - begin : 0;
        out(o, "%*s%.*s\n", used < HELP_COLUMN - 1 ? HELP_COLUMN - used : 1,
            "", end ? (int)(end - s) : (int)strlen(s), s);
        s = end ? end + 1 : NULL;
    }
}

void help_text(Out *o)
{
    out(o, "%s", help_head);
    for (int i = 0; i < option_count; i++) {
        const char *title = group_title(option_table[i].id);
        if (title)
            out(o, "\n%s:\n", title);
        help_row(o, &option_table[i]);
    }
    out(o, "%s", help_tail);
}

/* ---- parc.1 ---- */

static const char manual_head[] =
    ".Dd November 22, 2026\n"
    ".Dt PARC 1\n"
    ".Os\n"
    ".Sh NAME\n"
    ".Nm parc\n"
    ".Nd compiler for parallel training\n"
    ".Sh SYNOPSIS\n"
    ".Nm\n"
    ".Op Ar options\n"
    ".Ar MODEL.pdl\n"
    ".Nm\n"
    ".Cm plot\n"
    ".Op Fl Fl field Ar LIST\n"
    ".Op Fl Fl width Ar N\n"
    ".Op Fl Fl height Ar N\n"
    ".Op Fl Fl log-y\n"
    ".Ar LOG ...\n"
    ".Nm\n"
    ".Cm calibrate\n"
    ".Op Ar MODEL.pdl\n"
    ".Op Ar options\n"
    ".Op Fl Fl from Ar TRACE\n"
    ".Fl o Ar FILE\n"
    ".Nm\n"
    ".Cm compare\n"
    ".Op Fl Fl json\n"
    ".Ar A B\n"
    ".Op Ar options\n"
    ".Sh DESCRIPTION\n"
    ".Nm\n"
    "compiles a model, a parallelize plan and a device mesh into a training\n"
    "binary.\n"
    "At compile time it decides where every tensor is stored and which\n"
    "collectives each step needs.\n"
    "It rejects a wrong plan and names the line of the error.\n"
    ".Pp\n"
    "The input is a file in PDL, the language of\n"
    ".Pa pdl.md ,\n"
    "or an IR dump with\n"
    ".Fl Fl start-after .\n"
    "The name\n"
    ".Sq -\n"
    "reads standard input.\n"
    "Without\n"
    ".Fl o ,\n"
    ".Fl S ,\n"
    ".Fl Fl emit\n"
    "or\n"
    ".Fl Fl explain\n"
    ".Nm\n"
    "checks and plans the program and prints only errors and warnings.\n"
    ".Pp\n"
    "Standard output has only the requested output; messages go to standard\n"
    "error.\n"
    "An output file is written under a temporary name and then renamed, so a\n"
    "failed run leaves no file.\n"
    ".Pp\n"
    ".Nm\n"
    ".Cm plot\n"
    "draws the curves of training logs as text;\n"
    ".Ql parc plot --help\n"
    "lists its options.\n"
    ".Pp\n"
    ".Nm\n"
    ".Cm compare\n"
    "prints what differs between two execution plans;\n"
    ".Ql parc compare --help\n"
    "lists its options.\n"
    ".Pp\n"
    ".Nm\n"
    ".Cm calibrate\n"
    "measures a machine for\n"
    ".Fl Fl machine ;\n"
    ".Ql parc calibrate --help\n"
    "lists its options.\n";

static const char manual_tail[] =
    ".Sh ENVIRONMENT\n"
    ".Bl -tag -width Ds\n"
    ".It Ev CC\n"
    "C compiler for the emitted program, a name or a path; default\n"
    ".Sq cc .\n"
    ".It Ev NO_COLOR\n"
    "if set, messages have no color.\n"
    ".It Ev PARC_NVRTC\n"
    "path of the NVRTC library that compiles CUDA kernels.\n"
    ".It Ev PARC_PTXAS\n"
    "path of ptxas, of the same version, which assembles them; empty: NVRTC does.\n"
    "Default: the one in the toolkit that contains NVRTC.\n"
    ".It Ev CUDA_HOME , CUDA_PATH\n"
    "CUDA toolkit in which NVRTC is searched.\n"
    ".It Ev TMPDIR\n"
    "directory for temporary files; default\n"
    ".Pa /tmp .\n"
    ".El\n"
    ".Sh EXIT STATUS\n"
    ".Bl -tag -width Ds\n"
    ".It 0\n"
    "done.\n"
    ".It 1\n"
    "an error in the input, or a tool or file that failed.\n"
    ".It 2\n"
    "wrong usage.\n"
    ".El\n"
    ".Pp\n"
    "After an internal error parc aborts.\n"
    "It first saves the last valid program as\n"
    ".Pa parc-crash.ir\n"
    "and prints the command that reproduces the error.\n"
    ".Sh EXAMPLES\n"
    "Print the plan for 64 GPUs, 8-way FSDP and 8-way tensor parallel:\n"
    ".Dl parc llama.pdl --mesh 8x8 --emit plan\n"
    ".Pp\n"
    "Build and run a program for four CPU ranks:\n"
    ".Bd -literal -offset indent\n"
    "parc llama.pdl --mesh 2x2 --target cpu -o train\n"
    "\\&./train --data bytes:book.txt --steps 200\n"
    ".Ed\n"
    ".Pp\n"
    "Ask why a parameter is stored where it is:\n"
    ".Dl parc llama.pdl --mesh 8x8 --explain layers.0.attention.wq.weight\n"
    ".Sh SEE ALSO\n"
    "The documents that are installed in\n"
    ".Pa share/doc/parc :\n"
    ".Pa tutorial.md ,\n"
    ".Pa from-pytorch.md ,\n"
    ".Pa pdl.md ,\n"
    ".Pa plan.md ,\n"
    ".Pa train.md ,\n"
    ".Pa launch.md ,\n"
    ".Pa cuda.md .\n";

/* Prints text with the characters escaped that mdoc would interpret. */
static void manual_lines(Out *o, const char *s)
{
    for (bool begins = true; *s; begins = *s++ == '\n') {
        if (begins && (*s == '.' || *s == '\''))
            out(o, "\\&");
        out(o, *s == '\\' ? "\\e" : *s == '-' ? "\\-" : "%c", *s);
    }
    out(o, "\n");
}

static void manual_option(Out *o, const OptionRow *row)
{
    out(o, ".It ");
    const char *names[] = {row->alias, row->name};
    for (int i = 0; i < 2; i++) {
        if (!names[i])
            continue;
        bool is_long = names[i][1] == '-';
        out(o, "%s%s", is_long ? "Fl Fl " : "Fl ", names[i] + 1 + is_long);
        out(o, i == 0 ? " , " : row->value ? " Ar " : "\n");
    }
    if (row->value)
        manual_lines(o, row->value);
    manual_lines(o, row->help);
}

void help_manual(Out *o)
{
    out(o, "%s.Sh OPTIONS\n", manual_head);
    bool listed = false;
    for (int i = 0; i < option_count; i++) {
        const OptionRow *row = &option_table[i];
        const char *title = group_title(row->id);
        if (title) {
            out(o, "%s.Ss %c%s\n.Bl -tag -width Ds\n", listed ? ".El\n" : "",
                title[0] - 'a' + 'A', title + 1);
            listed = true;
        }
        manual_option(o, row);
    }
    out(o, ".El\n%s", manual_tail);
}

/* ---- completion scripts ---- */

/* Each script completes the options, the words of their values, and inputs:
 * .pdl files, IR dumps (.ir) and logs (.jsonl, for parc plot). */

static void join_words(Out *o, const OptionRow *row, const char *between)
{
    int n;
    const char **words = option_words(o->arena, row, &n);
    for (int i = 0; i < n; i++)
        out(o, "%s%s", i ? between : "", words[i]);
}

/* Prints a row's help in single quotes on one line. Characters that are special
 * in zsh's option specs become commas. */
static void description(Out *o, const OptionRow *row)
{
    for (const char *s = row->help; *s; s++)
        out(o, "%s%c", *s == '\'' ? "'\\'" : "",
            *s == '\n' ? ' ' : strchr("[]:", *s) ? ',' : *s);
}

/* bash */

static void bash_values(Out *o, const OptionRow *row)
{
    out(o, "    %s%s%s) ", row->name, row->alias ? "|" : "",
        row->alias ? row->alias : "");
    if (row->kind == VALUE_FILE) {
        out(o, "COMPREPLY=($(compgen -f -- \"$cur\"))");
    } else if (row->kind == VALUE_DIRECTORY) {
        out(o, "COMPREPLY=($(compgen -d -- \"$cur\"))");
    } else if (row->kind == VALUE_TEXT) {
        out(o, "COMPREPLY=()");
    } else {
        out(o, "COMPREPLY=($(compgen -W \"");
        join_words(o, row, " ");
        out(o, "\" -- \"$cur\"))");
    }
    out(o, "; return ;;\n");
}

static void bash(Out *o)
{
    out(o, "# bash completion for parc\n"
           "_parc() {\n"
           "    local cur=${COMP_WORDS[COMP_CWORD]}\n"
           "    local prev=${COMP_WORDS[COMP_CWORD-1]}\n"
           "    # bash splits --target=cpu into three words\n"
           "    if [[ $cur == = ]]; then\n"
           "        cur=\n"
           "    elif [[ $prev == = && $COMP_CWORD -gt 2 ]]; then\n"
           "        prev=${COMP_WORDS[COMP_CWORD-2]}\n"
           "    fi\n"
           "    case $prev in\n");
    for (int i = 0; i < option_count; i++)
        if (option_table[i].kind != VALUE_NONE)
            bash_values(o, &option_table[i]);
    out(o, "    esac\n"
           "    if [[ $cur == -* ]]; then\n"
           "        COMPREPLY=($(compgen -W \"");
    for (int i = 0; i < option_count; i++)
        out(o, "%s%s", i ? " " : "", option_table[i].name);
    out(o, "\" -- \"$cur\"))\n"
           "    else\n"
           "        COMPREPLY=($(compgen -f -X '!*.@(pdl|ir|jsonl)' -- \"$cur\")\n"
           "                   $(compgen -d -- \"$cur\"))\n"
           "    fi\n"
           "}\n"
           "shopt -s extglob\n"
           "complete -o filenames -F _parc parc\n");
}

/* zsh */

static void zsh_option(Out *o, const OptionRow *row)
{
    out(o, "    '%s[", row->name);
    description(o, row);
    out(o, "]");
    if (row->kind != VALUE_NONE)
        out(o, ":%s:", strcmp(row->value, "KIND[=FILE]") ? row->value : "KIND");
    if (row->kind == VALUE_FILE) {
        out(o, "_files");
    } else if (row->kind == VALUE_DIRECTORY) {
        out(o, "_files -/");
    } else if (row->kind > VALUE_DIRECTORY) {
        out(o, "(");
        join_words(o, row, " ");
        out(o, ")");
    }
    out(o, "' \\\n");
}

static void zsh(Out *o)
{
    out(o, "#compdef parc\n"
           "_arguments -s \\\n");
    for (int i = 0; i < option_count; i++)
        zsh_option(o, &option_table[i]);
    out(o, "    '*:input:_files -g \"*.(pdl|ir|jsonl)\"'\n");
}

/* fish */

static void fish_option(Out *o, const OptionRow *row)
{
    bool is_long = row->name[1] == '-';
    out(o, "complete -c parc -%c %s", is_long ? 'l' : 's',
        row->name + 1 + is_long);
    if (row->alias)
        out(o, " -s %s", row->alias + 1);
    if (row->kind == VALUE_FILE)
        out(o, " -r -F");
    else if (row->kind == VALUE_DIRECTORY)
        out(o, " -x -a '(__fish_complete_directories)'");
    else if (row->kind != VALUE_NONE)
        out(o, " -x");
    if (row->kind > VALUE_DIRECTORY) {
        out(o, " -a '");
        join_words(o, row, " ");
        out(o, "'");
    }
    out(o, " -d '");
    description(o, row);
    out(o, "'\n");
}

static void fish(Out *o)
{
    out(o, "# fish completion for parc\n"
           "complete -c parc -k -x -a "
           "'(__fish_complete_suffix .pdl; __fish_complete_suffix .ir; "
           "__fish_complete_suffix .jsonl)'\n");
    for (int i = 0; i < option_count; i++)
        fish_option(o, &option_table[i]);
}

void help_completion(Out *o, const char *shell)
{
    static const struct Shell {
        const char *name;
        void (*print)(Out *o);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    const struct Shell *s = table_find(shells, shell);
    if (s)
        s->print(o);
}
