#!/bin/sh
# setup.sh: installs the packages for building and testing parc that this machine
# lacks, with apt-get. It prints their names and asks no questions; if none is
# missing it does nothing.
#
#   setup.sh emulation     also installs what only tests need: emulators, a cross
#                          compiler, MPI and Chromium, and beside a CUDA toolkit
#                          without them cuobjdump and nvdisasm, with pip into
#                          build/tools. Without them the tests of programs for
#                          other CPUs and for several machines, of the HTML page
#                          and of machine code for GPUs are skipped
set -eu
cd "$(dirname "$0")/.."

missing=
need() { # need COMMAND-OR-HEADER PACKAGE
    case $1 in
    *.h) [ -e "/usr/include/$1" ] || [ -e "/usr/local/include/$1" ] ||
        missing="$missing $2" ;;
    *) command -v "$1" >/dev/null 2>&1 || missing="$missing $2" ;;
    esac
}
need gcc gcc
need ar binutils
need flex flex
need bison bison
need jq jq
need python3 python3
need dnnl.h libdnnl-dev
need stdlib.h libc6-dev
if [ "${1:-}" = emulation ]; then
    need qemu-x86_64 qemu-user
    need mpirun openmpi-bin
    need mpicc libopenmpi-dev
    need chromium chromium
    if [ "$(uname -m)" = x86_64 ]; then
        need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
        need ../aarch64-linux-gnu/include/stdlib.h libc6-dev-arm64-cross
    fi
fi

# A machine without pip or without a network is no error.
install_cuda_tools() {
    [ -d "${CUDA_HOME:-/usr/local/cuda}" ] || return 0
    PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin:build/tools/nvidia/cu13/bin
    if command -v cuobjdump && command -v nvdisasm; then
        return 0
    fi >/dev/null
    echo "setup: installing cuobjdump and nvdisasm" >&2
    PIP_ROOT_USER_ACTION=ignore python3 -m pip install -q --upgrade \
        --disable-pip-version-check --timeout 10 --retries 1 \
        --target build/tools \
        'nvidia-cuda-cuobjdump>=13,<14' 'nvidia-cuda-nvdisasm>=13,<14' ||
        echo "setup: note: cuobjdump and nvdisasm are not installed; the test" \
            "of machine code is skipped" >&2
}

install_packages() {
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "setup: install these packages:$missing" >&2
        exit 1
    fi
    as_root=
    if [ "$(id -u)" != 0 ]; then
        if ! command -v sudo >/dev/null 2>&1; then
            echo "setup: run as root: apt-get install$missing" >&2
            exit 1
        fi
        as_root=sudo
    fi
    echo "setup: installing$missing" >&2
    export DEBIAN_FRONTEND=noninteractive
    $as_root apt-get update -q >/dev/null
    # shellcheck disable=SC2086
    $as_root apt-get install -y -q --no-install-recommends $missing >/dev/null
}

[ -z "$missing" ] || install_packages
[ "${1:-}" != emulation ] || install_cuda_tools
