"""Rows of a table at known numbers that are sums of digits.

    numbers[i, j] = i * w + j              a slice, in another shape
    numbers[a, b, c, d] = (a - c + w - 1) * (2 * w - 1) + b - d + w - 1

The second are Swin's relative positions. Each number is a sum of digits times a step: a
digit counts the elements of a dim, upward or downward. Digits with one step look up one
dim of the table, whose rows are then in as many dims as there are steps.
"""

import math

import torch

from .products import LETTERS


def digits_of(numbers):
    """[(count, step)] of numbers in row-major order, the last counts fastest; None if no
    digits give them."""
    found, n = [], len(numbers)
    while n > 1:
        step = int(numbers[1] - numbers[0])
        for count in range(n, 1, -1):
            if n % count:
                continue
            rows = numbers.reshape(-1, count)
            if bool((rows == rows[:, :1] + step * torch.arange(count)).all()):
                break
        else:
            return None
        found.insert(0, (count, step))
        numbers = rows[:, 0]
        n = len(numbers)
    return found


def split_rows(digits, rows):
    """[(rows of a part, digits)] of the table's dims, or None. The digits of a dim have one
    step, and their sum is below the dim's size."""
    steps = sorted({abs(step) for _, step in digits}, reverse=True)
    sizes, left = [], rows
    for step in steps:
        if not step or left % step:
            return None
        sizes.append(left // step)
        left = step
    if left != 1:
        return None
    groups = [(size, [i for i, (_, step) in enumerate(digits) if abs(step) == own])
              for size, own in zip(sizes, steps)]
    fits = all(sum(digits[i][0] - 1 for i in group) < size for size, group in groups)
    return groups if fits else None


def first_number(digits):
    """The number in which all digits are 0, upward ones at their start."""
    return sum(-step * (count - 1) for count, step in digits if step < 0)


def digit_sum(m, digits, group):
    """The sum of the digits of a group, a tensor with a dim for each."""
    total = None
    for place, i in enumerate(group):
        count, step = digits[i]
        x = m.make("arange", [count], (count,))
        x = x if step > 0 else m.make("sub", [count - 1, x], x.shape)
        for _ in group[place + 1:]:
            x = m.make("unsqueeze", [x, len(x.shape)], x.shape + (1,))
        total = x if total is None else m.map("add", total, x)
    return total


def looked_up(m, table, numbers):
    """table[numbers] as a product with 1 in the place of each digit sum, or None."""
    flat = numbers.reshape(-1).long()
    digits = digits_of(flat) if len(flat) > 1 else None
    groups = digits and split_rows(digits, table.shape[0])
    if not groups or first_number(digits) != int(flat[0]) or \
            len(digits) + len(groups) + len(table.shape) > 16:
        return None
    forms, parts, free = [], [], LETTERS[len(digits):]
    for k, (size, group) in enumerate(groups):
        total = digit_sum(m, digits, group)
        wide = m.make("unsqueeze", [total, len(total.shape)], total.shape + (1,))
        hit = m.make("==", [wide, m.make("arange", [size], (size,))], total.shape + (size,))
        forms.append("".join(LETTERS[i] for i in group) + free[k])
        parts.append(hit)
    sizes = tuple(size for size, _ in groups)
    if len(sizes) > 1:
        table = m.make("reshape", [table, *sizes, *table.shape[1:]], sizes + table.shape[1:])
    tail = free[len(groups):][:len(table.shape) - len(sizes)]
    forms.append(free[:len(groups)] + tail)
    shape = tuple(count for count, _ in digits) + tuple(table.shape[len(sizes):])
    right = LETTERS[:len(digits)] + tail
    y = m.make("einsum", [", ".join(forms) + f" -> {right}", *parts, table], shape)
    assert math.prod(shape) == math.prod(m.shape())
    return y if shape == m.shape() else m.make("reshape", [y, *m.shape()], m.shape())
