# lib_cuda.sh: sourced by the tests that run CUDA programs on the host
# (tests/standin).
standin=$root/tests/standin
export BUILD
"$standin/build" || exit 1
# The images are empty; the host's compiler compiles the kernels.
export PARC_NVRTC="$BUILD/standin/libnvrtc.so" STANDIN_LIMIT=300
export PARC_CACHE="$work/cache"

# job COMMAND ARGUMENTS…: runs it in the background, two at a time.
running=0
job() {
    "$@" &
    running=$((running + 1))
    [ $((running % 2)) = 1 ] || wait
}

# cuda_tree TREE MODEL.pdl [OPTIONS…]: writes sources and program to TREE.
cuda_tree() {
    made=$1 source=$2
    shift 2
    "$PARC" "$source" --target cuda "$@" -S "$made" -o "$made.bin" &&
        mv "$made.bin" "$made/train"
}

# cuda_run TREE KIND ORDER [OPTIONS…]: runs the program. KIND is `checked`
# (every access of every kernel is checked) or `fast`.
cuda_run() {
    tree=$1 kind=$2 order=$3
    shift 3
    [ -e "$tree/$kind.so" ] || {
        flag=
        [ "$kind" = checked ] || flag=-fast
        # shellcheck disable=SC2086
        "$standin/build" $flag "$tree/kernels.cu" "$tree/$kind.so" || return 1
    }
    STANDIN_ORDER=$order "$standin/run" -k "$tree/$kind.so" "$tree/train" "$@"
}

# one_cpu_rank PLAN [OPTIONS…]: six steps of $model; $work/one.log has their losses.
one_cpu_rank() {
    "$PARC" "$model" --target cpu --threads 1 --plan "$@" -o "$work/one" &&
        "$work/one" --steps 6 --seed 3 --log "$work/one.log" || exit 1
}
# follows KIND TOLERANCE MESH [OPTIONS…]: after one_cpu_rank, a CUDA program of $model has its
# losses, whether queued work runs early or late. KIND is that of cuda_run.
follows() {
    kind=$1 most=$2 mesh=$3 at=$work/$3
    shift 3
    cuda_tree "$at" "$model" --mesh "$mesh" "$@" || return
    for order in early late; do
        cuda_run "$at" "$kind" $order --steps 6 --seed 3 --log "$at.log" 2>"$at.err" &&
            same_curve "$at.log" "$work/one.log" "$most" && ! grep '^standin:' "$at.err" || return
    done
    rm -rf "$at"
}
