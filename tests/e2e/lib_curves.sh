# lib_curves.sh: sourced by the tests of loss curves: describes the examples and
# varies their plans.

. "$root/tests/e2e/lib_own_data.sh"

# data_of MODEL: sets `data`, the options that give the model its data, if the
# run reads any.
data_of() {
    data=
    case $1 in
    toy | feedforward) ;;
    vit | translation | regression) own_data "$1" && data="--data $spec" ;;
    *) data="--data bytes:$text" ;;
    esac
}

# axes MESH: prints the names of the mesh axes before tp.
axes() {
    case $1 in
    *x*x*) echo 'rep, dp, tp' ;;
    *) echo 'dp, tp' ;;
    esac
}
over() { # over MESH STRATEGY: prints the axes that fully_shard uses
    case $1:$2 in
    *x*x*:hybrid_shard) echo '(rep, dp)' ;;
    *) echo 'dp' ;;
    esac
}

# describe MODEL: sets its sizes (the batch is 16, so that each of four
# microbatches of a data-parallel rank has a sequence), the units of
# fully_shard, the modules under checkpoint (a single layer would save its input
# and recompute nothing), and a limit below the gradient's norm.
describe() {
    checkpoint=model clip=0.5
    case $1 in
    toy)
        # Initial weights are 101 and more: a rate of 0.01 would change no loss.
        sizes='-D batch=48 -D optimizer.lr=100' units='net1' clip=0.05 ;;
    hsdp)
        sizes='-D vocab=512 -D dim=64 -D n_layers=2 -D n_heads=4 -D batch=16'
        sizes="$sizes -D seq=16 -D precision=f32"
        units='embed;blocks.*;[norm, head];positions' checkpoint='blocks.*' ;;
    feedforward)
        sizes='-D dim=64 -D hidden=128 -D batch=16' units='w1;w2;w3' ;;
    llama)
        sizes="$llama_sizes -D n_layers=2 -D batch=16 -D seq=16"
        units='tok_embeddings;layers.*;[norm, output]'
        checkpoint='layers.*' ;;
    gpt2)
        sizes="$gpt2_sizes -D n_layers=2 -D batch=16 -D seq=16 -D dropout=0.1"
        units='[wte, wpe, ln_f];h.*' checkpoint='h.*' ;;
    transformer)
        sizes="$transformer_sizes -D batch=16 -D seq=9"
        units='[embedding, decoder];every TransformerEncoderLayer'
        units="$units;every TransformerDecoderLayer;[transformer]"
        checkpoint='every TransformerEncoderLayer
        every TransformerDecoderLayer' ;;
    vit)
        sizes="$vit_sizes -D batch=16 -D dropout=0.1"
        units='[patches, norm, head];layers.*' checkpoint='layers.*' ;;
    translation)
        sizes="$translation_sizes -D batch=16" clip=0.2
        units='every EncoderLayer;every DecoderLayer;shared'
        checkpoint='every EncoderLayer
        every DecoderLayer' ;;
    regression)
        # Squared errors of 16-bit predictions: many samples average the rounding.
        sizes="$regression_sizes -D dropout=0.1 -D batch=128"
        sizes="$sizes -D optimizer.lr=1e-4" clip=0.2
        units='blocks.*;[input, norm, output]' checkpoint='blocks.*' ;;
    esac
}

# Renames the plan of the example, or its tensor-parallel one, to `curve`, with
# the axes of the mesh, one strategy for all units, and a checkpoint clause if
# CHECKPOINT says so. The strategy `own` leaves the units unchanged.
# per_step: one gather and one reduction for all microbatches.
unit_options() { # unit_options STRATEGY
    case $1 in
    per_step) echo gather=step, reduce=step ;;
    *) echo "strategy=$1" ;;
    esac
}

variant() { # variant MODEL MESH STRATEGY CHECKPOINT
    clause=$(printf '    fully_shard %s {\n' "$(over "$2" "$3")"
        printf '%s\n' "$units" | tr ';' '\n' |
            sed "s/^/        /; s/\$/: $(unit_options "$3")/"
        printf '    }\n'
        [ "$4" = no ] || printf '    checkpoint {\n        %s\n    }\n' \
            "$checkpoint")
    clause=$clause axes=$(axes "$2") \
        own=$([ "$3" != own ] || echo own) awk '
        /^plan .*, *(tp|tensor_parallel)\)/ {
            sub(/^plan [^{]*/, "plan curve(" ENVIRON["axes"] ") "); ours = 1
        }
        ours && /tensor_parallel \{/ { sub(/tensor_parallel/, "tp") }
        ours && /fully_shard/ && !ENVIRON["own"] {
            print ENVIRON["clause"]; skip = 1
        }
        skip { if (/\}/) skip = 0; next }
        /^\}/ { ours = 0 }
        { print }' "examples/$1.pdl"
}

# The loss of feedforward.pdl is a plain sum of terms of both signs, and
# rounding does not shrink with it. Its error is relative to the sum of
# magnitudes at step 1, which curves.sh measures.
magnitudes=90
agree() { # agree MODEL LOG LOG TOLERANCE
    if [ "$1" = feedforward ]; then
        jq -es --slurpfile b "$3" --argjson tol "$4" \
            --argjson scale "$magnitudes" '
            if length == 0 or length != ($b | length)
            then error("\(length) and \($b | length) steps")
            else [range(length) as $i |
                  (.[$i].loss - $b[$i].loss | fabs) / $scale] | max
            end |
            if . <= $tol then . else error("curves differ by \(.)") end' "$2"
    else
        same_curve "$2" "$3" "$4"
    fi
}

# An example whose plan has a pipeline on the axis pp, with the clause's words, and other
# clauses.
staged() { # staged MODEL WORDS [CLAUSES]
    words=$2 clauses=${3:-} awk '/^plan .*, *tp\)/ { sub(/\(/, "(pp, "); print
                      print "    pipeline pp { " ENVIRON["words"] " }"
                      print ENVIRON["clauses"]; next }
                  { print }' "examples/$1.pdl"
}
