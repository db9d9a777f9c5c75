import pytest

from app.http.admission.reader_limit import ReaderLimit, TooManyReaders


def test_readers_are_counted_by_key_and_by_run() -> None:
    readers = ReaderLimit(per_key=2, per_run=1)

    with readers.slot("key", "run 1"):
        with pytest.raises(TooManyReaders), readers.slot("other key", "run 1"):
            pass
        with readers.slot("key", "run 2"):
            with pytest.raises(TooManyReaders) as refused:
                readers.check("key")
            readers.check("other key")
        readers.check("key", "run 2")

    assert refused.value.retry_after_s is not None
    readers.check("key", "run 1")


def test_a_rejected_reader_is_not_counted() -> None:
    readers = ReaderLimit(per_key=5, per_run=1)
    with readers.slot("key", "run"):
        for _ in range(10):
            with pytest.raises(TooManyReaders), readers.slot("key", "run"):
                pass

    with readers.slot("key", "run"):
        readers.check("key")
