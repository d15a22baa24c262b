"""Rewrites an exported program without changes in place.

    y = x.detach_()                     y = parc.detach(x)
    with torch.no_grad(): y = f(x)      y = parc.detach(f(x))
    m = zeros(4, 4); m[:, 0] = 1        m = select_scatter(zeros(4, 4), 1, 1, 0)

torch.export keeps changes in place as they are, and run_decompositions replaces
them. It also drops detach, as for inference; an operator of this file stands for
it meanwhile. Checks are removed, and casts that change nothing.
"""

import torch

CHECKS = {"_assert_tensor_metadata", "_assert_async", "_assert_scalar",
          "sym_constrain_range_for_size", "sym_constrain_range"}
# Operators that return their first argument, unless they change its type.
COPIES = {"to", "type_as", "_to_copy", "contiguous", "clone", "alias", "lift_fresh_copy",
          "lift_fresh"}


@torch.library.custom_op("parc::detach", mutates_args=())
def detach(x: torch.Tensor) -> torch.Tensor:
    """x without a gradient."""
    return x.clone()


@detach.register_fake
def _(x):
    return torch.empty_like(x)


def operator_name(target):
    """'add' for torch.ops.aten.add.Tensor."""
    return str(target).split(".")[1] if "." in str(target) else str(target)


def stack_of(nodes):
    """The modules that all nodes are in."""
    stacks = [list(n.meta["nn_module_stack"].items()) for n in nodes
              if n.meta.get("nn_module_stack")]
    common = []
    for level in zip(*stacks):
        if any(entry[0] != level[0][0] for entry in level):
            break
        common.append(level[0])
    return dict(common)


def insert_detach(graph, node, users):
    """Lets users of a node read it without its gradient."""
    if not users:
        return
    with graph.inserting_after(node):
        new = graph.call_function(torch.ops.parc.detach.default, (node,))
    new.meta = {k: v for k, v in node.meta.items() if k in ("val", "stack_trace")}
    new.meta["nn_module_stack"] = stack_of([node, *users])
    for user in users:
        user.replace_input_with(node, new)


def inline_blocks(module):
    """Puts the statements of a `with torch.no_grad()` in place of the operator that
    torch.export makes of it; later readers read its results detached."""
    graph = module.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or "set_grad_enabled" not in str(node.target):
            continue
        enabled, inner = node.args[0], getattr(module, node.args[1].target)
        inline_blocks(inner)
        copies = dict(zip((n for n in inner.graph.nodes if n.op == "placeholder"),
                          node.args[2:]))
        with graph.inserting_before(node):
            for n in inner.graph.nodes:
                if n.op == "output":
                    results = n.args[0]
                elif n.op != "placeholder":
                    copies[n] = graph.node_copy(n, lambda x: copies[x])
        for item in list(node.users):
            result = copies[results[item.args[1]]]
            users = list(item.users)
            item.replace_all_uses_with(result)
            graph.erase_node(item)
            if not enabled and result.meta["val"].dtype.is_floating_point:
                insert_detach(graph, result, users)
        graph.erase_node(node)


def replace_detach(graph):
    for node in list(graph.nodes):
        if node.op == "call_function" and operator_name(node.target) in ("detach", "detach_"):
            node.target = torch.ops.parc.detach.default


def simplify(graph):
    """Removes checks and copies: else unflatten makes them outputs of their modules. A view
    may need a `contiguous` that is removed, a reshape does not."""
    for node in list(graph.nodes):
        name = operator_name(node.target) if node.op == "call_function" else ""
        if name in CHECKS:
            graph.erase_node(node)
        elif name in COPIES:
            before, after = node.args[0].meta.get("val"), node.meta.get("val")
            if before is not None and before.dtype == after.dtype:
                node.replace_all_uses_with(node.args[0])
                graph.erase_node(node)
        elif node.target is torch.ops.aten.view.default:
            node.target = torch.ops.aten.reshape.default


def changes_in_place(node):
    schema = getattr(node.target, "_schema", None)
    return node.op == "call_function" and schema is not None and schema.is_mutable


def program(exported):
    """The program without changes in place. Copies are removed only then, because
    a change of a copy is none of the original."""
    module = exported.graph_module
    inline_blocks(module)
    replace_detach(module.graph)
    module.graph.lint()
    module.recompile()
    if any(changes_in_place(n) for n in module.graph.nodes
           if operator_name(n.target) not in CHECKS):
        exported = exported.run_decompositions({})
    simplify(exported.graph)
    exported.graph_module.recompile()
    return exported


def changed_buffers(exported):
    """[(name, node of the new value)] of the buffers that the forward changes."""
    changed = exported.graph_signature.buffers_to_mutate
    output = next(n for n in exported.graph.nodes if n.op == "output")
    return [(changed[n.name], n) for n in output.args[0] if getattr(n, "name", "") in changed]
