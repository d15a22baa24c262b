#!/bin/sh
# The commands in the documents for users run as they are shown
# (tests/tools/doc_commands.py says how a document marks them).
. "$(dirname "$0")/lib.sh"

for page in README.md docs/tutorial.md docs/from-pytorch.md docs/train.md \
    docs/plan.md; do
    check "$page" python3 tests/tools/doc_commands.py --parc "$BUILD" "$page"
done
finish
