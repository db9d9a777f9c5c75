"""ReaderLimit: limits concurrent event streams, requests that wait for a run's end, and exports."""

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Final

from app.errors import TooMany

RETRY_AFTER_S: Final = 5


class TooManyReaders(TooMany):
    """Too many streams, waiting requests or exports at once; close some, then try again."""

    code = "too_many_readers"


class ReaderLimit:
    """Counts readers by API key and by run."""

    def __init__(self, *, per_key: int, per_run: int) -> None:
        self._per_key = per_key
        self._per_run = per_run
        self._counts: Counter[Hashable] = Counter()

    def check(self, key: Hashable, run: Hashable | None = None) -> None:
        """Raise `TooManyReaders` unless this key, and this run, may have one more reader."""
        if self._counts[key] >= self._per_key or (run is not None and self._counts[run] >= self._per_run):
            raise TooManyReaders(retry_after_s=RETRY_AFTER_S)

    @contextmanager
    def slot(self, key: Hashable, run: Hashable) -> Iterator[None]:
        """Count one reader for the length of the `with` block; raises `TooManyReaders`."""
        self.check(key, run)
        self._counts.update((key, run))
        try:
            yield
        finally:
            self._counts.subtract((key, run))
            for counter in (key, run):
                if not self._counts[counter]:
                    del self._counts[counter]
