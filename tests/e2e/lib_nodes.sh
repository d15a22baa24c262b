# lib_nodes.sh: sourced by the tests of programs for several machines. They run
# under a real mpirun, with several nodes on this machine (PARC_NODE). Without an
# mpirun the test ends here.

if ! command -v mpirun >/dev/null || ! command -v mpicc >/dev/null; then
    echo "skipped: no mpirun and mpicc (Debian's openmpi-bin, libopenmpi-dev)"
    finish
    exit
fi
# Open MPI does not free all of its memory.
[ ! "${CHECK_ASAN:-}" ] || export ASAN_OPTIONS=detect_leaks=0
run_as_root=
[ "$(id -u)" != 0 ] || run_as_root=--allow-run-as-root

# on_nodes NODES RANKS ./train OPTIONS…: starts RANKS ranks on each of NODES nodes.
on_nodes() {
    nodes=$1 ranks=$2 k=0
    shift 2
    contexts=
    command_line=$*
    set --
    while [ $k -lt "$nodes" ]; do
        # shellcheck disable=SC2086
        set -- "$@" $contexts -n "$ranks" -x PARC_NODE=$k $command_line
        contexts=:
        k=$((k + 1))
    done
    port=$((port + 1))
    PARC_MASTER=127.0.0.1:$port mpirun $run_as_root --oversubscribe \
        --bind-to none --mca btl tcp,self,vader "$@"
}

node_program() { # node_program NAME MODEL MESH NODE-SIZE OPTIONS…
    name=$1 model=$2 mesh=$3 node=$4
    shift 4
    # shellcheck disable=SC2046
    compile "$work/$name" "$model" "$mesh" --threads 1 $(sizes "$model") "$@" &&
        compile "$work/$name.nodes" "$model" "$mesh" --threads 1 \
            --node-size "$node" $(sizes "$model") "$@" \
            --emit json="$work/$name.json"
}
