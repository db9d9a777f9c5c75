"""The frontends' npm packages and the pages that are built of them."""

import hashlib
import shutil
import subprocess
from pathlib import Path

from filelock import FileLock

from tests.programs import require

HERE = Path(__file__).parent
_LOCK = HERE / "package-lock.json"
PACKAGES = HERE / "node_modules"
_INSTALLED = PACKAGES / ".package-lock.json"


def built_pages() -> Path:
    """Install the locked packages and build the pages, unless both are there; returns the pages' directory.

    Skips the test where Node is missing.
    """
    require("node", "npm")
    with FileLock(HERE / ".installing"):
        _install()
        target = PACKAGES / f".pages-{_state()}"
        if not target.exists():
            for earlier in PACKAGES.glob(".pages-*"):
                shutil.rmtree(earlier)
            unfinished = PACKAGES / ".unfinished-pages"
            _run("node", "build.mjs", str(unfinished))
            unfinished.rename(target)
    return target


def installed_packages() -> Path:
    """Install the locked packages, unless they are there; returns their directory."""
    require("node", "npm")
    with FileLock(HERE / ".installing"):
        _install()
    return PACKAGES


def _install() -> None:
    if not _INSTALLED.exists() or _INSTALLED.stat().st_mtime < _LOCK.stat().st_mtime:
        _run("npm", "ci", "--loglevel=error")
        _remove_source_maps()
        _INSTALLED.touch()


def _state() -> str:
    sources = [HERE / "build.mjs", _LOCK, *sorted((HERE / "pages").iterdir())]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]


def _remove_source_maps() -> None:
    """A third of what is installed."""
    for path in PACKAGES.rglob("*.map"):
        path.unlink()


def _run(*command: str) -> None:
    program = shutil.which(command[0])
    assert program is not None
    done = subprocess.run([program, *command[1:]], cwd=HERE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
