"""Breaks long lines of the file."""

WIDTH = 88


def wrapped(lines):
    """Breaks long lines after commas, under the parenthesis that is open there."""
    out = []
    for line in lines:
        start = len(line) - len(line.lstrip())
        out += [" " * start + x for x in fill(line[start:], start)]
    return out


def fill(text, column):
    """The lines of a text that begins at a column of the page."""
    limit = WIDTH - 4 - column
    group = widest_group(text) if len(text) > limit else None
    if not group:
        return [text]
    begin, end, cuts = group
    parts = [text[a:b].strip() for a, b in zip([begin] + cuts, cuts + [end])]
    parts[-1] += text[end:]
    lines, line = [], text[:begin]
    for i, part in enumerate(parts):
        space = " " if i and len(line) > begin else ""
        if len(line) + len(space) + len(part) > limit and len(line) > begin:
            lines.append(line)
            line, space = " " * begin, ""
        first, *more = fill(part, column + begin) if len(line) == begin else [part]
        rows = [line + space + first] + [" " * begin + x for x in more]
        lines += rows[:-1]
        line = rows[-1]
    return lines + [line]


def widest_group(text):
    """(begin, end, commas) of the largest group in parentheses."""
    found, depth, begin, cuts, quoted = [], 0, 0, [], False
    for i, c in enumerate(text):
        quoted ^= c == '"'
        if quoted:
            continue
        if c in "([":
            depth += 1
            if depth == 1:
                begin, cuts = i + 1, []
        elif c in ")]":
            depth -= 1
            if depth == 0:
                found.append((i - begin, begin, i, cuts))
        elif c == "," and depth == 1:
            cuts.append(i + 1)
    best = max(found, default=None)
    return best and (best[1], best[2], best[3])
