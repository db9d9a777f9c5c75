import pytest

from app.http.admission.readers import Readers, TooManyReaders


def test_readers_are_counted_by_key_and_by_run() -> None:
    readers = Readers(per_key=2, per_run=1)

    with readers.reading("key", "run 1"):
        with pytest.raises(TooManyReaders), readers.reading("other key", "run 1"):
            pass
        with readers.reading("key", "run 2"):
            with pytest.raises(TooManyReaders) as refused:
                readers.require_room("key")
            readers.require_room("other key")
        readers.require_room("key", "run 2")

    assert refused.value.retry_after_s is not None
    readers.require_room("key", "run 1")


def test_who_was_refused_is_not_counted() -> None:
    readers = Readers(per_key=5, per_run=1)
    with readers.reading("key", "run"):
        for _ in range(10):
            with pytest.raises(TooManyReaders), readers.reading("key", "run"):
                pass

    with readers.reading("key", "run"):
        readers.require_room("key")
