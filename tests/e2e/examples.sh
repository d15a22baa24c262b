#!/bin/sh
# examples.sh: every example compiles and trains; feedforward.pdl has one curve
# on every mesh; an installed parc works without its source tree.
. "$(dirname "$0")/lib.sh"

small=$(sizes feedforward)
for file in examples/*.pdl; do
    model=$(basename "$file" .pdl)
    case $model in
    deepseek_moe | llama3 | mistral | mixtral | qwen3) continue ;; # huggingface.sh trains them
    vit | translation | regression) continue ;; # own_data.sh trains them
    esac
    meshes="1x1 2x2"
    case $model in hsdp | three_d) meshes="1x1x1 2x1x2" ;; esac
    for mesh in $meshes; do
        # shellcheck disable=SC2046
        check "$model $mesh compiles" compile "$work/$model-$mesh" "$model" \
            "$mesh" $(sizes "$model")
        check "$model $mesh trains" "$work/$model-$mesh" --steps 3 \
            --log "$work/$model-$mesh.log"
        check "$model $mesh has three steps" jq -es 'length == 3' \
            "$work/$model-$mesh.log"
    done
done

# The loss of feedforward.pdl is the plain sum of 8 x 64 outputs of both signs.
# It may be close to zero, but rounding errors do not shrink with it. The
# tolerance is therefore relative to the largest absolute loss in 20 steps.
same_scaled() { # same_scaled LOG LOG TOLERANCE
    jq -n --slurpfile a "$1" --slurpfile b "$2" --argjson tol "$3" '
        ($a | map(.loss)) as $x | ($b | map(.loss)) as $y |
        ($y | map(fabs) | max) as $scale |
        if ($x | length) != 20 or ($y | length) != 20
        then error("\($x | length) and \($y | length) steps")
        else [range(20) | ($x[.] - $y[.]) | fabs] | max / $scale end |
        if . <= $tol then . else error("curves differ by \(.)") end'
}
for mesh in 1x1 2x1 1x2 2x2 4x2; do
    binary=$work/ff-$mesh
    # shellcheck disable=SC2086
    check "$mesh compiles" compile "$binary" feedforward "$mesh" $small
    check "$mesh trains" "$binary" --steps 20 --seed 3 --log "$binary.log"
    check "$mesh curve" same_scaled "$binary.log" "$work/ff-1x1.log" 1e-5
done
finish
