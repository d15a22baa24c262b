#!/bin/sh
# doc_commands.sh: the commands in the documents for users run as shown
# (tests/tools/doc_commands.py says how a document marks them).
. "$(dirname "$0")/lib.sh"

for page in docs/from-pytorch.md docs/plan.md $(few_or_all "" \
    "README.md docs/tutorial.md docs/train.md docs/runs.md"); do
    check "the commands of $page" \
        python3 tests/tools/doc_commands.py --parc "$BUILD" "$page"
done

# links PAGE: the targets of the page's relative links exist.
links() {
    grep -oE '\]\([^)#:]+(#[^)]*)?\)' "$1" | sed 's/^](//; s/[#)].*//' |
        while read -r target; do
            [ -e "$(dirname "$1")/$target" ] ||
                { echo "$1 links to $target" && exit 1; }
        done
}
for page in README.md docs/*.md; do
    check "the links of $page" links "$page"
done
finish
