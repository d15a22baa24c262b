#!/usr/bin/env python3
"""detokenize.py: converts token ids to text.

  ./train --sample-ids 1,2,3 ... | detokenize.py --tokenizer tokenizer.json
  detokenize.py --tokenizer tokenizer.json 1 2 3

Ids are separated by blanks or commas. The tokenizer is a file in the format of
Hugging Face's package `tokenizers`.
"""
import argparse
import os
import re
import sys


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


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tokenizer", required=True, metavar="FILE",
                        help="tokenizer.json")
    parser.add_argument("id", nargs="*",
                        help="token ids; default: from standard input")
    o = parser.parse_args()
    tokenizer = load(o.tokenizer)
    text = " ".join(o.id) if o.id else sys.stdin.read()
    ids = numbers(re.split(r"[\s,]+", text.strip(" ,\n\t")) if text.strip()
                  else [], tokenizer.get_vocab_size())
    print(tokenizer.decode(ids, skip_special_tokens=False))


if __name__ == "__main__":
    main()
