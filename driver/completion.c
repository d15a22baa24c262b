/* completion.c: prints completion scripts for bash, zsh and fish from the
 * option table.
 *
 * Each script completes the options, the words of their values, and inputs:
 * .pdl files, IR dumps (.ir) and logs (.jsonl, for parc plot).
 */
#include <stdbool.h>
#include <string.h>

#include "base/text.h"
#include "driver/help.h"

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

/* ---- bash ---- */

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

/* ---- zsh ---- */

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

/* ---- fish ---- */

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
