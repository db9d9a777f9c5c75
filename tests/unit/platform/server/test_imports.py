import gc

import pytest
from fastapi._compat import ModelField
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from app.platform.server.imports import quick_imports


def test_garbage_is_collected_again_after_imports() -> None:
    collections: list[bool] = []
    frozen = gc.get_freeze_count()
    kept = [[number] for number in range(1000)]

    with quick_imports():
        collections.append(gc.isenabled())
    collections.append(gc.isenabled())

    assert collections == [False, True]
    assert gc.get_freeze_count() >= frozen + len(kept)


def test_also_after_a_failed_import() -> None:
    with pytest.raises(ImportError), quick_imports():
        raise ImportError

    assert gc.isenabled()


def test_where_it_is_disabled_it_stays_so() -> None:
    gc.disable()
    try:
        with quick_imports():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_models_are_built_when_they_are_first_used() -> None:
    with quick_imports():

        class Imported(BaseModel):
            name: str

    class Later(BaseModel):
        name: str

    assert (Imported.__pydantic_complete__, Later.__pydantic_complete__) == (False, True)
    assert Imported(name="one").model_dump() == {"name": "one"}
    assert Imported.__pydantic_complete__


def test_a_body_that_is_built_late_is_no_warning() -> None:
    with quick_imports():

        class Posted(BaseModel):
            name: str

        field = ModelField(FieldInfo(annotation=Posted, alias="body"), name="body")

    assert field.validate({"name": "one"}, {}) == (Posted(name="one"), [])
