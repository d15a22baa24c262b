# lib_plans.sh: sourced by tests that train one model under several plans. They set $model and
# $spec, the value of --data.

built() { # built NAME PLAN MESH [OPTIONS…]
    name=$1 plan=$2 mesh=$3
    shift 3
    "$PARC" "$model" --target cpu --threads 1 --plan "$plan" --mesh "$mesh" "$@" \
        --emit json="$work/$name.json" -o "$work/$name"
}
trains() { # trains NAME PLAN MESH [OPTIONS…]
    built "$@" && "$work/$1" --steps 8 --seed 3 --data "$spec" --log "$work/$1.log" \
        --save "$work/$1.saved" --save-every 4
}
agrees() { # agrees WITH NAME PLAN MESH [OPTIONS…]: the losses of WITH
    with=$1
    shift
    trains "$@" && same_curve "$work/$1.log" "$work/$with.log" 1e-5 &&
        as_planned "$work/$1.log" "$work/$1.json"
}
resumed() { # resumed FROM TO: TO continues FROM's run
    "$work/$2" --steps 8 --resume "$work/$1.saved/step-00000004" --data "$spec" \
        --log "$work/moved.log" &&
        jq -c 'select(.step > 4)' "$work/one.log" >"$work/want.log" &&
        same_curve "$work/moved.log" "$work/want.log" 1e-5
}
