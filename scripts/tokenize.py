#!/usr/bin/env python3
"""tokenize.py: converts text files to a file of token ids for --data.

  tokenize.py --tokenizer tokenizer.json --output tokens.bin FILE...

The tokenizer is a file in the format of Hugging Face's package `tokenizers`,
such as the tokenizer.json of a model. Ids below 65536 are written as 16 bits
without a header if the vocabulary allows it, otherwise as 32 bits with the
header of llm.c (1024 bytes: magic number 20240801, version 7, number of
tokens); `--data tokens.bin` recognizes both. `--eos TOKEN` appends this token
to every file, so that it separates the documents. '-' reads standard input.

The output appears whole or not at all. Files are read in parts that end at a
line, so memory does not grow with their size.
"""
import argparse
import array
import os
import struct
import sys
import tempfile

PART = 4 << 20  # characters of a part
MAGIC, VERSION, HEADER = 20240801, 7, 1024
MOST = (1 << 32) - 2  # tokens that the header can count, with a final one


def fail(text):
    sys.exit(f"tokenize.py: error: {text}")


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


def parts(path):
    """Yields the text of a file in parts that end at a line."""
    with (open(0, encoding="utf-8", closefd=False) if path == "-"
          else open(path, encoding="utf-8")) as file:
        while True:
            text = file.read(PART)
            if not text:
                return
            yield text + file.readline()


def invalid_byte(path):
    """The offset of the first byte of a file that is not UTF-8."""
    offset = 0
    with open(path, "rb") as file:
        for line in file:
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return offset + error.start
            offset += len(line)
    return offset


def encode(path, tokenizer):
    """Yields lists of the ids of a file."""
    try:
        for text in parts(path):
            yield tokenizer.encode(text, add_special_tokens=False).ids
    except UnicodeDecodeError:
        where = "" if path == "-" else f" byte {invalid_byte(path)}:"
        fail(f"{path}:{where} not UTF-8; convert it with iconv")
    except OSError as error:
        fail(f"cannot read '{path}': {error.strerror}")


def write(out, tokenizer, files, end):
    wide = max(tokenizer.get_vocab().values(), default=0) >= 1 << 16
    total = 0
    terminal = sys.stderr.isatty()
    if wide:
        out.write(bytes(HEADER))
    for path in files:
        before = total
        for ids in encode(path, tokenizer):
            data = array.array("I" if wide else "H", ids)
            if sys.byteorder == "big":
                data.byteswap()
            out.write(data.tobytes())
            total += len(ids)
            if wide and total > MOST:
                fail(f"{path}: more than {MOST} tokens, which the header of "
                     "a file cannot count: write several files, and name "
                     "them by --data 'a.bin;b.bin'")
            if terminal:
                print(f"\r{path}: {total - before} tokens", end="",
                      file=sys.stderr)
        if end is not None:
            out.write(struct.pack("<I" if wide else "<H", end))
            total += 1
        print(f"{chr(13) if terminal else ''}{path}: {total - before} tokens",
              file=sys.stderr)
    if wide:
        out.seek(0)
        out.write(struct.pack("<3I", MAGIC, VERSION, total))
    return total


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tokenizer", required=True, metavar="FILE",
                        help="tokenizer.json")
    parser.add_argument("--output", required=True, metavar="FILE",
                        help="the file of token ids")
    parser.add_argument("--eos", metavar="TOKEN",
                        help="append this token to every file: '<|end_of_text|>'")
    parser.add_argument("file", nargs="+", help="text in UTF-8")
    o = parser.parse_args()
    tokenizer = load(o.tokenizer)
    end = tokenizer.token_to_id(o.eos) if o.eos is not None else None
    if o.eos is not None and end is None:
        fail(f"the tokenizer has no token '{o.eos}'")
    directory = os.path.dirname(o.output) or "."
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(dir=directory, delete=False) as out:
            temporary = out.name
            total = write(out, tokenizer, o.file, end)
            out.flush()
            os.fsync(out.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.rename(temporary, o.output)
        temporary = None
    except OSError as error:
        fail(f"cannot write '{o.output}': {error.strerror}")
    finally:
        if temporary:
            os.unlink(temporary)
    print(f"{o.output}: {total} tokens of a vocabulary of "
          f"{tokenizer.get_vocab_size()}", file=sys.stderr)


if __name__ == "__main__":
    main()
