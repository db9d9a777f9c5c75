from pathlib import Path

import pytest
from pydantic import ValidationError

from app.workspaces.spec import HostPathRefused, Mount, WorkspaceSpec, matches, resolve_host_path


@pytest.mark.parametrize(
    ("path", "glob", "matched"),
    [
        ("a.pyc", "*.pyc", True),
        ("deep/down/a.pyc", "*.pyc", True),
        ("src/a.py", "src/*", True),
        ("src/deep/a.py", "src/*", False),
        ("src/deep/a.py", "src/**", True),
        ("src/a.py", "**/a.py", True),
        ("a.py", "**/a.py", True),
        ("x/__pycache__/a", "**/__pycache__/**", True),
        ("a.py", "?.py", True),
        ("ab.py", "?.py", False),
        ("a+b.txt", "a+b.txt", True),
        ("axb.txt", "a.b.txt", False),
    ],
)
def test_a_pattern_matches_names_or_whole_paths(path: str, glob: str, *, matched: bool) -> None:
    assert matches(path, glob) is matched


def test_what_is_excluded_is_not_included() -> None:
    mount = Mount(host_path=Path("/x"), include_glob=("*.py",), exclude_glob=("test_*",))

    assert [mount.includes(path) for path in ("a.py", "b.txt", "d/test_a.py")] == [True, False, False]


@pytest.mark.parametrize("place", ["/abs", "../up", "a/../b", "a//b", ".", "a\\b", "a\nb", "x" * 256])
def test_the_target_of_a_mount_is_inside_the_workspace(place: str) -> None:
    with pytest.raises(ValidationError):
        Mount(host_path=Path("/x"), mount_path=place)


def test_a_mount_is_named_by_an_absolute_path() -> None:
    with pytest.raises(ValidationError, match="must be absolute"):
        Mount(host_path=Path("relative"))
    with pytest.raises(ValidationError, match="needs a mount_path"):
        WorkspaceSpec(mounts=(Mount(host_path=Path("/")),))


def test_two_mounts_cannot_have_the_same_target() -> None:
    with pytest.raises(ValidationError, match="same mount_path"):
        WorkspaceSpec(mounts=(Mount(host_path=Path("/a/x")), Mount(host_path=Path("/b/x"))))


def test_a_host_path_is_checked_after_resolving_links(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (inside / "link").symlink_to(outside)

    assert resolve_host_path(inside, [inside]) == inside
    for path in (outside, inside / "link", inside / ".." / "out", tmp_path):
        with pytest.raises(HostPathRefused, match="RUNTALLY_ALLOWED_HOST_ROOTS"):
            resolve_host_path(path, [inside])
    with pytest.raises(HostPathRefused, match="does not exist"):
        resolve_host_path(inside / "none", [inside])
    with pytest.raises(HostPathRefused):
        resolve_host_path(inside, [])


def test_a_root_does_not_contain_a_sibling_with_the_same_prefix(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "database").mkdir()

    with pytest.raises(HostPathRefused):
        resolve_host_path(tmp_path / "database", [tmp_path / "data"])
