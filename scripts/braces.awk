# braces.awk: checks the braces of if, for and while in C files.
#
# One statement has no braces, whether it is simple or compound. If a branch of
# an if needs braces, all branches have them, and `else` follows the brace.
#
# Comments, strings and lines of the preprocessor count as no statement, but a
# body with a line of the preprocessor keeps its braces. Of files for flex and
# bison the part after the second %% is read.
FNR == 1 {
    check_file()
    file = FILENAME
    n = comment = joined = 0
    part = file ~ /\.[ly]$/ ? 0 : 2
}
part < 2 { part += /^%%/; next }
{ read_line($0) }
END {
    check_file()
    exit bad
}

function complain(i, what) {
    print file ":" line[i] ": " what
    bad = 1
}

# ---- tokens ----

function add(text) {
    token[++n] = text
    line[n] = FNR
}

# Adds the tokens of a line: words, single characters, "s" for a string and "#"
# for a line of the preprocessor.
function read_line(s,    end) {
    if (joined || (!comment && s ~ /^[ \t]*#/)) {
        if (!joined)
            add("#")
        joined = s ~ /\\$/
        return
    }
    while (s != "") {
        if (comment) {
            end = index(s, "*/")
            if (!end)
                return
            comment = 0
            s = substr(s, end + 2)
        } else if (s ~ /^\/\*/) {
            comment = 1
            s = substr(s, 3)
        } else if (s ~ /^\/\//) {
            return
        } else if (match(s, /^("([^"\\]|\\.)*"|'([^'\\]|\\.)*')/)) {
            add("s")
            s = substr(s, RLENGTH + 1)
        } else if (match(s, /^[ \t]+/)) {
            s = substr(s, RLENGTH + 1)
        } else if (match(s, /^[A-Za-z_0-9]+/)) {
            add(substr(s, 1, RLENGTH))
            s = substr(s, RLENGTH + 1)
        } else {
            add(substr(s, 1, 1))
            s = substr(s, 2)
        }
    }
}

# ---- statements: each function takes a token's index, and returns the index
# after what it read ----

function after_group(i,    depth) {
    for (; i <= n; i++)
        if (token[i] ~ /^[({[]$/)
            depth++
        else if (token[i] ~ /^[]})]$/ && --depth == 0)
            return i + 1
    return n + 1
}

function is_word(i) {
    return token[i] ~ /^[A-Za-z_]/
}

function is_declaration(i,    j) {
    if (!is_word(i) ||
        token[i] ~ /^(if|for|while|switch|do|case|return|goto|sizeof)$/)
        return 0
    j = token[i + 1] == "(" ? after_group(i + 1) : i + 1
    if (token[i + 1] != "(")
        while (token[j] == "*")
            j++
    return is_word(j)
}

# Sets `simple`: it is no compound statement; and `tail`: 1 if it ends in an if
# that would take an `else` after it, 2 if it ends in an if with an else, which
# the compiler warns of after another if; otherwise 0.
function read_statement(i,    t) {
    t = token[i]
    if (t == "if" || t == "for" || t == "while") {
        i = t == "if" ? read_chain(i) : read_loop(i)
        simple = 0
        return i
    }
    if (t == "switch") {
        i = read_statement(after_group(i + 1))
    } else if (t == "do") {
        i = after_group(read_statement(i + 1) + 1) + 1
    } else if (t == "{") {
        i = read_block(i)
    } else if (t == "#") {
        i++
    } else {
        while (i <= n && token[i] != ";" && token[i] != "}" &&
            !(token[i] == ":" && t ~ /^(case|default)$/))
            i = token[i] ~ /^[({[]$/ ? after_group(i) : i + 1
        i += token[i] != "}"
    }
    simple = t !~ /^(switch|do|[{])$/
    tail = 0
    return i
}

# Sets `needed`: the braces hold not just one statement.
function read_block(i,    count, other) {
    for (i++; i <= n && token[i] != "}";) {
        other = other || token[i] == "#" || is_declaration(i)
        count++
        i = read_statement(i)
    }
    needed = count != 1 || other
    return i + 1
}

# Sets `braced`, `needed` and `simple` for the body of an if or a loop.
function read_body(i,    own) {
    own = token[i] == "{"
    i = own ? read_block(i) : read_statement(i)
    braced = own
    needed = own && needed
    return i
}

function read_loop(i,    end) {
    end = read_body(after_group(i + 1))
    if (braced && !needed)
        complain(i, "braces around one statement")
    tail = braced ? 0 : tail
    return end
}

function read_chain(i,    first, head, with, without, need, compound, count) {
    for (first = i;; i++) {
        head = token[i] == "if"
        i = read_body(head ? after_group(i + 1) : i)
        if (braced && head && (tail == 2 || tail && token[i] == "else"))
            needed = 1
        count++
        with += braced
        without += !braced
        need += needed
        compound += !simple
        if (!head || token[i] != "else")
            break
        if (braced && line[i] != line[i - 1])
            complain(i, "'else' on a line of its own")
    }
    if (with && without)
        complain(first, "only some branches have braces")
    else if (with && !need && (count == 1 || !compound))
        complain(first, "braces around one statement")
    tail = head ? 1 : 2
    return i
}

# Functions are the blocks after a parenthesis at the top level.
function check_file(    i) {
    for (i = 1; i <= n;)
        if (token[i] == "{" && token[i - 1] == ")")
            i = read_block(i)
        else if (token[i] ~ /^[({[]$/)
            i = after_group(i)
        else
            i++
}
