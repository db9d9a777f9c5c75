"""The package as people install it: built, installed into an empty environment, and used."""

import asyncio
import os
import re
import sys
import tarfile
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from shutil import which
from sysconfig import get_path

import pytest
from packaging.requirements import Requirement

from app import __version__
from tests.architecture.tree import ROOT, pyproject

pytestmark = pytest.mark.long

_NEEDED = {
    "app": [
        "*.py",
        "*.md",
        "*.yaml",
        "*.html",
        "*.js",
        "*.css",
        "*.svg",
        "*.LICENSE",
        "*.template",
        "py.typed",
    ],
    "runtally": ["*.py", "py.typed"],
    "migrations": ["*.py"],
}

_SHOWN: list[list[str]] = [
    ["simulated", "URL", "API key", "server.log"],
    ["[run_started]", "core__get_current_time", "Asia/Tokyo", "[done]", "Receipts", "final"],
    ["Lisbon, as you have told me."],
    ["needs consent", "! allow", "Table for 2 at 20:00", "Your table is reserved."],
    ["done: stop", "Together: 242 USD"] if which("bwrap") and which("socat") else ["Left out"],
    ["│ → core__get_current_time", "done: stop"],
    ["connection cut after event 10", "Last-Event-ID: 10", "last token."],
    ["kill -9", "attempt 1", "last token."],
    ["wire = receipts", "partial", "every number is the same", "1 was cut off"],
]
"""What each scene of the demo shows; before the first one is the heading."""


async def output_of(*command: str | Path, cwd: Path, path: str = os.defpath) -> str:
    """What a program prints, in an environment that has nothing but a search path; fails if it does."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env={"PATH": path, "HOME": str(cwd)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0, printed.decode()
    return printed.decode()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The source distribution, and the wheel that was built from its contents."""
    directory = tmp_path_factory.mktemp("built")

    async def build() -> tuple[Path, Path]:
        hatchling = (sys.executable, "-m", "hatchling", "build", "--directory", str(directory))
        await output_of(*hatchling, "--target", "sdist", cwd=ROOT)
        (source,) = directory.glob("*.tar.gz")
        with tarfile.open(source) as archive:
            archive.extractall(directory, filter="data")
        (unpacked,) = (entry for entry in directory.iterdir() if entry.is_dir())
        await output_of(*hatchling, "--target", "wheel", cwd=unpacked)
        (wheel,) = directory.glob("*.whl")
        return source, wheel

    return asyncio.run(build())


def test_the_wheel_has_every_file_that_a_server_needs(built: tuple[Path, Path]) -> None:
    source, wheel = built
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
        metadata = archive.read(f"runtally-{__version__}.dist-info/METADATA").decode()
    with tarfile.open(source) as sources:
        sent = sources.getnames()

    here = {
        path.relative_to(ROOT).as_posix()
        for directory, patterns in _NEEDED.items()
        for pattern in patterns
        for path in (ROOT / directory).rglob(pattern)
    }
    assert {re.sub("^migrations/", "app/migrations/", path) for path in here} - packed == set()
    assert {"LICENSE", "NOTICE"} <= {path.rpartition("/licenses/")[2] for path in packed}
    assert f"\nVersion: {__version__}\n" in metadata
    assert not [path for path in sent if re.search(r"^[^/]+/tests/|/(node_modules|\.env)(/|$)", path)]
    assert {path.partition("/")[0] for path in packed} == {
        "app",
        "runtally",
        f"runtally-{__version__}.dist-info",
    }


async def test_an_empty_environment_with_the_wheel_runs_the_demo(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    await output_of(sys.executable, "-m", "venv", "--without-pip", "venv", cwd=tmp_path)
    (packages,) = (tmp_path / "venv" / "lib").glob("*/site-packages")
    install = ("-m", "pip", "--python", "venv", "install", "--quiet", "--no-index", "--no-deps", built[1])
    await output_of(sys.executable, *install, cwd=tmp_path)
    link_declared_dependencies(packages)
    (empty := tmp_path / "empty").mkdir()
    runtally = tmp_path / "venv" / "bin" / "runtally"

    version = await output_of(runtally, "--version", cwd=empty)
    shown = await output_of(runtally, "demo", "--once", "--port", "0", "--svg", "demo.svg", cwd=empty)

    assert version == f"runtally {__version__}\n"
    scenes = re.split(r"^\d  .+ ─+$", shown, flags=re.MULTILINE)
    for words, scene in zip(_SHOWN, scenes, strict=True):
        assert [word for word in words if word not in scene] == [], scene
    assert "≠" not in scenes[-1]
    key = re.search(r"rt_\S{16,}", shown)
    assert key is not None
    picture = (empty / "demo.svg").read_text("utf-8")
    assert "receipts" in picture
    assert key[0] not in picture


def link_declared_dependencies(packages: Path) -> None:
    """Let an environment use the installed copies of what `pyproject.toml` declares, and of nothing else."""
    installed, linked = Path(get_path("purelib")), set[str]()
    waiting = [Requirement(text) for text in pyproject()["project"]["dependencies"]]
    while waiting:
        requirement = waiting.pop()
        if (key := f"{requirement.name} {sorted(requirement.extras)}") in linked:
            continue
        linked.add(key)
        found = distribution(requirement.name)
        for name in {file.parts[0] for file in found.files or []} - {"..", "__pycache__"}:
            if not (packages / name).exists():
                (packages / name).symlink_to(installed / name)
        required = [Requirement(text) for text in found.requires or []]
        waiting += [inner for inner in required if applies(inner, requirement.extras)]


def applies(requirement: Requirement, extras: set[str]) -> bool:
    """Whether a distribution that is installed with these extras has this requirement here."""
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras or {""})
