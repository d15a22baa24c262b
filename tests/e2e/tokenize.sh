#!/bin/sh
# tokenize.sh: scripts/tokenize.py and detokenize.py report errors; with
# $TORCH_PYTHON (a Python that has the package tokenizers) they convert text to
# tokens that a program trains on, and back.
. "$(dirname "$0")/lib.sh"

refused() { # refused TEXT COMMAND…
    phrase=$1
    shift
    "$@" >"$work/out" 2>&1
    status=$?
    cat "$work/out"
    [ $status != 0 ] && [ ! -e "$work/tokens.bin" ] &&
        grep -qF -- "$phrase" "$work/out"
}
# A directory without the package stands for a Python that lacks it.
mkdir "$work/none"
echo 'raise ImportError("none")' >"$work/none/tokenizers.py"
lacking() { PYTHONPATH=$work/none python3 "$@"; }
check "the package is missing (tokenize)" refused "pip install tokenizers" \
    lacking scripts/tokenize.py --tokenizer x --output "$work/tokens.bin" "$text"
check "the package is missing (detokenize)" refused "pip install tokenizers" \
    lacking scripts/detokenize.py --tokenizer x 1 2
# A tokenizer of bytes replaces the package. Like that of Llama it omits a blank
# at the start of a text.
mkdir "$work/bytes"
cat >"$work/bytes/tokenizers.py" <<'EOF'
class Tokenizer:
    def from_file(path):
        return Tokenizer()

    def get_vocab(self):
        return {chr(i): i for i in range(256)}

    def get_vocab_size(self):
        return 256

    def encode(self, text, add_special_tokens):
        self.ids = list(text.encode())
        return self

    def decode(self, ids, skip_special_tokens):
        text = bytes(ids).decode(errors="replace")
        return text[1:] if text.startswith(" ") else text
EOF
echo '{}' >"$work/bytes.json"
bytes() { # bytes SCRIPT ARGUMENTS…
    script=$1
    shift
    PYTHONPATH=$work/bytes python3 "scripts/$script.py" \
        --tokenizer "$work/bytes.json" "$@"
}
# More tokens than one part has, with characters of several bytes and blanks.
i=0
while [ $i -lt 9000 ]; do
    echo "line $i € ü  x"
    i=$((i + 1))
done >"$work/long.txt"
no_returns() {
    bytes tokenize --output "$work/long.bin" "$work/long.txt" 2>"$work/said" &&
        cat "$work/said" && ! grep -q "$(printf '\r')" "$work/said" &&
        [ "$(wc -l <"$work/said")" = 2 ]
}
check "no carriage returns in a pipe" no_returns
same_text() {
    bytes detokenize "$work/long.bin" >"$work/long.out" &&
        { cat "$work/long.txt"; echo; } | cmp - "$work/long.out"
}
check "a file of tokens is text" same_text
same_ids() {
    od -An -v -tu2 "$work/long.bin" >"$work/long.ids" &&
        bytes detokenize "$work/long.ids" | cmp - "$work/long.out"
}
check "a file of ids is text" same_ids
cut_token() {
    printf 'abc' >"$work/cut.bin"
    refused "it ends within a token" bytes detokenize "$work/cut.bin"
}
check "a file that ends within a token" cut_token
wide_token() {
    printf 'a\001' >"$work/wide.bin"
    refused "token 353 is beyond the vocabulary of 256" bytes detokenize \
        "$work/wide.bin"
}
check "a file with a token beyond the vocabulary" wide_token
check "a missing file" refused "cannot read '$work/none.bin'" \
    bytes detokenize "$work/none.bin"
check "no tokenizer is named" refused "--tokenizer" python3 \
    scripts/tokenize.py --output "$work/tokens.bin" "$text"
check "help" sh -c 'python3 scripts/tokenize.py --help | grep -q llm.c'

python=${TORCH_PYTHON:-}
if [ -z "$python" ] || ! "$python" -c 'import tokenizers'; then
    finish
    exit
fi

cat >"$work/make.py" <<'EOF'
import sys
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
t = Tokenizer(models.BPE())
t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
t.decoder = decoders.ByteLevel()
alphabet = pre_tokenizers.ByteLevel.alphabet()
t.train([sys.argv[1]], trainers.BpeTrainer(
    vocab_size=400, special_tokens=["<end>"], initial_alphabet=alphabet))
t.save(sys.argv[2])
# The same with a vocabulary that needs 32 bits.
t.add_tokens([f"word{i}" for i in range(70000)])
t.save(sys.argv[3])
EOF
"$python" "$work/make.py" "$text" "$work/small.json" "$work/wide.json"
tokenize() { # tokenize TOKENIZER [OPTIONS…]
    tokenizer=$1
    shift
    "$python" scripts/tokenize.py --tokenizer "$work/$tokenizer.json" \
        --output "$work/$tokenizer.bin" "$@"
}
back() { # back TOKENIZER FORMAT SKIP: ids of the file, as text again
    od -An -v -t"$2" -j"$3" "$work/$1.bin" | "$python" scripts/detokenize.py \
        --tokenizer "$work/$1.json" >"$work/back"
    { cat "$text"; echo; } | cmp - "$work/back"
}
check "16-bit tokens" tokenize small "$text"
check "are the text" back small u2 0
check "32-bit tokens" tokenize wide "$text"
check "are the text after a header" back wide u4 1024
check "two files with an end of text" tokenize small --eos "<end>" "$text" \
    "$text"
check "have two ends" test "$(od -An -v -tu2 -w2 "$work/small.bin" |
    grep -c '^ *0$')" = 2
for tokenizer in small:512 wide:70656; do
    # shellcheck disable=SC2086
    check "${tokenizer%:*}: compiles" compile "$work/train" llama 1x1 \
        $llama_sizes -D vocab="${tokenizer#*:}" -D n_layers=1 -D seq=16
    check "${tokenizer%:*}: trains on the tokens" "$work/train" --steps 2 \
        --data "$work/${tokenizer%:*}.bin"
done
refuse() { # refuse TEXT COMMAND…
    phrase=$1
    shift
    ! "$@" >"$work/out" 2>&1 && cat "$work/out" &&
        grep -qF -- "$phrase" "$work/out"
}
rm "$work/small.bin"
check "a token that it has not" refuse "no token '<eos>'" \
    tokenize small --eos "<eos>" "$text"
check "a missing text" refuse "cannot read '$work/no.txt'" \
    tokenize small "$work/no.txt"
printf 'a\377b' >"$work/latin"
check "text that is not UTF-8" refuse "not UTF-8" tokenize small "$work/latin"
check "no output after an error" test ! -e "$work/small.bin"
check "an id beyond the vocabulary" refuse "beyond the vocabulary" \
    "$python" scripts/detokenize.py --tokenizer "$work/small.json" 1 99999
check "no number" refuse "'x' is not a token id" "$python" \
    scripts/detokenize.py --tokenizer "$work/small.json" 1 x
check "not a tokenizer" refuse "is not a tokenizer" "$python" \
    scripts/detokenize.py --tokenizer "$text" 1
finish
