/* plot.h: declares `parc plot`, which draws the curves of training logs as
 * text. */
#ifndef PARC_DRIVER_PLOT_H
#define PARC_DRIVER_PLOT_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/out.h"

/* The values of one field in one log, in the order of its lines. Lines in which
 * the field is absent or null have no point. */
typedef struct Curve {
    const char *log, *field;
    int n;
    double *step, *value;
} Curve;

/* How to draw (plot_draw.c). */
typedef struct PlotStyle {
    int width, height; /* of the whole picture, in characters */
    bool log_y;        /* logarithmic values; values up to 0 are not drawn */
    bool unicode;      /* braille dots instead of ASCII characters */
    bool color;
} PlotStyle;

/* The least size that can be drawn. */
enum { PLOT_LEAST_WIDTH = 30, PLOT_LEAST_HEIGHT = 6 };

/* Draws curves that have at least one point each: axes, curves and a line of
 * legend for each. False if nothing can be drawn: no value is above 0, with
 * log_y. */
bool plot_draw(Out *o, const Curve *curve, int n, const PlotStyle *style);

/* Runs `parc plot`; argv[0] is "plot". Returns the exit status: 0, 1 after an
 * error of a file, 2 for wrong usage. */
int plot_main(int argc, char **argv);

#endif
