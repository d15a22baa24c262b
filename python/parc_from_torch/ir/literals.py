"""Numbers as PDL writes them."""

import math


class Word(str):
    """A word of PDL, such as the value of reduction=sum."""


def number(value):
    """A number as a person writes it, with the same value: 3e-4, 0.1, 1e-8."""
    value = float(value)
    if not math.isfinite(value):
        return repr(value)
    if value == int(value) and abs(value) < 1e6:
        return f"{value:.1f}" if value else "0.0"
    if 1e-3 <= abs(value) < 1e6:
        return repr(value)
    if "e-" in repr(value):
        return repr(value).replace("e-0", "e-")
    mantissa, _, exponent = f"{value:.15e}".partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".")
    text = f"{mantissa}e{int(exponent)}"
    return text if float(text) == value else \
        repr(value).replace("e-0", "e-").replace("e+", "e")


def literal(x):
    """A literal: integers and truth values as they are, or a float."""
    if isinstance(x, bool):
        return "true" if x else "false"
    if x is None:
        return "none"
    return str(x) if isinstance(x, int) else number(x)
