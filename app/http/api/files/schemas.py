"""JSON of a run's files."""

import mimetypes
from collections.abc import Sequence
from typing import Any, Self

from app.http.response_model import Moment, ResponseModel
from app.workspaces.records import FileOrigin, StoredFile, WorkspaceListing

_UNKNOWN = "application/octet-stream"


class RunFileResponse(ResponseModel):
    """A file; `mediaType` is guessed from its name."""

    path: str
    bytes: int
    sha256: str
    media_type: str
    origin: FileOrigin

    @classmethod
    def of(cls, file: StoredFile) -> "RunFileResponse":
        guess, encoding = mimetypes.guess_type(file.path)
        media_type = guess if guess is not None and encoding is None else _UNKNOWN
        return cls.built_from(file, media_type=media_type)


class FileListing(ResponseModel):
    """A run's files, by path.

    `complete`: the run has ended, and the files it left are included. `truncated`: it left more files than
    are kept.
    """

    items: Sequence[RunFileResponse]
    complete: bool
    truncated: bool
    expires_at: Moment | None

    @classmethod
    def of(cls, listing: WorkspaceListing, **more: Any) -> Self:
        return cls(
            **more,
            items=[RunFileResponse.of(file) for file in listing.files],
            complete=listing.outputs_collected,
            truncated=listing.truncated,
            expires_at=listing.expires_at if listing.outputs_collected else None,
        )


class ConversationFiles(FileListing):
    """The files with which a conversation's next turn begins: those that the run `runId` has left."""

    run_id: str | None
