"""What a run changed in its workspace."""

from typing import Annotated, Literal

from pydantic import Field

from app.requests.wire_models import WireModel


def _is_none(value: object) -> bool:
    return value is None


def _is_zero(value: object) -> bool:
    return value == 0


class FileChange(WireModel):
    """A file that the run created, changed or deleted, and how its text differs from before."""

    path: str
    change: Literal["created", "changed", "deleted"]
    diff: Annotated[str | None, Field(exclude_if=_is_none)] = None
    """In the unified format; none of a file that is not text, is too large, or came from a mount."""


class FileChanges(WireModel):
    """The files that differ from those with which the run began, by path."""

    files: tuple[FileChange, ...]
    more: Annotated[int, Field(exclude_if=_is_zero)] = 0
    """How many further files are not named."""
