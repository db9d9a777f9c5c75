"""Imports of large packages without work that only some processes need."""

import gc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import BaseModel
from pydantic.warnings import UnsupportedFieldAttributeWarning


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import without garbage collection, and models that are built when they are first used.

    What imports create stays, and scanning it takes a fifth of the time to start a server; later collections
    do not scan it either. A process uses few of its 1100 models, most of which are those of libraries.
    """
    # FastAPI ignores it where it uses a model, which is built later.
    warnings.simplefilter("ignore", UnsupportedFieldAttributeWarning)
    # Models inherit it from their base.
    BaseModel.model_config["defer_build"] = True
    try:
        with _without_garbage_collection():
            yield
    finally:
        del BaseModel.model_config["defer_build"]


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
