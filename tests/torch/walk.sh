#!/bin/sh
# walk.sh: the commands of docs/import.md, from a user's file to a trained model that
# PyTorch loads, run as shown.
#
#   PYTHON=venv/bin/python tests/torch/walk.sh
#
# Needs the packages torch and safetensors; not in `make check`.
. "$(dirname "$0")/../e2e/lib.sh"
PYTHON=$(command -v "${PYTHON:-python3}")
mkdir "$work/bin"
printf '#!/bin/sh\nexec "%s" "$@"\n' "$PYTHON" >"$work/bin/python3"
chmod +x "$work/bin/python3"
export PYTHON PATH="$work/bin:$root/scripts:$PATH"
check "the commands of docs/import.md" \
    python3 tests/tools/doc_commands.py --parc "$BUILD" docs/import.md
finish
