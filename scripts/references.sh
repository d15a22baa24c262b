#!/bin/sh
# references.sh: checks that every source file that a comment or a document
# names exists: by its path, the end of its path, or its name.
set -u
cd "$(dirname "$0")/.." || exit 1
# Files of emitted programs, of other projects, and placeholders.
known="train.c model.c model.h kernels.c launch.c images.c llm.c name.c lex.c"
known="$known kernels.h prelude_text.c runtime_text.c transformer.h"
# Headers of libraries.
known="$known nccl.h nvtx3/nvtxDetail/nvtxTypes.h dnnl.h stdlib.h"
files=$(find base frontend ir passes codegen forecast report page compare autoplan driver runtime tests docs \
    scripts README.md Makefile -type f | grep -v '^tests/golden/')
{
    echo "$files" | sed 's/^/file /'
    for name in $known; do echo "file $name"; done
    # Comments of C files; every line of documents.
    echo "$files" | grep -E '\.([chly]|cuh)$' | xargs grep -nE '/\*|^ *\*|\*/' |
        grep -v '#include'
    echo "$files" | grep -E '\.md$|Makefile|^scripts/.*\.sh$' | xargs grep -n ''
} | awk '
    $1 == "file" {
        exists[$2] = 1
        while (sub(/^[^\/]*\//, "", $2))
            exists[$2] = 1
        next
    }
    {
        where = $0
        sub(/:[^:]*$/, "", where)
        split($0, part, ":")
        text = " " $0
        sub(/^[^:]*:[0-9]+:/, " ", text)
        while (match(text, /[^A-Za-z0-9_.>\/*-][a-z0-9_][A-Za-z0-9_\/]*\.(c|h|cuh)[^A-Za-z0-9_(\[]/) ||
               match(text, /[^A-Za-z0-9_.>\/*-][a-z0-9_][A-Za-z0-9_\/]*\.(c|h|cuh)$/)) {
            name = substr(text, RSTART + 1, RLENGTH - 1)
            sub(/[^a-z]$/, "", name)
            if (!(name in exists) && name !~ /^(out|build|examples|sys|linux)\// &&
                length(name) > 4) {
                printf "%s:%s: there is no file %s\n", part[1], part[2], name
                bad = 1
            }
            text = substr(text, RSTART + RLENGTH - 1)
        }
    }
    END { exit bad }'
