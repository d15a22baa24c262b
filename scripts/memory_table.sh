#!/bin/sh
# memory_table.sh: computes the table of docs/memory.md: the peak memory of
# transformer.pdl on two ranks, with one sequence of 35 tokens each, in f32, for
# each strategy, with and without recomputation of layers.
#
#   scripts/memory_table.sh            prints the table
#   scripts/memory_table.sh --update   replaces it in docs/memory.md
set -eu
cd "$(dirname "$0")/.."
parc=${BUILD:-build}/parc
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

# again.pdl: the example with a checkpoint clause in every plan.
awk '/^plan/ { fresh = 1 } /checkpoint \{/ { fresh = 0 }
    /^}/ && fresh { print "    checkpoint {"
        print "        every TransformerEncoderLayer"
        print "        every TransformerDecoderLayer"
        print "    }"; fresh = 0 }
    { print }' examples/transformer.pdl >"$work/again.pdl"

# row LABEL FILE PLAN SEED: peak, floor, and the four largest tensors at the peak
# that the floor does not include, in MB of 2^20 bytes.
row() {
    "$parc" "$2" --plan "$3" --mesh 2 -D batch=2 -D seq=35 --emit json \
        >"$work/json"
    jq -r --arg name "$1" --arg seed "$4" '
        def mb: . / 1048576 | round;
        def size: if .n > 1 then "\(.name) x \(.n)" else .name end;
        # Adam has two states for each parameter of a shard.
        (2 * .memory.optimizer) as $floor
        | ((.memory.params - .memory.optimizer / 2) | mb) as $whole
        | ([.at_peak[] | select(.class != "params" and .bytes >= 1048576 and
                                .class != "optimizer" and .class != "grads")
            | .name |= sub("\\.[0-9]+$"; "")]
           | group_by(.name)
           | map({name: .[0].name, n: length, bytes: (map(.bytes) | add)})
           | sort_by(-.bytes)) as $above
        | ($above[:4] | map(size + ": " + (.bytes | mb | tostring))) as $largest
        | ($above[4:] | map(.bytes) | add // 0 | mb) as $rest
        | [$name, $seed, (.memory.peak | mb), ($floor | mb),
           (.memory.grads | mb),
           (if $whole > 0 then ["gathered parameters: \($whole)"] else [] end
            + $largest + if $rest > 0 then ["others: \($rest)"] else [] end
            | join(", "))]
        | "| " + (map(tostring) | join(" | ")) + " |"
    ' "$work/json"
}

table() {
    echo '| strategy | PyTorch 2.1, MB | parc, MB | floor, MB | gradients at the peak, MB | other tensors at the peak, MB |'
    echo '|---|---|---|---|---|---|'
    row no_shard examples/transformer.pdl no_shard '19296 (DDP 23125)'
    row shard_grad_op examples/transformer.pdl shard_grad_op 11772
    row full_shard examples/transformer.pdl full_shard 9627
    row 'no_shard, checkpoint' "$work/again.pdl" no_shard ''
    row 'shard_grad_op, checkpoint' "$work/again.pdl" shard_grad_op ''
    row 'full_shard, checkpoint' "$work/again.pdl" full_shard ''
}

if [ "${1:-}" != --update ]; then
    table
    exit
fi
table >"$work/table"
awk -v table="$work/table" '
    /^\| strategy/ { while ((getline line < table) > 0) print line; skip = 1 }
    skip && !/^\|/ { skip = 0 }
    !skip { print }' docs/memory.md >"$work/page"
mv "$work/page" docs/memory.md
