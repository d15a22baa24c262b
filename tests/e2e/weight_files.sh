#!/bin/sh
# weight_files.sh: --init and --export with files, directories and indices:
# shards, element types, several files of --init, missing tensors, and files
# that must be refused.
. "$(dirname "$0")/lib.sh"

weights() {
    python3 "$root/tests/tools/weights.py" "$@"
}
# run OPTIONS…: runs without training; $work/run.log has the messages.
run() {
    "$work/train" --steps 0 "$@" 2>"$work/run.log" || {
        cat "$work/run.log"
        return 1
    }
}
# says TEXT OPTIONS…: the run succeeds and prints the text.
says() {
    wanted=$1
    shift
    run "$@" && { grep -F -- "$wanted" "$work/run.log" ||
        { cat "$work/run.log"; false; }; }
}
# refuses TEXT OPTIONS…: the run fails with the text.
refuses() {
    wanted=$1
    shift
    ! run "$@" && { grep -F -- "$wanted" "$work/run.log" ||
        { cat "$work/run.log"; false; }; }
}

# shellcheck disable=SC2086
check compile compile "$work/train" llama 2x2 $llama_sizes -D n_layers=2
cd "$work" || exit 1

check "one file" run --seed 1 --export a
check "shards" run --seed 1 --export sharded/ --export-shard-size 20KB
check "shards have the layout of transformers" weights sharded sharded 20000
check "shards have all weights" weights same a sharded
check "a directory as --init" run --init sharded --export b
check "a directory: equal weights" cmp a b
check "an index as --init" \
    run --init sharded/model.safetensors.index.json --export b
check "an index: equal weights" cmp a b
for type in bf16 f16; do
    check "$type" run --init a --export $type/ --export-dtype $type \
        --export-shard-size 20KB
    check "$type: rounded to nearest" weights rounds a $type
    check "$type as --init" run --init $type --export $type.file \
        --export-dtype $type
    check "$type: equal weights" weights same $type $type.file
done

# ---- a directory that exists -------------------------------------------------
check "a directory replaces its shards by one file" \
    run --seed 2 --export sharded
check "one file: no index is left" test ! -e sharded/model.safetensors.index.json
check "one file: readable" weights names sharded
check "new weights" sh -c '! cmp a sharded/model.safetensors'
check "a directory replaces its one file by shards" \
    run --seed 1 --export sharded --export-shard-size 20KB
check "shards: the one file is removed" weights same a sharded
check "an index of another name" run --seed 1 --export sharded/w.index.json
check "its shards" weights same a sharded/w.index.json
check "the other model stays" weights same a sharded
touch before after
ls -A . sharded >before
check "a file that is too large leaves nothing" sh -c '
    ulimit -f 20; ! ./train --steps 0 --export sharded --export-dtype f32 &&
    ! ./train --steps 0 --export new/ --export-dtype f32'
ls -A . sharded >after
check "no temporary files" cmp before after
check "and changes nothing" weights same a sharded

# ---- temporary files of processes that were killed ---------------------------
# The names have the process: one that ended, and one that runs. A file that is
# locked is perhaps written on another machine.
stale() {
    gone=$(sh -c 'echo $$')
    mkdir "sharded/.parc.$gone.tmp" "later.$gone.tmp" "later.$$.tmp"
    touch "sharded/.parc.$gone.tmp/part" "later.$gone.tmp/part" "a.$gone.tmp" \
        "a.$$.tmp" "a.x$gone.tmp" "a.$gone.tmp.mine"
    flock "a.$gone.tmp" "$work/train" --steps 0 --export a &&
        [ -e "a.$gone.tmp" ] && run --export a && run --export later/ &&
        run --export sharded/w.index.json && ls -A . sharded &&
        [ ! -e "a.$gone.tmp" ] && [ ! -e "later.$gone.tmp" ] &&
        [ ! -e "sharded/.parc.$gone.tmp" ] && [ -e "a.$$.tmp" ] &&
        [ -e "a.x$gone.tmp" ] && [ -e "a.$gone.tmp.mine" ] &&
        [ -e "later.$$.tmp" ] && run --seed 1 --export a &&
        run --seed 1 --export sharded/w.index.json
}
check "an export removes what a killed one left, and nothing else" stale

# ---- several files, missing and extra tensors -------------------------------
check scale weights scale a twice 2
check drop weights drop twice part 'layers.*'
check "a later file takes precedence" run --init a --init twice --export b
check "all tensors" weights same b twice
check "a file with some tensors" run --init a --init part --export b
check "its tensors are taken" sh -c "
    python3 $root/tests/tools/weights.py drop b c 'layers.*' &&
    python3 $root/tests/tools/weights.py same c part"
check drop weights drop a base 'layers.1.*'
check "a missing tensor is an error" refuses \
    "base: byte 8: error: the file has no tensor 'layers.1." --init base
check "--init-partial counts the missing tensors" says \
    "train: note: --init-partial: 9 of 21 tensors are missing and keep their" \
    --init base --init-partial --seed 1 --export b
check "they have the seed's initial values" weights same a b
check rename weights rename a layer2 layers.1. layers.2.
check "extra tensors are reported" says \
    "layer2: note: 9 tensors are not in the model; the first is 'layers.2." \
    --init layer2 --init a

# ---- files that are refused -------------------------------------------------
index() {
    mkdir -p bad
    cp sharded/*.safetensors bad
    sed "$1" sharded/model.safetensors.index.json \
        >bad/model.safetensors.index.json
}
index 's|: "model-00001|: "../sharded/model-00001|'
check "a file outside the directory" refuses \
    "error: this is not the name of a file in the directory of the index" \
    --init bad
index 's|model-00001|model-00099|'
check "a missing file" refuses "error: the file 'bad/model-00099" --init bad
index 's|"norm.weight"|"norm.wait"|'
check "a tensor that its file lacks" refuses \
    "error: 'norm.wait' is not in 'bad/model-" --init bad
index 's|weight_map|map|'
check "no weight_map" refuses 'the index has no "weight_map"' --init bad
mkdir empty
check "a directory without a model" refuses \
    "the directory has neither model.safetensors nor" --init empty
check "shards of one file" refuses "'x' is one file; name a directory" \
    --export x --export-shard-size 5GB
check "a file where the directory would be" refuses \
    "cannot write 'a/': 'a' is not a directory" --export a/
check "an index in a new directory" run --seed 1 --export made/m.index.json
check "its weights" weights same a made/m.index.json
check "an option without its path" refuses "--export-dtype needs --export" \
    --export-dtype bf16
check "an unknown size" refuses "takes a size such as 500MB" \
    --export x/ --export-shard-size 5Gb
check "an unknown type" refuses "is one of f32|bf16|f16, not 'f64'" \
    --export x --export-dtype f64
check "the model has no names hf" refuses "has no block 'names hf'" \
    --export x --export-names hf
cd "$root" || exit 1

finish
