#!/bin/sh
# plot.sh: `parc plot` draws the curves of logs, and reports what it cannot
# read.
. "$(dirname "$0")/lib.sh"
unset NO_COLOR
export LC_ALL=C

# log FROM TO: 100 steps; the loss goes from FROM to TO, the rate is constant.
log() {
    awk -v from="$1" -v to="$2" 'BEGIN { for (s = 1; s <= 100; s++) {
        printf "{\"step\": %d, \"loss\": %.6f, ", s, from + (to - from) * (s - 1) / 99
        if (s % 20 == 0) printf "\"val_loss\": %.2f, ", 2 * from
        print "\"lr\": 0.001, \"mfu\": null}" } }'
}
log 1 3 >"$work/rise.jsonl"
log 3 1 >"$work/fall.jsonl"

# The columns of the first mark in the top row and in the bottom row.
corners() { # corners COMMAND…
    "$@" >"$work/picture" || return 1
    cat "$work/picture"
    awk -F '|' 'NF == 2 { row[n++] = index($2, "*") }
        END { print row[0], row[n - 1] }' "$work/picture" >"$work/corners"
}
rises() {
    corners "$PARC" plot --field loss "$work/rise.jsonl" &&
        awk '{ exit !($1 > 60 && $2 == 1) }' "$work/corners"
}
falls() {
    corners "$PARC" plot --field loss "$work/fall.jsonl" &&
        awk '{ exit !($1 == 1 && $2 > 60) }' "$work/corners"
}
says() { # says TEXT COMMAND…: the output contains TEXT
    phrase=$1
    shift
    "$@" >"$work/out" 2>&1
    status=$?
    cat "$work/out"
    grep -qF -- "$phrase" "$work/out" && return $status
    echo "no '$phrase'"
    return 99
}
ends() { # ends STATUS COMMAND…
    want=$1
    shift
    "$@"
    [ $? = "$want" ]
}
size() { # size COLUMNS ROWS COMMAND…: a picture of that size; a legend is free
    columns=$1 rows=$2
    shift 2
    "$@" | awk -v c="$columns" -v r="$rows" '{ if (length > c && !/least/) wide = 1 }
        END { print NR; exit wide || NR != r }'
}

check "a rising curve" rises
check "a falling curve" falls
check "the legend has the values" says \
    "loss 3 -> 1, least 1 at step 100" "$PARC" plot "$work/fall.jsonl"
check "val_loss is drawn if a log has it" says \
    "+ $work/fall.jsonl: val_loss 6 -> 6" "$PARC" plot "$work/fall.jsonl"
check "two logs" says "+ $work/fall.jsonl: loss" \
    "$PARC" plot --field=loss "$work/rise.jsonl" "$work/fall.jsonl"
check "another field" says "lr 0.001 -> 0.001" \
    "$PARC" plot --field lr "$work/fall.jsonl"
check "a pipe gets 80 x 24" size 80 24 "$PARC" plot "$work/fall.jsonl" \
    --field loss
check "another size" size 40 10 "$PARC" plot "$work/fall.jsonl" \
    --field loss --width 40 --height 10
check "standard input" says "-: loss 1 -> 3" \
    sh -c '"$1" plot - <"$2"' sh "$PARC" "$work/rise.jsonl"
check "braille in a UTF-8 locale" says "⠉" env LC_ALL=C.UTF-8 \
    "$PARC" plot --field loss "$work/fall.jsonl"
check "a logarithmic scale" says "least 1 at" \
    "$PARC" plot --log-y "$work/fall.jsonl"
check "help" says "--log-y" "$PARC" plot --help

{ cat "$work/fall.jsonl"; echo 'text'; printf '{"step": 102, "lo'; } \
    >"$work/cut.jsonl"
check "damaged lines are skipped and counted" says \
    "$work/cut.jsonl:101: note: not a line of a log: 2 lines are skipped" \
    "$PARC" plot "$work/cut.jsonl"
: >"$work/empty.jsonl"
awk 'BEGIN { while (n++ < 100000) printf "["; print "" }' >"$work/deep.jsonl"
echo '{"step": 1, "loss": 0}' >"$work/zero.jsonl"
for file in empty deep; do
    check "$file log" ends 1 says "$work/$file.jsonl has no line with a loss" \
        "$PARC" plot "$work/$file.jsonl"
done
check "no value above 0" ends 1 says "--log-y: no value is above 0" \
    "$PARC" plot --log-y "$work/zero.jsonl"
check "one point" says "loss 0 -> 0" "$PARC" plot "$work/zero.jsonl"
i=0
for line in '{"step": 1e300, "loss": 1}' '{"step": 1, "loss": 5e-324}' \
    '{"step": 1, "loss": 1.7e308}' \
    '{"step": 1, "loss": 1e308} {"step": 2, "loss": -1e308}'; do
    i=$((i + 1))
    echo "$line" | sed 's/} {/}\n{/' >"$work/huge$i.jsonl"
    check "extreme numbers $i" ends 0 says "huge$i.jsonl: loss" \
        "$PARC" plot "$work/huge$i.jsonl"
done
check "a field that the log has not" ends 1 says \
    "its fields are: loss, lr, val_loss" \
    "$PARC" plot --field los "$work/fall.jsonl"
check "a missing file" ends 1 says "cannot read '$work/none'" \
    "$PARC" plot "$work/none"
check "no log" ends 2 says "parc plot log.jsonl" "$PARC" plot
check "an unknown option" ends 2 says "unknown option '--feld'" \
    "$PARC" plot --feld loss
check "a width that is too small" ends 2 says "from 30 to 1000, not '3'" \
    "$PARC" plot --width 3 "$work/fall.jsonl"
check "a full disk" ends 1 says "No space left" \
    sh -c '"$1" plot "$2" >/dev/full' sh "$PARC" "$work/fall.jsonl"
finish
