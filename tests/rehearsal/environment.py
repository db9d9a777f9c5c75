"""A virtual environment with what is locked, and with candidates in place of their pins."""

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements.lock"
_PIN = re.compile(r"(?P<name>[a-z0-9._-]+)==")


def without_candidates(lock: str, candidates: Sequence[Requirement]) -> str:
    """The lock without the pins, and their hashes, that candidates replace; pure."""
    replaced = {canonicalize_name(candidate.name) for candidate in candidates}
    kept, keeps = [], True
    for line in lock.splitlines(keepends=True):
        if pin := _PIN.match(line):
            keeps = canonicalize_name(pin["name"]) not in replaced
        if keeps:
            kept.append(line)
    return "".join(kept)


def build(directory: Path, candidates: Sequence[Requirement]) -> Path:
    """Install into this directory, which is emptied before; returns the path of its Python.

    A candidate may need other versions than the locked ones: those are changed, and are facts like any other.
    """
    venv.create(directory, clear=True, with_pip=True)
    python = directory / "bin" / "python"
    locked = directory / "without-candidates.lock"
    locked.write_text(without_candidates(LOCK.read_text("utf-8"), candidates), encoding="utf-8")
    _install(python, "--require-hashes", "--requirement", str(locked))
    _install(python, *map(str, candidates))
    # The project itself: its metadata names the pins, and its entry points are used by tests.
    _run([python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--editable", ROOT])
    return python


def _install(python: Path, *arguments: str) -> None:
    """With uv where there is one, because it is faster."""
    if uv := shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"):
        _run([uv, "pip", "install", "--quiet", "--python", python, *arguments])
    else:
        options = ["--quiet", "--disable-pip-version-check", "--no-compile"]
        _run([python, "-m", "pip", "install", *options, *arguments])


def _run(command: Sequence[str | Path]) -> None:
    subprocess.run(command, cwd=ROOT, check=True)
