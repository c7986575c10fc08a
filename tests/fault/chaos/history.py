"""What was asked and what was answered, as JSON lines. checker/history_checker.py says what a line has."""

import json
import threading
import time


class History:
    """A file that only grows; any thread may write. All times are time.monotonic()."""

    def __init__(self, path, **run):
        self.path = path
        self._file = open(path, "w", encoding="utf-8")
        self._guard = threading.Lock()
        self.lines = 0
        self.write("run", wall_minus_mono=time.time() - time.monotonic(), **run)

    def write(self, kind, **about):
        line = json.dumps({"kind": kind} | {name: value for name, value in about.items() if value is not None},
                          separators=(",", ":"))
        with self._guard:
            self._file.write(line + "\n")
            self.lines += 1

    def fault(self, name, target, begin, end, trouble=None):
        """`target`: whom it touched; the checker allows for it in that time, and in no other."""
        self.write("fault", name=name, target=target, begin=begin, end=end, trouble=trouble)

    def finding(self, what, detail):
        """Something that the run itself saw to be wrong."""
        self.write("finding", what=what, detail=detail)

    def close(self):
        self._file.close()
