#!/bin/sh
# embed.sh: prints files as C source, to embed them in parc: the prelude, and
# the runtime's sources for emitted programs.
#
#   embed.sh --text NAME FILE     NAME_text[] (zero-terminated) and NAME_size
#   embed.sh --files NAME FILE…   NAME_files[]: rows {name, text, size}, then a
#                                 row of zeros (base/embedded.h); names are
#                                 relative to the directory NAME/
set -eu

bytes() {
    od -An -v -tu1 "$1" | sed 's/[0-9][0-9]*/&,/g'
    echo '0'
}

mode=$1 name=$2
shift 2
if [ "$mode" = --text ]; then
    echo "extern const char ${name}_text[]; extern const unsigned long ${name}_size;"
    echo "const char ${name}_text[] = {"
    bytes "$1"
    echo "};"
    echo "const unsigned long ${name}_size = sizeof ${name}_text - 1;"
    exit
fi
echo '#include "base/embedded.h"'
i=0
for file; do
    echo "static const char file_$i[] = {"
    bytes "$file"
    echo "};"
    i=$((i + 1))
done
echo "const EmbeddedFile ${name}_files[] = {"
i=0
for file; do
    echo "    {\"${file#"$name"/}\", file_$i, sizeof file_$i - 1},"
    i=$((i + 1))
done
echo "    {0, 0, 0},"
echo "};"
