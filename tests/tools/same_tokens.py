#!/usr/bin/env python3
"""same_tokens.py A.pdl B.pdl: whether two files differ only in comments, white space,
commas, the notation of numbers, and parentheses around several results. Prints the first
token that differs."""
import re
import sys

TOKEN = re.compile(r'"[^"]*"|\d+\.?\d*(?:e[+-]?\d+)?|[A-Za-z_]\w*|->|\*\*|[<>=!]=|\S')


def tokens(path):
    with open(path, encoding="utf-8") as f:
        text = re.sub(r"#.*", "", f.read())
    text = re.sub(r"return \((.*)\)$", lambda m: f"return {m[1]}" if several(m[1]) else m[0],
                  text, flags=re.M)
    found = [t for t in TOKEN.findall(text) if t != ","]
    return [repr(float(t)) if re.match(r"\d", t) else t for t in found]


def several(text):
    """Whether a text has a comma outside of parentheses, which close in it."""
    depth, comma = 0, False
    for c in text:
        depth += (c in "([") - (c in ")]")
        if depth < 0:
            return False
        comma |= c == "," and depth == 0
    return comma


def main(a, b):
    mine, theirs = tokens(a), tokens(b)
    for i, (x, y) in enumerate(zip(mine + [""], theirs + [""])):
        if x != y:
            sys.exit(f"{' '.join(mine[max(i - 8, 0):i])}: {x} and {y}")


if __name__ == "__main__":
    main(*sys.argv[1:])
