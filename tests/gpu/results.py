"""Stores the records of tests/gpu/run: one line of JSON for each part of a
case, appended when the part begins and when it ends.

A killed command leaves at most one incomplete line, which readers skip. The
records are stored in several directories, because some machines give each
command an empty results directory, or an empty work directory.
"""
import datetime
import json
import os

FILE = "results.jsonl"


def read_lines(path):
    """The complete records of a file of JSON lines, and how many lines are
    incomplete."""
    records, broken = [], 0
    try:
        lines = open(path, encoding="utf-8", errors="replace").readlines()
    except OSError:
        return [], 0
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if isinstance(record, dict):
            records.append(record)
        else:
            broken += 1
    return records, broken


def key(record):
    return record.get("case", ""), record.get("part", "")


USED = ("", "used")  # the record with the seconds of all commands


class Results:
    def __init__(self, directories, earlier, trees):
        """Records are read from all directories and the file `earlier`, and
        written to the directories that are writable. `trees`: only records that
        were made with these trees count."""
        self.trees = trees
        self.paths = [d / FILE for d in dict.fromkeys(directories)
                      if os.access(d, os.W_OK)]
        self.record = {}
        sources = [d / FILE for d in directories] + ([earlier] if earlier else [])
        for path in sources:
            for record in read_lines(path)[0]:
                if record.get("trees") == trees:
                    self._take(record)
        self._rewrite()

    def _take(self, record):
        """Keeps the latest record of a part, but never replaces one that was
        written at its end by one that was written at its beginning."""
        old = self.record.get(key(record))
        if key(record) == USED and old:
            record = max(old, record, key=lambda r: r["seconds"])
        if not old or old["state"] == "began" or record["state"] != "began":
            attempts = max(record.get("attempts", 0),
                           old.get("attempts", 0) if old else 0)
            self.record[key(record)] = dict(record, attempts=attempts)

    def _rewrite(self):
        text = "".join(json.dumps(r) + "\n" for r in self.record.values())
        for path in self.paths:
            new = path.with_suffix(".new")
            new.write_text(text)
            os.replace(new, path)

    def _append(self, record):
        self._take(record)
        for path in self.paths:
            with open(path, "a", encoding="utf-8") as f:
                f.write(json.dumps(record) + "\n")
                f.flush()
                os.fsync(f.fileno())

    def begin(self, case, part):
        """Counts the attempt, so that a part that crashes the machine is not
        repeated without end."""
        old = self.record.get((case, part), {})
        attempts = old.get("attempts", 0) + 1
        self._append({"case": case, "part": part, "state": "began",
                      "attempts": attempts, "trees": self.trees})

    def end(self, case, part, state, **more):
        """state: ok, failed or skipped."""
        attempts = self.record.get((case, part), {}).get("attempts", 0)
        date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        self._append(dict(case=case, part=part, state=state, attempts=attempts,
                          date=date, trees=self.trees, **more))

    def used(self):
        return self.record.get(USED, {}).get("seconds", 0.0)

    def use(self, seconds):
        self.end(*USED, "ok", seconds=round(seconds, 1))

    def get(self, case, part):
        return self.record.get((case, part))

    def all(self):
        return list(self.record.values())
