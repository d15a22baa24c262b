#!/bin/sh
# demo.sh: compiles a small byte-level Llama for a 2x2 mesh of CPU ranks, trains
# it on the text files of this repository and samples a text from it.
set -eu
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
dir=$BUILD/demo
mkdir -p "$dir"
cat README.md docs/*.md examples/*.pdl tests/data/text.txt >"$dir/text"
sizes="-D vocab=256 -D dim=128 -D n_layers=2 -D n_heads=4 -D n_kv_heads=2 \
 -D hidden=384 -D batch=8 -D seq=64 -D precision=f32 -D optimizer.lr=2e-3"
echo "parc examples/llama.pdl --target cpu --mesh 2x2 … -o $dir/train"
# shellcheck disable=SC2086
"$BUILD/parc" examples/llama.pdl --target cpu --mesh 2x2 $sizes --emit plan |
    sed '/^Parameters/,$d'
# shellcheck disable=SC2086
"$BUILD/parc" examples/llama.pdl --target cpu --mesh 2x2 $sizes \
    -o "$dir/train"
echo "$dir/train --data bytes:$dir/text --steps 300 --sample 'The plan ' …"
exec "$dir/train" --data "bytes:$dir/text" --steps 300 --sample "The plan " \
    --tokens 300 --temperature 0.7
