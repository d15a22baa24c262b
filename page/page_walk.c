/* page_walk.c: prints the issue order of each stream, so that a script of the page can run
 * the streams with other durations (page/web/walk.js). The order is that of
 * forecast/timeline.c; it does not depend on durations.
 *
 *   "tokens": [[0, 12], [1, 3, 1], [2, 4], [3], …]
 *       [0, s]        runs statement s
 *       [1, e, n]     waits until the slot e of an event has been recorded n times more
 *                     than at this stream's last wait for it
 *       [2, e]        records it
 *       [3]           waits until all streams are here
 *   a stream: [0, 1, 4, 2, -3, 30]    numbers of tokens; -3, 30: the last 3 are issued
 *                                     30 times more
 */
#include "page/fields.h"

#include <string.h>

#include "forecast/streams.h"
#include "ir/plan/pipeline.h"
#include "passes/sync/simulate.h"
#include "report/json.h"

typedef enum TokenKind { TOKEN_RUN, TOKEN_WAIT, TOKEN_RECORD, TOKEN_JOIN } TokenKind;
typedef struct Token {
    TokenKind kind;
    int64_t at, count;
} Token;

typedef struct Walker {
    Out *o;
    const Program *p;
    const Forecast *f;
    int *statement_of; /* by op id: its index; -1: none */
    int64_t *recorded, *waited; /* by slot: records so far; those of the last wait */
    int slots;
    VEC(Token) token;   /* the different ones */
    VEC(int) issued;    /* by a stream: numbers of tokens */
} Walker;

/* ---- the issue order of a stream ------------------------------------------ */

static void add_token(Walker *w, Token t)
{
    int i = 0;
    while (i < w->token.n && (w->token.at[i].kind != t.kind || w->token.at[i].at != t.at ||
                              w->token.at[i].count != t.count))
        i++;
    if (i == w->token.n)
        vec_push(w->p->arena, &w->token, t);
    vec_push(w->p->arena, &w->issued, i);
}

static void add_statement(Walker *w, const Op *op, IssuePart part)
{
    int i = w->statement_of[op->id];
    if (i < 0 || w->f->work[i].seconds <= 0 ||
        (part == ISSUE_ACTION && w->f->work[i].class == WORK_SEND))
        return;
    add_token(w, (Token){.kind = TOKEN_RUN, .at = i});
}

/* Adds the token of an issued op if the op is of this stream; counts the records of all
 * streams. */
static void add_issued(Walker *w, const IssueWalk *walk, const Issued *x, int stream)
{
    const Op *op = x->op;
    bool own = x->statement->stream == stream;
    if (op->kind == OP_join) {
        add_token(w, (Token){.kind = TOKEN_JOIN});
    } else if (op->kind == OP_record) {
        int slot = issue_slot(walk, op);
        w->recorded[slot]++;
        if (own)
            add_token(w, (Token){.kind = TOKEN_RECORD, .at = slot});
    } else if (op->kind == OP_wait) {
        int slot = issue_slot(walk, op);
        if (!own || (attr_first(op) && !issue_is_first(walk)))
            return;
        add_token(w, (Token){TOKEN_WAIT, slot, w->recorded[slot] - w->waited[slot]});
        w->waited[slot] = w->recorded[slot];
    } else if (own && !op_is_schedule(op->kind)) {
        add_statement(w, op, walk->scope.part);
    }
}

static void walk_stream(Walker *w, IssueScope scope, int stream)
{
    IssueWalk walk = issue_walk_part(w->p, scope);
    Issued x;
    IssueStop stop;
    w->issued.n = 0;
    memset(w->recorded, 0, (size_t)w->slots * sizeof *w->recorded);
    memset(w->waited, 0, (size_t)w->slots * sizeof *w->waited);
    while ((stop = issue_next(&walk, &x)) != ISSUE_END)
        if (stop == ISSUE_OP)
            add_issued(w, &walk, &x, stream);
}

/* ---- repeats ------------------------------------------------------------- */

/* How often the n tokens before `i` follow once more from there on. */
static int repeats(const int *token, int size, int i, int n)
{
    int times = 0;
    while (i + n <= size &&
           memcmp(token + i, token + i - n, (size_t)n * sizeof *token) == 0) {
        i += n;
        times++;
    }
    return times;
}

