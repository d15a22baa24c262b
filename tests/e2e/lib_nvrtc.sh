# lib_nvrtc.sh: sourced after lib.sh by the tests that compile for GPUs.
#
# Without NVRTC the test is skipped, but it fails under CI on a machine that has
# the toolkit.
toolkit=${CUDA_HOME:-/usr/local/cuda}

tree() { # tree DIR MODEL.pdl OPTIONS…: writes sources, and DIR.log with messages
    at=$1 model=$2
    shift 2
    "$PARC" "$model" -S "$at" -v "$@" 2>"$at.log" || { cat "$at.log"; return 1; }
}

# The log has a line for each kernel and architecture, and no kernel spills.
no_spills() { # no_spills DIR ARCHITECTURES
    kernels=$(sed -n 's/.*\.nkernels = \([0-9]*\).*/\1/p' "$1/model.c")
    reports=$(grep -c ' registers, ' "$1.log")
    [ "$reports" -ge $((kernels * $2)) ] || {
        echo "$reports reports of $kernels kernels"
        return 1
    }
    ! grep ' spills ' "$1.log"
}

if ! tree "$work/probe" examples/toy.pdl && grep -q PARC_NVRTC "$work/probe.log"
then
    echo "SKIPPED $(basename "$0"): NVRTC is not installed; nothing was" \
        "compiled" >&2
    [ "${CI:-}" ] && [ -d "$toolkit" ] && check "NVRTC, in $toolkit" false
    finish
    exit
fi
