"""How many read at once: event streams, requests that wait for a run's end, and exports."""

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Final

from app.errors import TooMany

RETRY_AFTER_S: Final = 5


class TooManyReaders(TooMany):
    """Too many streams, waiting requests or exports at once; close some, then try again."""

    code = "too_many_readers"


class Readers:
    """Counts readers by API key and by run."""

    def __init__(self, *, per_key: int, per_run: int) -> None:
        self._per_key = per_key
        self._per_run = per_run
        self._counts: Counter[Hashable] = Counter()

    def require_room(self, key: Hashable, run: Hashable | None = None) -> None:
        """Raise `TooManyReaders` unless one more of this key, of this run, may read."""
        if self._counts[key] >= self._per_key or (run is not None and self._counts[run] >= self._per_run):
            raise TooManyReaders(retry_after_s=RETRY_AFTER_S)

    @contextmanager
    def reading(self, key: Hashable, run: Hashable) -> Iterator[None]:
        """Count one reader while the body runs; raises `TooManyReaders`."""
        self.require_room(key, run)
        self._counts.update((key, run))
        try:
            yield
        finally:
            self._counts.subtract((key, run))
            for counted in (key, run):
                if not self._counts[counted]:
                    del self._counts[counted]
