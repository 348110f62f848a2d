"""A thread that searches while something else happens."""

from __future__ import annotations

import threading

from codelode.errors import CodelodeError


class Searcher(threading.Thread):
    """Searches without a pause, counts answers, and collects failures.

    `connect` returns a client. `wrong` searches with it, and returns what is wrong with the answer,
    or None.
    """

    def __init__(self, connect, wrong):
        super().__init__()
        self._connect, self._wrong = connect, wrong
        self._ended = threading.Event()
        self.answers, self.failures = 0, []

    def run(self):
        with self._connect() as client:
            while not self._ended.is_set():
                try:
                    wrong = self._wrong(client)
                except CodelodeError as exc:
                    self.failures.append(repr(exc))
                    continue
                self.answers += 1
                if wrong is not None:
                    self.failures.append(wrong)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self.join()
