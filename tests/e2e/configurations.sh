#!/bin/sh
# configurations.sh: the committed predictions of published training runs are those of the
# machine files and of parc.
. "$(dirname "$0")/lib.sh"

at=$root/tests/forecast/configurations
cd "$root"

check "at least 40 configurations" sh -c "[ \$(tail -n +2 '$at/list' | wc -l) -ge 40 ]"
check "a prediction of each" sh -c "grep -v '^#' '$at/predictions' | tail -n +2 |
    cut -f 1 >'$work/predicted'; tail -n +2 '$at/list' | cut -f 1 |
    cmp - '$work/predicted'"

# predicted PATTERN: the lines of these configurations, and those of the hashes
predicted() {
    ONLY=$1 sh "$at/predict" >"$work/now" || return 1
    while IFS= read -r line; do
        grep -qxF -- "$line" "$at/predictions" ||
            { echo "not in predictions: $line"; return 1; }
    done <"$work/now"
}
for pattern in $(few_or_all "mpt-7b-2048* torchtitan-*" "mpt-* megatron-* torchtitan-*"); do
    check "predictions of $pattern" predicted "$pattern"
done
finish
