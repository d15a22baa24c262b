#!/usr/bin/env python3
"""doc_commands.py [--parc DIR] FILE.md…: runs the commands of documents.

The fenced blocks of a document run in order in a new temporary directory. It
has the repository's examples/, docs/ and README.md, and `parc` and `build/parc`
in it are the program under test.

    ```sh                    each line is run (sh -eu)
    ```console               lines after '$ ' are run; the lines below a command
                             are expected in its output, in this order; '…'
                             stands for any text
    <!-- file: NAME -->      the next block is written to NAME first
    <!-- exit: N -->         the next block ends with exit status N
    <!-- not run: WHY -->    the next block is skipped
    <!-- stop -->            nothing after this line is run

Other blocks (pdl, python, json, none) are text. A test with no command to run
fails. The last line is 'N passed, N failed': a block counts as one.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TIME_LIMIT = 300  # seconds a block: ends a hang, asserts nothing
FENCE = re.compile(r'^```(\w*)\s*$')
NOTE = re.compile(r'^<!-- (file|exit|not run|stop):? ?(.*?) ?-->$')


def blocks(path):
    """Yields (line number, language, lines, notes) of each fenced block."""
    language, begin, lines, notes = None, 0, [], {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fence, note = FENCE.match(line), NOTE.match(line)
        if language is not None and line.startswith('```'):
            yield begin, language, lines, notes
            language, notes = None, {}
        elif language is not None:
            lines.append(line)
        elif note and note[1] == 'stop':
            return
        elif note:
            notes[note[1]] = note[2]
        elif fence:
            language, begin, lines = fence[1], number, []
        elif line.strip():
            notes = {}


def steps(language, lines):
    """Splits a block into (command, expected lines)."""
    if language == 'sh':
        return [('\n'.join(lines), [])]
    found = []
    for line in lines:
        if line.startswith('$ '):
            found.append([line[2:], []])
        elif line.startswith('> ') and found and not found[-1][1]:
            found[-1][0] += '\n' + line[2:]
        elif line.strip() and found:
            found[-1][1].append(line)
    return found


def squeeze(text):
    return ' '.join(text.split())


def missing(expected, output):
    """The first expected line that the output lacks, or None."""
    have = [squeeze(line) for line in output.splitlines()]
    at = 0
    for line in expected:
        if squeeze(line) in ('…', '...'):
            continue
        parts = [re.escape(squeeze(part)) for part in line.split('…')]
        pattern = re.compile(r'^' + r'.*'.join(parts) + r'$')
        while at < len(have) and not pattern.match(have[at]):
            at += 1
        if at == len(have):
            return line
        at += 1
    return None


def run_block(language, lines, notes, directory, environment):
    """Runs a block; returns its fault, or None."""
    for command, expected in steps(language, lines):
        try:
            done = subprocess.run(
                ['sh', '-euc', command], cwd=directory, env=environment,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, errors="replace", timeout=TIME_LIMIT)
        except subprocess.TimeoutExpired:
            return f'{command}\nstill runs after {TIME_LIMIT} s'
        status = int(notes.get('exit', '0'))
        if done.returncode != status:
            return (f'{command}\nexit status {done.returncode}, '
                    f'not {status}\n{done.stdout}')
        line = missing(expected, done.stdout)
        if line is not None:
            return f'{command}\nlacks the line: {line}\n{done.stdout}'
    return None


def run_document(path, parc):
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix='parc-doc-') as name:
        directory = pathlib.Path(name)
        for entry in ('examples', 'docs', 'README.md'):
            (directory / entry).symlink_to(ROOT / entry)
        (directory / 'build').symlink_to(parc)
        environment = dict(os.environ, PATH=f'{parc}:{os.environ["PATH"]}')
        for number, language, lines, notes in blocks(path):
            if 'file' in notes:
                (directory / notes['file']).write_text('\n'.join(lines) + '\n')
            if language not in ('sh', 'console') or 'not run' in notes:
                continue
            wrong = run_block(language, lines, notes, directory, environment)
            passed, failed = passed + (not wrong), failed + bool(wrong)
            if wrong:
                print(f'FAILED {path}:{number}: {wrong}', file=sys.stderr)
    return passed, failed


def main():
    options = argparse.ArgumentParser()
    options.add_argument('--parc', default=ROOT / 'build')
    options.add_argument('files', nargs='+', type=pathlib.Path)
    options = options.parse_args()
    parc = pathlib.Path(options.parc).resolve()
    if not shutil.which(str(parc / 'parc')):
        sys.exit(f'doc_commands: {parc}/parc is absent; run make')
    total = [0, 0]
    for path in options.files:
        passed, failed = run_document(path, parc)
        if passed + failed == 0:
            print(f'FAILED {path}: no command is run', file=sys.stderr)
            failed = 1
        total = [total[0] + passed, total[1] + failed]
    print(f'{total[0]} passed, {total[1]} failed')
    sys.exit(total[1] > 0)


main()
