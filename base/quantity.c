/* quantity.c: prints quantities with a unit prefix; see quantity.h. */
#include "base/quantity.h"

const char *bytes_text(Arena *a, int64_t bytes)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double x = (double)bytes;
    int k = 0;
    while (x >= 1024 && k < 4) {
        x /= 1024;
        k++;
    }
    return arena_printf(a, k ? "%.2f %s" : "%.0f %s", x, unit[k]);
}

const char *count_text(Arena *a, double x)
{
    static const char *const unit[] = {"", " K", " M", " G", " T", " P",
                                       " E"};
    int k = 0;
    while (x >= 1000 && k < 6) {
        x /= 1000;
        k++;
    }
    return arena_printf(a, k ? "%.2f%s" : "%.0f%s", x, unit[k]);
}