static void print_stream(Walker *w)
{
    const int *token = w->issued.at;
    int *last = NEW_ARRAY(w->p->arena, int, w->token.n + 1); /* by token: its last index + 1 */
    out(w->o, "[");
    for (int i = 0; i < w->issued.n;) {
        int n = last[token[i]] ? i + 1 - last[token[i]] : 0;
        int times = n && n <= i ? repeats(token, w->issued.n, i, n) : 0;
        out(w->o, "%s", i ? "," : "");
        if (times) {
            out(w->o, "-%d,%d", n, times);
            for (int k = 0; k < n; k++, i++)
                last[token[i]] = i + 1 + (times - 1) * n;
            i += (times - 1) * n;
        } else {
            out(w->o, "%d", token[i]);
            last[token[i]] = i + 1;
            i++;
        }
    }
    out(w->o, "]");
}

static void print_part(Walker *w, IssueScope scope)
{
    out(w->o, "[");
    for (int k = 0; k < w->p->streams; k++) {
        out(w->o, k ? "," : "");
        walk_stream(w, scope, k);
        print_stream(w);
    }
    out(w->o, "]");
}

/* ---- the parts of a step ------------------------------------------------- */

static void print_stage(Walker *w, const PipelineTime *t, int stage)
{
    const StageTime *s = &t->stage[stage];
    out(w->o, "%s        {\"actions\": [", stage ? ",\n" : "\n");
    for (int k = 0; k < COMPUTES; k++) {
        out(w->o, k ? "," : "");
        print_part(w, (IssueScope){.part = ISSUE_ACTION, .coordinate = coordinate_of(w->p, stage),
                                   .stage = stage, .moment = pipeline_computes[k]});
    }
    out(w->o, "], \"transfer\": [");
    out_double(w->o, s->transfer[0]);
    out(w->o, ", ");
    out_double(w->o, s->transfer[1]);
    out(w->o, "], \"between\": [%s, %s], \"freed\": [", s->between[0] ? "true" : "false",
        s->between[1] ? "true" : "false");
    for (int g = 0; g < 2; g++) {
        int after = -1;
        for (int k = 0; k < COMPUTES; k++)
            after = s->freed[g].after == pipeline_computes[k] ? k : after;
        if (s->freed[g].given)
            out(w->o, "%s[%d, %lld]", g ? ", " : "", after, (long long)s->freed[g].back);
        else
            out(w->o, "%snull", g ? ", " : "");
    }
    out(w->o, "]}");
}

/* Kinds of actions as page_timeline.c numbers them: 0 forward, 1 backward, 2 weights,
 * 3 send, 4 receive. */
static void print_rank(Walker *w, const PipelineTime *t, int c)
{
    static const int number[] = {[ACTION_FORWARD] = 0, [ACTION_BACKWARD] = 1,
                                 [ACTION_WEIGHTS] = 2, [ACTION_SEND] = 3,
                                 [ACTION_RECEIVE] = 4};
    out(w->o, "%s        {\"before\": ", c ? ",\n" : "\n");
    print_part(w, (IssueScope){.part = ISSUE_BEFORE, .coordinate = c, .stage = -1});
    out(w->o, ", \"after\": ");
    print_part(w, (IssueScope){.part = ISSUE_AFTER, .coordinate = c, .stage = -1});
    out(w->o, ", \"actions\": [");
    for (int i = 0; i < t->actions[c].n; i++) {
        const Action *x = &t->actions[c].at[i];
        out(w->o, "%s[%d,%d,%lld,%d]", i ? "," : "", number[x->kind], x->stage,
            (long long)x->micro, x->gradient);
    }
    out(w->o, "]}");
}

static void print_parts(Walker *w, const PipelineTime *t)
{
    if (!t) {
        bool stages = pipeline_axis(w->p) >= 0;
        out(w->o, "      \"step\": ");
        print_part(w, (IssueScope){.part = stages ? ISSUE_SEQUENCE : ISSUE_WHOLE});
        return;
    }
    out(w->o, "      \"together\": %s,\n      \"stages\": [", t->together ? "true" : "false");
    for (int s = 0; s < t->stages; s++)
        print_stage(w, t, s);
    out(w->o, "],\n      \"ranks\": [");
    for (int c = 0; c < t->ranks; c++)
        print_rank(w, t, c);
    out(w->o, "]");
}

