"""What clients are told of the files that a run has left; pure."""

from collections.abc import Sequence

from app.events import FilesChanged, RunWarning
from app.workspaces.records import CollectedFiles
from app.workspaces.workspace import Workspace

_MOST_NAMES = 20


def _not_kept(message: str, names: Sequence[str] = ()) -> RunWarning:
    return RunWarning(code="files_not_kept", message=message, names=list(names))


FILES_LOST = _not_kept("The files of this run could not be stored.")
_EXPIRED = _not_kept("The files of earlier runs have expired: this run has begun without them.")
_TOO_MUCH = (
    "There are more files or bytes than the workspace may keep: "
    "the next run begins with the files that this one began with."
)


def events_of(outputs: CollectedFiles, workspace: Workspace) -> list[FilesChanged | RunWarning]:
    """The changes, and warnings if the files are not those of the turn before, or of the next one."""
    changes = outputs.changes
    changed = [FilesChanged(files=changes.files, more=changes.more)] if changes.files else []
    expired = [_EXPIRED] if workspace.has_expired else []
    is_too_much = workspace.keeps and outputs.exceeds
    too_much = [_not_kept(_TOO_MUCH, outputs.left_out[:_MOST_NAMES])] if is_too_much else []
    return [*changed, *expired, *too_much]
