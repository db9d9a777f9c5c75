import gc

import pytest

from app.platform.server.imports import without_garbage_collection


def test_garbage_is_collected_again_after_imports() -> None:
    collections: list[bool] = []
    frozen = gc.get_freeze_count()
    kept = [[number] for number in range(1000)]

    with without_garbage_collection():
        collections.append(gc.isenabled())
    collections.append(gc.isenabled())

    assert collections == [False, True]
    assert gc.get_freeze_count() >= frozen + len(kept)


def test_also_after_a_failed_import() -> None:
    with pytest.raises(ImportError), without_garbage_collection():
        raise ImportError

    assert gc.isenabled()


def test_where_it_is_disabled_it_stays_so() -> None:
    gc.disable()
    try:
        with without_garbage_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
