#!/bin/sh
# imports.sh: models of PyTorch and of transformers are imported as the recorded files; the
# files train as the models do, and PyTorch loads the weights that they export.
#
#   PYTHON=venv/bin/python tests/torch/imports.sh [CASE…]
#
# Skipped without the packages torch and transformers; not in `make check`, where
# tests/e2e/imported.sh compiles the recorded files.
. "$(dirname "$0")/../e2e/lib.sh"
python=${PYTHON:-python3}
if ! "$python" -c 'import torch, transformers' 2>"$work/err"; then
    echo "skipped: $(tail -1 "$work/err")"
    exit 0
fi
check "the recorded files" "$python" tests/torch/imports.py "$@"
[ $# -gt 0 ] || check "small models" "$python" tests/torch/small.py
finish