static void print_tokens(Walker *w)
{
    out(w->o, ",\n      \"tokens\": [");
    for (int i = 0; i < w->token.n; i++) {
        const Token *t = &w->token.at[i];
        out(w->o, "%s[%d", i ? "," : "", t->kind);
        if (t->kind != TOKEN_JOIN)
            out(w->o, ",%lld", (long long)t->at);
        if (t->kind == TOKEN_WAIT)
            out(w->o, ",%lld", (long long)t->count);
        out(w->o, "]");
    }
    out(w->o, "],\n      \"records\": [");
    int *stream = NEW_ARRAY(w->p->arena, int, w->slots + 1);
    for_ops(op, w->p->step)
        for (int64_t i = 0; op->kind == OP_record && i < attr_slots(op); i++)
            stream[attr_event(op) + i] = op->stream;
    for (int i = 0; i < w->slots; i++)
        out(w->o, "%s%d", i ? "," : "", stream[i]);
    out(w->o, "]\n    }\n");
}

void page_walk(Out *o, const Program *p, const Forecast *f)
{
    out(o, "    \"walk\": ");
    if (!f) {
        out(o, "null\n");
        return;
    }
    const Machine *m = f->machine;
    Walker w = {.o = o, .p = p, .f = f, .slots = program_event_slots(p)};
    w.recorded = NEW_ARRAY(p->arena, int64_t, w.slots + 1);
    w.waited = NEW_ARRAY(p->arena, int64_t, w.slots + 1);
    w.statement_of = NEW_ARRAY(p->arena, int, p->nops);
    for (uint32_t i = 0; i < p->nops; i++)
        w.statement_of[i] = -1;
    for (int i = 0; i < f->n; i++)
        w.statement_of[f->statement[i].op->id] = i;
    out(o, "{\n      \"constants\": {");
    json_real(o, "node", machine_value(m, graph_node));
    json_real(o, "edge", machine_value(m, graph_edge));
    json_real(o, "step", machine_value(m, graph_step));
    out(o, "},\n");
    print_parts(&w, f->pipeline);
    print_tokens(&w);
}

/* ---- device resources of statements --------------------------------------- */

enum { MOST_SUMS = 64 };

/* The sums of the multiprocessors that collectives of several streams can hold at one
 * time; *n of them, the first 0. */
static void sums_of_blocks(const Forecast *f, double *sum, int *n)
{
    sum[0] = 0;
    *n = 1;
    for (int stream = 0; stream < STREAMS; stream++) {
        int before = *n;
        for (int i = 0; i < f->n; i++) {
            bool takes = f->work[i].blocks > 0 && f->statement[i].op->stream == stream;
            for (int k = 0; takes && k < before; k++) {
                double total = sum[k] + f->work[i].blocks;
                int at = 0;
                while (at < *n && sum[at] != total)
                    at++;
                if (at == *n && *n < MOST_SUMS)
                    sum[(*n)++] = total;
            }
        }
    }
}

static void print_statement(Out *o, const Program *p, const Forecast *f, int i,
                            const double *sum, int n)
{
    const Work *w = &f->work[i];
    out(o, "%s        {\"use\": [", i ? ",\n" : "\n");
    for (int r = 0; r < RESOURCES; r++) {
        out(o, r ? ", " : "");
        out_double(o, w->use[r]);
    }
    out(o, "]");
    json_real(o, "blocks", w->blocks);
    json_name(o, "fills");
    out(o, w->fills ? "true" : "false");
    json_name(o, "persistent");
    out(o, w->persistent ? "true" : "false");
    json_real(o, "seconds", w->seconds);
    if (w->fills) {
        json_name(o, "slowdown");
        for (int k = 0; k < n; k++) {
            out(o, k ? ", " : "[");
            out_double(o, work_slowdown(p, f->machine, w, sum[k]));
        }
        out(o, "]");
    }
    out(o, "}");
}

void page_statements(Out *o, const Program *p, const Forecast *f)
{
    if (!f) {
        out(o, "    \"statements\": null,\n");
        return;
    }
    double sum[MOST_SUMS];
    int n;
    sums_of_blocks(f, sum, &n);
    out(o, "    \"blocks\": [");
    for (int k = 0; k < n; k++)
        out(o, "%s%g", k ? ", " : "", sum[k]);
    out(o, "],\n    \"statements\": [");
    for (int i = 0; i < f->n; i++)
        print_statement(o, p, f, i, sum, n);
    out(o, "\n    ],\n");
}
