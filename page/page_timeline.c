/* page_timeline.c: prints when each statement of a step runs, for the page.
 *
 *   "spans": [[stream, statement, begin, end], …]        seconds, by their begin
 *   "skips": [[at, seconds, iterations, "layers.*"], …]  iterations that
 *                                                        the forecast leaves out
 *
 * Of a pipeline whose stages overlap: the actions of each coordinate, and the spans of each
 * kind of action; "stages" lists all stages whose action has these spans.
 */
#include "page/fields.h"

#include <math.h>
#include <string.h>

#include "report/json.h"

/* Nine digits are enough for a timeline, and keep the page small. */
static void seconds(Out *o, double x)
{
    out(o, "%.9g", x);
}

/* The array that a loop iterates over, "layers.*"; else the loop's path. */
static const char *loop_text(const Program *p, const Op *loop)
{
    for (const Op *op = loop->body->first; op; op = op->next) {
        const char *star = strstr(op->path, ".*");
        if (star && op->kind != OP_loop)
            return arena_strndup(p->arena, op->path, (size_t)(star + 2 - op->path));
    }
    return *loop->path ? loop->path : "a loop";
}

static void print_log(Out *o, const Program *p, const TimelineLog *log)
{
    out(o, "\"spans\": [");
    for (int i = 0; i < log->span.n; i++) {
        const Span *s = &log->span.at[i];
        out(o, "%s[%d,%d,", i ? "," : "", s->stream, s->statement);
        seconds(o, s->begin);
        out(o, ",");
        seconds(o, s->end);
        out(o, "]");
    }
    out(o, "], \"skips\": [");
    for (int i = 0; i < log->skip.n; i++) {
        const Skip *s = &log->skip.at[i];
        out(o, "%s[", i ? "," : "");
        seconds(o, s->at);
        out(o, ",");
        seconds(o, s->seconds);
        out(o, ",%lld,", (long long)s->iterations);
        out_json_string(o, loop_text(p, s->loop));
        out(o, "]");
    }
    out(o, "]");
}

/* ---- pipelines ----------------------------------------------------------- */

static const char *action_name(const Action *x)
{
    static const char *const name[] = {
        [ACTION_FORWARD] = "forward", [ACTION_BACKWARD] = "backward",
        [ACTION_WEIGHTS] = "weights", [ACTION_SEND] = "send",
        [ACTION_RECEIVE] = "receive"};
    return name[x->kind];
}

static void print_actions(Out *o, const PipelineTime *t)
{
    out(o, "\n      \"actions\": [");
    for (int i = 0; i < t->action.n; i++) {
        const ActionTime *x = &t->action.at[i];
        out(o, "%s[%d,\"%s\",%d,%lld,", i ? "," : "", x->coordinate,
            action_name(&x->action), x->action.stage, (long long)x->action.micro);
        seconds(o, x->begin);
        out(o, ",");
        seconds(o, x->end);
        out(o, "]");
    }
    out(o, "],\n");
}

static bool same_spans(const TimelineLog *a, const TimelineLog *b)
{
    if (a->span.n != b->span.n)
        return false;
    for (int i = 0; i < a->span.n; i++) {
        const Span *x = &a->span.at[i], *y = &b->span.at[i];
        if (x->statement != y->statement || fabs(x->begin - y->begin) > 1e-9 ||
            fabs(x->end - y->end) > 1e-9)
            return false;
    }
    return true;
}

/* The first stage whose action has the same spans. */
static int first_with_same_spans(const PipelineTime *t, int stage, int action)
{
    int s = 0;
    while (!same_spans(&t->stage[s].action[action].log, &t->stage[stage].action[action].log))
        s++;
    return s;
}

static void print_inside(Out *o, const Program *p, const PipelineTime *t, int stage, int k)
{
    const Timeline *action = &t->stage[stage].action[k];
    out(o, "\n        {\"stages\": [");
    for (int s = stage; s < t->stages; s++)
        if (first_with_same_spans(t, s, k) == stage)
            out(o, "%s%d", s > stage ? ", " : "", s);
    out(o, "]");
    json_number(o, "stage", stage);
    json_text(o, "moment", (const char *const[]){"forward", "backward", "weights"}[k]);
    json_real(o, "seconds", action->seconds);
    out(o, ", ");
    print_log(o, p, &action->log);
    out(o, "}");
}

static void print_pipeline(Out *o, const Program *p, const PipelineTime *t)
{
    bool first = true;
    print_actions(o, t);
    out(o, "      \"inside\": [");
    for (int k = 0; k < COMPUTES; k++)
        for (int s = 0; s < t->stages; s++) {
            if (first_with_same_spans(t, s, k) != s || !t->stage[s].action[k].log.span.n)
                continue;
            out(o, "%s", first ? "" : ",");
            print_inside(o, p, t, s, k);
            first = false;
        }
    out(o, "]\n    ");
}

void page_timeline(Out *o, const Program *p, const Forecast *f)
{
    out(o, "    \"timeline\": ");
    if (!f) {
        out(o, "null,\n");
        return;
    }
    out(o, "{");
    if (f->pipeline)
        print_pipeline(o, p, f->pipeline);
    else
        print_log(o, p, f->log);
    out(o, "},\n");
}
