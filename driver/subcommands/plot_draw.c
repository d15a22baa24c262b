/* plot_draw.c: draws curves as text.
 *
 * A picture is a grid of dots: 2 x 4 dots per character in braille (Unicode
 * U+2800 … U+28FF), one per character in ASCII. The points of a curve in one
 * column of dots are averaged; lines connect the columns.
 *
 *    5.21 |*
 *         | **
 *    3.70 |   **** *
 *         |       * ****
 *         +-------------
 *         1     50   100
 *    * log.jsonl: loss 5.4103 -> 2.8801, least 2.8712 at step 97
 */
#include <math.h>
#include <string.h>

#include "driver/subcommands/plot.h"

enum { LABEL = 10, MARKS = 6, LABEL_ROWS = 4, BRAILLE = 0x2800 };

/* The characters of the curves in ASCII, and their colors on a terminal. */
static const char marks[MARKS + 1] = "*+ox#@";
static const char *const colors[MARKS] = {"\033[36m", "\033[33m", "\033[35m",
                                          "\033[32m", "\033[34m", "\033[31m"};

/* The bit of a dot within its braille character, by row and column. */
static const unsigned char braille_bit[4][2] = {
    {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};

typedef struct Range {
    double low, high;
} Range;

typedef struct Canvas {
    const PlotStyle *style;
    int columns, rows;        /* characters */
    int across, down;         /* dots per character */
    Range x, y;               /* y: logarithms with log_y */
    unsigned char *dots;      /* by character: the bits of its dots */
    signed char *curve;       /* by character: the curve drawn last, or -1 */
} Canvas;

static bool is_drawn(const PlotStyle *style, double value)
{
    return !style->log_y || value > 0;
}

static double height_of(const PlotStyle *style, double value)
{
    return style->log_y ? log10(value) : value;
}

static void include(Range *r, double value)
{
    r->low = value < r->low ? value : r->low;
    r->high = value > r->high ? value : r->high;
}

/* Makes an empty range positive in size. */
static void widen(Range *r)
{
    if (r->high > r->low)
        return;
    double by = r->high == 0 ? 1 : fabs(r->high) / 2;
    r->low -= by;
    r->high += by;
}

static bool find_ranges(Canvas *c, const Curve *curve, int n)
{
    c->x = c->y = (Range){INFINITY, -INFINITY};
    for (int i = 0; i < n; i++)
        for (int k = 0; k < curve[i].n; k++)
            if (is_drawn(c->style, curve[i].value[k])) {
                include(&c->x, curve[i].step[k]);
                include(&c->y, height_of(c->style, curve[i].value[k]));
            }
    if (c->x.low > c->x.high)
        return false;
    if (c->x.high == c->x.low)
        c->x.high++;
    widen(&c->y);
    return true;
}

/* The dot of a value, within 0 … dots - 1 for any number: the size of a range
 * may be infinite (from -1e308 to 1e308) or 0 (1e300 + 1 is 1e300). */
static int scale(double value, const Range *r, int dots)
{
    double size = r->high / 2 - r->low / 2;
    double at = (value / 2 - r->low / 2) / size * (dots - 1);
    if (!(at > 0)) /* NaN too */
        return 0;
    return at < dots - 1 ? (int)(at + 0.5) : dots - 1;
}

static void set_dot(Canvas *c, int x, int y, int curve)
{
    int at = y / c->down * c->columns + x / c->across;
    c->dots[at] |= braille_bit[y % c->down][x % c->across];
    c->curve[at] = (signed char)curve;
}

/* Draws a column of dots between two heights. */
static void draw_column(Canvas *c, int x, int from, int to, int curve)
{
    int step = from < to ? 1 : -1;
    for (int y = from; y != to; y += step)
        set_dot(c, x, y, curve);
    set_dot(c, x, to, curve);
}

/* Connects two points, x0 <= x1: each column covers its part of the height. */
static void draw_line(Canvas *c, int x0, int y0, int x1, int y1, int curve)
{
    int before = y0;
    for (int x = x0 + 1; x <= x1; x++) {
        int y = y0 + (int)lround((double)(y1 - y0) * (x - x0) / (x1 - x0));
        int from = before == y ? y : before < y ? before + 1 : before - 1;
        draw_column(c, x, from, y, curve);
        before = y;
    }
}

static void draw_curve(Canvas *c, Arena *a, const Curve *curve, int number)
{
    int width = c->columns * c->across, height = c->rows * c->down;
    double *sum = NEW_ARRAY(a, double, width);
    int *count = NEW_ARRAY(a, int, width), last = -1, last_y = 0;
    for (int k = 0; k < curve->n; k++) {
        if (!is_drawn(c->style, curve->value[k]))
            continue;
        int x = scale(curve->step[k], &c->x, width);
        sum[x] += height_of(c->style, curve->value[k]);
        count[x]++;
    }
    for (int x = 0; x < width; x++) {
        if (!count[x])
            continue;
        int y = height - 1 - scale(sum[x] / count[x], &c->y, height);
        set_dot(c, x, y, number);
        if (last >= 0)
            draw_line(c, last, last_y, x, y, number);
        last = x;
        last_y = y;
    }
}

static void put_cell(Out *o, const Canvas *c, int at)
{
    int curve = c->curve[at];
    if (curve < 0) {
        out(o, " ");
        return;
    }
    if (c->style->color)
        out(o, "%s", colors[curve % MARKS]);
    if (c->style->unicode) {
        unsigned code = BRAILLE + c->dots[at];
        out(o, "%c%c%c", (int)(0xE0 | code >> 12), (int)(0x80 | (code >> 6 & 63)),
            (int)(0x80 | (code & 63)));
    } else {
        out(o, "%c", marks[curve % MARKS]);
    }
    if (c->style->color)
        out(o, "\033[0m");
}

/* The value at the middle of a row of characters. */
static double row_value(const Canvas *c, int row)
{
    double at = c->y.high - (row + 0.5) / c->rows * (c->y.high - c->y.low);
    return c->style->log_y ? pow(10, at) : at;
}

static void put_rows(Out *o, const Canvas *c)
{
    for (int row = 0; row < c->rows; row++) {
        bool labelled = row % LABEL_ROWS == 0 || row == c->rows - 1;
        if (labelled)
            out(o, "%*.4g ", LABEL - 1, row_value(c, row));
        else
            out(o, "%*s", LABEL, "");
        out(o, "%s", c->style->unicode ? "\xE2\x94\x82" : "|");
        int last = c->columns;
        while (last > 0 && c->curve[row * c->columns + last - 1] < 0)
            last--;
        for (int i = 0; i < last; i++)
            put_cell(o, c, row * c->columns + i);
        out(o, "\n");
    }
}

static void put_x_axis(Out *o, const Canvas *c)
{
    out(o, "%*s%s", LABEL, "", c->style->unicode ? "\xE2\x94\x94" : "+");
    for (int i = 0; i < c->columns; i++)
        out(o, "%s", c->style->unicode ? "\xE2\x94\x80" : "-");
    int half = c->columns / 2;
    out(o, "\n%*s%-*.10g%*.10g\n", LABEL + 1, "", half, c->x.low,
        c->columns - half, c->x.high);
}

static void put_legend(Out *o, const Canvas *c, const Curve *curve, int number)
{
    int least = 0;
    for (int k = 1; k < curve->n; k++)
        if (curve->value[k] < curve->value[least])
            least = k;
    const char *color = c->style->color ? colors[number % MARKS] : "";
    out(o, "%*s%s%c%s %s: %s %.5g -> %.5g, least %.5g at step %.10g\n", LABEL,
        "", color, c->style->unicode ? '-' : marks[number % MARKS],
        *color ? "\033[0m" : "", curve->log, curve->field, curve->value[0],
        curve->value[curve->n - 1], curve->value[least], curve->step[least]);
}

bool plot_draw(Out *o, const Curve *curve, int n, const PlotStyle *style)
{
    enum { AXIS_ROWS = 2 };
    int rows = style->height - AXIS_ROWS - n;
    Canvas c = {.style = style, .columns = style->width - LABEL - 1,
                .rows = rows > 2 ? rows : 2,
                .across = style->unicode ? 2 : 1,
                .down = style->unicode ? 4 : 1};
    if (!find_ranges(&c, curve, n))
        return false;
    int cells = c.columns * c.rows;
    c.dots = NEW_ARRAY(o->arena, unsigned char, cells);
    c.curve = NEW_ARRAY(o->arena, signed char, cells);
    memset(c.curve, -1, (size_t)cells);
    for (int i = 0; i < n; i++)
        draw_curve(&c, o->arena, &curve[i], i);
    put_rows(o, &c);
    put_x_axis(o, &c);
    for (int i = 0; i < n; i++)
        put_legend(o, &c, &curve[i], i);
    return true;
}
