import os
import socket
from pathlib import Path
from typing import Any

import pytest

from app.workspaces.mounts import CopyBudget, MountCopy, WorkspaceTooLarge
from app.workspaces.spec import HostPathRefused, Mount, WorkspaceSpec


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Something to mount, inside the only allowed root."""
    source = tmp_path / "root" / "source"
    (source / "sub").mkdir(parents=True)
    (source / "a.txt").write_text("aaa")
    (source / "sub" / "b.sh").write_text("bbb")
    (source / "sub" / "b.sh").chmod(0o755)
    return source


def copied(tmp_path: Path, source: Path, *, spec: WorkspaceSpec | None = None, **mount: Any) -> list[str]:
    """Copy a mount to `w`; returns the files that are there then."""
    workspace = tmp_path / "w"
    workspace.mkdir()
    budget = CopyBudget.of_workspace(spec or WorkspaceSpec())
    laid = MountCopy(Mount(host_path=source, **mount), [tmp_path / "root"], budget).into(workspace)
    there = sorted(str(path.relative_to(workspace)) for path in workspace.rglob("*") if not path.is_dir())
    assert sorted(laid) == there
    return there


def test_a_directory_is_copied_under_its_name(tmp_path: Path, source: Path) -> None:
    assert copied(tmp_path, source) == ["source/a.txt", "source/sub/b.sh"]
    assert (tmp_path / "w" / "source" / "a.txt").stat().st_mode & 0o777 == 0o600
    assert os.access(tmp_path / "w" / "source" / "sub" / "b.sh", os.X_OK)


def test_a_single_file_is_copied_to_its_target(tmp_path: Path, source: Path) -> None:
    assert copied(tmp_path, source / "a.txt", mount_path="in/c.txt") == ["in/c.txt"]


def test_links_are_skipped_unless_follow_symlinks_is_set(tmp_path: Path, source: Path) -> None:
    (source / "link").symlink_to("a.txt")
    (source / "dir").symlink_to("sub")

    assert copied(tmp_path, source, mount_path="m") == ["m/a.txt", "m/sub/b.sh"]


def test_followed_links_lead_to_files_inside_the_roots_only(tmp_path: Path, source: Path) -> None:
    (tmp_path / "secret").write_text("no")
    (tmp_path / "root" / "other").mkdir()
    (tmp_path / "root" / "other" / "c").write_text("yes")
    (source / "out").symlink_to(tmp_path / "secret")
    (source / "up").symlink_to(tmp_path)
    (source / "link").symlink_to("a.txt")
    (source / "other").symlink_to(tmp_path / "root" / "other")
    (source / "loop").symlink_to(source)
    (source / "gone").symlink_to("nowhere")

    found = copied(tmp_path, source, mount_path="m", follow_symlinks=True)

    assert found == ["m/a.txt", "m/link", "m/other/c", "m/sub/b.sh"]


def test_only_plain_files_with_one_hard_link_are_copied(tmp_path: Path, source: Path) -> None:
    os.mkfifo(source / "pipe")
    (tmp_path / "secret").write_text("no")
    os.link(tmp_path / "secret", source / "hard")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(source / "socket"))

        assert copied(tmp_path, source, mount_path="m") == ["m/a.txt", "m/sub/b.sh"]


def test_a_mount_moved_outside_the_roots_after_startup_is_refused(tmp_path: Path, source: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret").write_text("no")
    source.rename(tmp_path / "root" / "old")
    source.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(HostPathRefused):
        copied(tmp_path, source)


@pytest.mark.parametrize(
    ("spec", "mount"),
    [
        (WorkspaceSpec(max_bytes=5), {}),
        (WorkspaceSpec(max_files=1), {}),
        (WorkspaceSpec(), {"max_bytes": 5}),
    ],
    ids=["bytes of the workspace", "files of the workspace", "bytes of the mount"],
)
def test_more_files_or_bytes_than_the_budget_are_refused(
    tmp_path: Path, source: Path, spec: WorkspaceSpec, mount: dict[str, Any]
) -> None:
    with pytest.raises(WorkspaceTooLarge):
        copied(tmp_path, source, spec=spec, **mount)


def test_excluded_files_do_not_count(tmp_path: Path, source: Path) -> None:
    (source / "big").write_bytes(b"x" * 100)

    assert copied(tmp_path, source, mount_path="m", max_bytes=6, exclude_glob=("big",)) == [
        "m/a.txt",
        "m/sub/b.sh",
    ]
