"""report.py: counts the checks of one run and writes a line for each.

A line is `ok`, a tab and the label, or `failed`, the label and the reason. The script
page.sh counts these lines as the other end-to-end tests count theirs.
"""
import contextlib
import sys
import traceback

from browser import BrowserError


class Report:
    def __init__(self, path):
        self.file = open(path, 'w', encoding='utf-8')
        self.page = ''

    def line(self, *words):
        print(*(' '.join(w.split()) for w in words), sep='\t', file=self.file, flush=True)

    @contextlib.contextmanager
    def check(self, label):
        """The block fails with AssertionError, BrowserError or an error of Python."""
        label = f'{self.page}: {label}'
        try:
            yield
        except (AssertionError, BrowserError) as error:
            self.line('failed', label, str(error)[:1500] or 'an assertion failed')
        except Exception as error:  # an error of the test, or a page without an element
            where = traceback.extract_tb(sys.exc_info()[2])[-1]
            self.line('failed', label,
                      f'{type(error).__name__}: {error} ({where.filename}:{where.lineno})')
        else:
            self.line('ok', label)

    def note(self, text):
        self.line('note', f'{self.page}: {text}')


def equal(have, want, what):
    assert have == want, f'{what}: the page has {have!r}, not {want!r}'

