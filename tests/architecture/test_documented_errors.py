"""docs/api/errors.md and docs/api/runs.md list every error code."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import get_args

import app
from app.errors import AppError
from app.http import problems
from app.requests.outcome import ErrorCode, FinishReason
from tests.architecture.tree import ROOT


def kinds(root: type[AppError]) -> Iterator[type[AppError]]:
    """An error and everything derived from it."""
    yield root
    for derived in root.__subclasses__():
        yield from kinds(derived)


def error_codes() -> set[str]:
    """Every `code` of a problem document or an `error` event."""
    for module in pkgutil.walk_packages(app.__path__, "app."):
        importlib.import_module(module.name)
    ours = {kind.code for kind in kinds(AppError) if kind.__module__.startswith("app.")}
    return ours | set(problems._CODES.values()) | {"malformed_json"}


def test_every_error_code_is_documented() -> None:
    pages = [(ROOT / "docs" / "api" / name).read_text("utf-8") for name in ("errors.md", "runs.md")]
    api = "".join(pages)
    codes = error_codes() | set(get_args(ErrorCode)) | set(get_args(FinishReason))

    assert sorted(code for code in codes if f"`{code}`" not in api) == []


def test_errors_of_one_code_have_one_status() -> None:
    statuses: dict[str, set[int]] = {}
    for kind in kinds(AppError):
        statuses.setdefault(kind.code, set()).add(kind.status)

    assert {code: found for code, found in statuses.items() if len(found) > 1} == {}
