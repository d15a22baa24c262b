#!/bin/sh
# own_data.sh: models whose inputs are not one file of tokens: images with labels,
# source and target of a translation, and floats. On NumPy files they have
# PyTorch's losses on each mesh (tests/torch/record.sh recorded them; transformers
# has loaded the same exported weights), they learn, and they are evaluated. Source
# and target may be files of tokens too.
# cpu: losses
. "$(dirname "$0")/lib.sh"
. "$root/tests/e2e/lib_own_data.sh"

losses() { # losses MODEL LOG
    jq -c '.losses[] | {loss: .}' "tests/torch/$1.json" >"$work/torch.log" &&
        same_curve "$2" "$work/torch.log" 1e-6
}
# evaluated MODEL PROGRAM: the loss of five batches with the initial weights.
evaluated() {
    "$2" --seed 1 --eval --val "$spec" --val-steps 5 >"$work/eval" &&
        jq -es --slurpfile torch "tests/torch/$1.json" \
            '.[0].val_loss / $torch[0].val_loss - 1 | fabs < 1e-6' "$work/eval"
}
# named MODEL PROGRAM: exports the tensors that PyTorch's model loads.
named() {
    "$2" --steps 0 --export "$work/$1.st" &&
        python3 tests/tools/weights.py names "$work/$1.st" |
        grep -v '\.1\.' | LC_ALL=C sort >"$work/names" &&
        jq -r '.names[]' "tests/torch/$1.json" | LC_ALL=C sort |
        diff - "$work/names"
}
# learns MODEL STEPS PART: on 2x2 the validation loss falls to this part of that
# after a third of the steps; the first 60 losses are those of 1x1.
learns() {
    "$work/$1-1x1" --seed 1 --shuffle --steps 60 --data "$spec" \
        --log "$work/1x1.log" &&
        "$work/$1-2x2" --seed 1 --shuffle --steps "$2" --data "$spec" \
            --val "$spec" --val-every $(($2 / 3)) --val-steps 4 \
            --log "$work/2x2.log" || return 1
    head -60 "$work/2x2.log" >"$work/first.log"
    same_curve "$work/first.log" "$work/1x1.log" 1e-5 &&
        jq -es "map(.val_loss | values) | if length == 3 and
            .[2] < .[0] * $3 then . else error(tostring) end" "$work/2x2.log"
}
for model in $own_models; do
    check "$model: data" own_data "$model"
    for mesh in 1x1 2x2; do
        at=$work/$model-$mesh
        check "$model $mesh compiles" own_compile "$model" "$at" $mesh
        check "$model $mesh trains" "$at" --steps 5 --seed 1 --data "$spec" \
            --log "$at.log"
        check "$model $mesh has PyTorch's losses" losses "$model" "$at.log"
        check "$model $mesh is evaluated" evaluated "$model" "$at"
    done
    check "$model has PyTorch's names" named "$model" "$at"
done
check "data of the classifier" own_data vit
check "vit learns" learns vit 300 0.05
check "data of the regression" own_data regression
check "regression learns" learns regression 60 0.7
check "data of the translator" own_data translation
check "translation learns" learns translation 60 0.9

# ---- files of tokens ----

# The decoder restores the capitals of a text. Labels are the text, one byte later.
tr A-Z a-z <"$text" >"$work/small.txt"
{ tail -c +2 "$text" && echo; } >"$work/next.txt"
spec=source=bytes:$work/small.txt,target=bytes:$text,labels=bytes:$work/next.txt
for mesh in 1x1 2x2; do
    # shellcheck disable=SC2086
    check "$mesh compiles for files of tokens" compile "$work/translation-$mesh" \
        translation $mesh --threads 1 $translation_sizes -D src_seq=32
done
check "translation learns from files of tokens" learns translation 60 0.9
# Sources of different lengths need as many tokens for each sample.
check "another number of samples" sh -c "! '$work/translation-2x2' \
    --data source=bytes:$work/small.txt,target=bytes:$text,labels=bytes:README.md \
    2>'$work/said' && cat '$work/said' && grep 'samples' '$work/said'"
finish
