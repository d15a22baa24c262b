# words.awk: finds the words for words.sh. Its arguments are words.txt,
# words.allow and the files to check.

FNR == 1 { start_file() }
FILENAME == "scripts/words.txt" {
    if ($0 !~ /^#/ && split($0, part, "\t") >= 2) {
        pattern[++n] = edge_left "(" part[1] ")" edge_right
        hint[n] = part[2]
        any = any (n > 1 ? "|" : "") part[1]
        if (part[3] == "name")
            name[n] = "(^|[^a-z])(" part[1] ")([^a-z]|$)"
    }
    next
}
FILENAME == "scripts/words.allow" {
    if ($0 !~ /^#/ && split($0, part, "\t") == 2) {
        path[++allowed] = part[1]
        phrase[allowed] = part[2]
    }
    next
}
{ text($0) }
END { check(""); exit bad }

BEGIN {
    edge_left = "(^|[^a-z0-9_])"
    edge_right = "([^a-z0-9_]|$)"
}

function start_file() {
    check("")
    file = FILENAME
    inside = ""
    kind = file ~ /\.([chly]|cuh?|def)$/ ? "c" : file ~ /\.md$/ ? "md" : \
        file ~ /\.py$/ ? "py" : "sh"
}

# Passes on what is text in a line; the rest is replaced by blanks.
function text(line) {
    if (kind == "c") {
        code = ""
        check(line ~ /^#[ \t]*include/ ? "" : c_text(line))
        check_names(code)
    } else if (kind == "md") {
        if (line ~ /^ *```/) {
            inside = inside == "" ? "code" : ""
            line = ""
        }
        check(inside == "" ? line : "")
    } else if (kind == "py" && (inside != "" || line ~ /"""/)) {
        if (gsub(/"""/, "", line) == 1)
            inside = inside == "" ? "docstring" : ""
        check(line)
    } else if (match(line, /(^|[ \t])#[^!]/)) {
        check(substr(line, RSTART))
    } else if (match(line, /(^|[ \t])check "[^"]*"/)) {
        check(substr(line, RSTART, RLENGTH)) # the label of a test
    } else {
        check("")
    }
}

function c_text(line,    out, at, mark) {
    out = ""
    while (line != "") {
        if (inside == "comment") {
            at = index(line, "*/")
            if (!at)
                return out " " line
            out = out " " substr(line, 1, at - 1)
            line = substr(line, at + 2)
            inside = ""
        } else if (match(line, /"([^"\\]|\\.)*"|'([^'\\]|\\.)*'|\/\*|\/\//)) {
            mark = substr(line, RSTART, RLENGTH)
            code = code " " substr(line, 1, RSTART - 1)
            line = substr(line, RSTART + RLENGTH)
            if (mark == "//")
                return out " " line
            if (mark == "/*")
                inside = "comment"
            else if (mark ~ /^"/)
                out = out " " mark
        } else {
            code = code " " line
            break
        }
    }
    return out
}

# Checks the words of the identifiers in a line of C: takeRoom, take_room.
function check_names(code,    i) {
    while (match(code, /[a-z0-9][A-Z]/))
        code = substr(code, 1, RSTART) "_" substr(code, RSTART + 1)
    code = tolower(code)
    for (i in name)
        if (match(code, name[i]))
            report_at(file, FNR, substr(code, RSTART, RLENGTH), hint[i])
}

# Checks the line before this one, to which phrases may go on from it.
function check(line,    joined, i) {
    line = tolower(line)
    gsub(/`[^`]*`/, " . ", line)
    gsub(/'[a-z_.]+'/, " . ", line)
    gsub(/[a-z0-9_]+(->|\.)[a-z][a-z0-9_]*/, " . ", line)
    sub(/^[ \t]*\*+[ \t]/, "", line)
    if (before != "" && (before " " line) ~ any) {
        joined = before " " line
        for (i = 1; i <= allowed; i++)
            if (path[i] == "*" || index(before_file, path[i]) == 1)
                gsub(edge_left "(" phrase[i] ")" edge_right, " . ", joined)
        for (i = 1; i <= n; i++)
            if (match(joined, pattern[i]) && RSTART < length(before))
                report(substr(joined, RSTART, RLENGTH), hint[i])
    }
    before = line
    before_file = file
    before_line = FNR
}

function report(word, use) {
    report_at(before_file, before_line, word, use)
}

function report_at(file, line, word, use) {
    gsub(/^[^a-z]+|[^a-z]+$/, "", word)
    printf "%s:%d: %s → %s\n", file, line, word, use
    bad = 1
}
