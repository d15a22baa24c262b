# lib_context.sh: sourced by tests that split sequences. It makes data for
# tests/data/context.pdl in $work, and sets $spec, the value of --data.

# Documents are runs of numbers that begin anywhere; one has a single token.
cat >"$work/data.py" <<'PY'
import json
import struct
import sys

rows, seq = 64, 16
def save(path, kind, shape, values):
    with open(path, 'wb') as f:
        head = f"{{'descr': '<{kind}4', 'fortran_order': False, 'shape': {shape}, }}"
        head += ' ' * (-(len(head) + 11) % 64) + '\n'
        f.write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(head)) + head.encode())
        f.write(struct.pack(f'<{len(values)}{kind}', *values))

at, cuts = sys.argv[1], [(1, 7), (4, 8), (8, 9), (3, 4), (12, 15), (5, 11)]
text = open(sys.argv[2], 'rb').read()[:rows * (seq + 1)]
lines = [text[i * (seq + 1):(i + 1) * (seq + 1)] for i in range(rows)]
save(f'{at}/tokens.npy', 'i', (rows, seq), [b for line in lines for b in line[:-1]])
save(f'{at}/labels.npy', 'i', (rows, seq), [b for line in lines for b in line[1:]])
save(f'{at}/documents.npy', 'i', (rows, seq),
     [sum(j >= c for c in cuts[i % len(cuts)]) for i in range(rows) for j in range(seq)])
save(f'{at}/scale.npy', 'f', (rows,), [1 + i % 3 for i in range(rows)])
PY
python3 "$work/data.py" "$work" "$text" || exit 1
spec=$(printf '%s=%s,' tokens "$work/tokens.npy" labels "$work/labels.npy" \
    documents "$work/documents.npy" scale "$work/scale.npy")
spec=${spec%,}

# The work of the calls of attention of a rank, in ascending order.
attention_of() { # attention_of NAME
    jq -c '[.work[] | select(.kind == "attention") | .flops * .count] | sort' \
        "$work/$1.json"
}

# Exchanges of sequences are on the stream of tensor axes, gathers of units on another one.
streams() { # streams PLAN MESH
    "$PARC" "$model" --plan "$1" --mesh "$2" --emit plan >"$work/plan" &&
        awk '/^[A-Z]/ { section = $1 }
            /^  [a-z]+[0-9]+ / { label = $1 }
            section == "Collectives," && /^ +context cp/ { wanted[label] = "tensor" }
            section == "Collectives," && / of unit / { wanted[label] = "data" }
            section == "Streams:" && wanted[$1] {
                seen[wanted[$1]]++
                if ($2 != wanted[$1]) { print; bad = 1 }
            }
            END { exit bad || !seen["tensor"] || !seen["data"] }' "$work/plan"
}

says() { # says TEXT OPTIONS…
    wanted=$1
    shift
    "$PARC" "$@" >"$work/out" 2>&1
    grep -qF -- "$wanted" "$work/out"
}
