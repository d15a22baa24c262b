#!/bin/sh
# tests/gpu, where there is no GPU: what tests/gpu/trees writes is all that
# tests/gpu/run needs, ranks share one device over the loopback, and the table
# says what happened. Figures mean nothing here.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/lib_cuda.sh"

cat >"$work/cases" <<END
# name         kind      example mesh options
toy_f32        numerics  toy     1x1  -D batch=16
llama_f32_2x2  numerics  llama   2x2  -D vocab=256 -D dim=32 -D n_layers=2 -D n_heads=4 -D n_kv_heads=2 -D hidden=64 -D batch=4 -D seq=16 -D precision=f32
llama_bf16     numerics  llama   1x1  PARC_CUDNN=1 -D vocab=256 -D dim=32 -D n_layers=2 -D n_heads=4 -D n_kv_heads=2 -D hidden=64 -D batch=4 -D seq=16 -D precision=bf16
llama_bf16_own numerics  llama   1x1  PARC_CUDNN=0 -D vocab=256 -D dim=32 -D n_layers=2 -D n_heads=4 -D n_kv_heads=2 -D hidden=64 -D batch=4 -D seq=16 -D precision=bf16
END
check "the folder is made" env CASES="$work/cases" PARC="$PARC" \
    tests/gpu/trees "$work/gpu"

# A machine with one GPU, as the stand-ins have it.
mkdir "$work/bin"
cat >"$work/bin/nvidia-smi" <<'END'
#!/bin/sh
case $1 in
-L) echo 'GPU 0: stand-in (UUID: none)' ;;
*) echo 'stand-in, 0.0, 1024 MiB' ;;
esac
END
# Kernels of a program come from the host's compiler.
cat >"$work/bin/launch" <<END
#!/bin/sh
tree=\$(dirname "\$1")
[ -e "\$tree/fast.so" ] || "$standin/build" -fast "\$tree/kernels.cu" \
    "\$tree/fast.so" || exit 1
STANDIN_KERNELS=\$tree/fast.so exec "\$@"
END
chmod +x "$work/bin/nvidia-smi" "$work/bin/launch"
runs() {
    PATH=$work/bin:$PATH LAUNCH=$work/bin/launch TORCH=0 STEPS=7 \
        STANDIN_DEVICES=1 STANDIN_FREE=1073741824 \
        LD_LIBRARY_PATH=$BUILD/standin:$BUILD/standin/cudnn \
        "$work/gpu/run" "$work/gpu" >"$work/table" 2>"$work/said"
}
says() { # says PATTERN
    cat "$work/table" "$work/said"
    grep -qE -- "$1" "$work/table"
}
check "it runs" runs
check "the device is named" says '^stand-in, 0.0, 1024 MiB$'
check "a copy's rate" says '^device copy [0-9]+ GB/s'
check "one rank" says 'toy_f32 +1x1 .* ok$'
check "attention by cuDNN" says \
    '^  llama_bf16 +forward of \[4, 16, 4, 8\]: cuDNN 91900, engine 2$'
check "which is right" says 'llama_bf16 +1x1 .* ok$'
check "attention without it" says \
    '^  llama_bf16_own +backward of .*: own kernels \(PARC_CUDNN=0\)$'
check "ranks that share a GPU" says 'llama_f32_2x2 +2x2 .* ok$'

# The same program, timed and traced.
sed -i 's/numerics  llama/speed     llama/' "$work/gpu/cases"
check "it runs for speed" runs
check "time, tokens, memory" says \
    '^  llama_f32_2x2 +2x2 +[0-9.]+ +[0-9]+ +[0-9.]+ +[0-9]+ +[0-9]+ *$'
check "where the step goes" says '^llama_f32_2x2, where the step goes'
check "a product's rate" says '^  .* matmul .* Tflop/s$'
check "a kernel's rate" says '^  .* GB/s, .* of a copy$'

# What went wrong is told, and is the status.
rm "$work/gpu/build/toy_f32.repeats"
check "weights that are others each time" sh -c \
    "! '$work/gpu/tools/report.py' '$work/gpu' >'$work/table'"
check "are told" says 'toy_f32 +1x1 .* ANOTHER EACH TIME$'
rm "$work/gpu/toy_f32.cpu.jsonl"
check "a run that has no curve to compare" sh -c "! '$work/gpu/tools/report.py' \
    '$work/gpu' >'$work/table'"
check "is said" says 'toy_f32 +1x1 +did not run'
finish
