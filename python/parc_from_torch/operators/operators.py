"""ATen operators and their counterparts in PDL.

    aten.silu(x)                          silu(x)
    aten.view(x, [2, 16, 4, 8])           reshape(x, 2, 16, 4, 8)
    aten.scaled_dot_product_attention     attention, between transposes of the
                                          heads and the sequence
"""

from ..ir.body import Value
from ..ir.builder import Builder
from . import (batch_norms, convolutions, elementwise, experts, integers, losses, orders,
               positions, products, random_numbers, shapes)

TABLE = {**elementwise.TABLE, **shapes.TABLE, **products.TABLE, **losses.TABLE,
         **convolutions.TABLE, **positions.TABLE, **orders.TABLE,
         **batch_norms.TABLE, **integers.TABLE, **random_numbers.TABLE, **experts.TABLE}


def unknown(node):
    """A stand-in for a result, so that all faults are found in one run."""
    fake = node.meta.get("val")
    if isinstance(fake, (tuple, list)):
        return tuple(Value(tuple(f.shape), f.dtype, node.name) for f in fake
                     if hasattr(f, "shape"))
    return Value(tuple(getattr(fake, "shape", ())), getattr(fake, "dtype", None), node.name)


def convert(name, node, args, named):
    """(result, statements) of an operator; Unsupported if PDL has none for it."""
    m = Builder(name, node)
    if name not in TABLE:
        m.fail("has no counterpart in PDL")
    return TABLE[name](m, args, named), m.stmts
