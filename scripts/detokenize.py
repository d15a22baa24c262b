#!/usr/bin/env python3
"""detokenize.py: converts token ids to text.

  ./train --sample-ids 1,2,3 ... | detokenize.py --tokenizer tokenizer.json
  detokenize.py --tokenizer tokenizer.json 1 2 3
  detokenize.py --tokenizer tokenizer.json tokens.bin

Ids are separated by blanks or commas. A file has ids as text, or tokens as
tokenize.py writes them: 16 bits each, or llm.c's header and 32 (or 16) bits
each. The tokenizer is a file in the format of Hugging Face's package
`tokenizers`.
"""
import argparse
import array
import os
import re
import struct
import sys

PART = 1 << 16  # tokens that are decoded in one call
CONTEXT = 16    # tokens before them: the first one's text depends on them
MAGIC_16, MAGIC_32, HEADER = 20240520, 20240801, 1024


def fail(text):
    sys.exit(f"detokenize.py: error: {text}")


def load(path):
    try:
        from tokenizers import Tokenizer
    except ImportError:
        fail("the Python package 'tokenizers' is missing: "
             "pip install tokenizers")
    if not os.path.isfile(path):
        fail(f"cannot read '{path}': no such file")
    try:
        return Tokenizer.from_file(path)
    except Exception as error:
        fail(f"'{path}' is not a tokenizer: {error}")


def numbers(words, size):
    ids = []
    for word in words:
        if not word.isascii() or not word.isdigit():
            fail(f"'{word}' is not a token id")
        if int(word) >= size:
            fail(f"token {word} is beyond the vocabulary of {size}")
        ids.append(int(word))
    return ids


def words(text):
    text = text.strip(" ,\n\t")
    return re.split(r"[\s,]+", text) if text else []


def read_tokens(path, size):
    """The ids of a file of tokens, or of ids as text."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        fail(f"cannot read '{path}': {error.strerror}")
    magic = struct.unpack_from("<I", data)[0] if len(data) >= HEADER else 0
    has_header = magic in (MAGIC_16, MAGIC_32)
    if not has_header and not data.strip(b"0123456789, \t\r\n"):
        return numbers(words(data.decode("ascii")), size)
    ids = array.array("I" if magic == MAGIC_32 else "H")
    data = data[HEADER:] if has_header else data
    if len(data) % ids.itemsize:
        fail(f"'{path}' is not a file of tokens: it ends within a token")
    ids.frombytes(data)
    if sys.byteorder == "big":
        ids.byteswap()
    if ids and max(ids) >= size:
        fail(f"'{path}': token {max(ids)} is beyond the vocabulary of {size}")
    return ids


def decode(tokenizer, ids):
    """Yields the text in parts. A part does not end within a character, and is
    decoded after the tokens before it: decoders omit a blank at the start."""
    def text(begin, end):
        return tokenizer.decode(list(ids[begin:end]), skip_special_tokens=False)

    begin = before = 0
    while begin < len(ids):
        end = min(begin + PART, len(ids))
        while end < len(ids) and text(end - CONTEXT, end).endswith("\ufffd"):
            end += 1
        yield text(before, end)[len(text(before, begin)):]
        begin, before = end, max(end - CONTEXT, 0)
        while before > 0 and text(before, end).startswith("\ufffd"):
            before -= 1


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tokenizer", required=True, metavar="FILE",
                        help="tokenizer.json")
    parser.add_argument("id", nargs="*", metavar="ID|FILE",
                        help="token ids, or one file of them; default: ids\n"
                             "from standard input")
    o = parser.parse_args()
    tokenizer = load(o.tokenizer)
    size = tokenizer.get_vocab_size()
    if len(o.id) == 1 and re.search(r"[^0-9,\s]", o.id[0]):
        ids = read_tokens(o.id[0], size)
    else:
        ids = numbers(words(" ".join(o.id) if o.id else sys.stdin.read()), size)
    for text in decode(tokenizer, ids):
        sys.stdout.write(text)
    print()


if __name__ == "__main__":
    main()
