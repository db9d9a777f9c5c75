"""The package as people install it: built, installed into an empty environment, and used."""

import asyncio
import io
import os
import re
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from hashlib import sha256
from importlib.metadata import distribution
from pathlib import Path
from shutil import which
from sysconfig import get_path

import pytest
from packaging.requirements import Requirement

from app import __version__
from app.http.api.guide.pages import guide_pages
from app.http.api.pages.joined import without_comments
from app.http.openapi.document import examples
from app.simulator.script import Reply, Text
from tests.architecture.tree import ROOT, pyproject
from tests.clients.quick_starts import programs
from tests.e2e.stories import KEY, WorldOf

pytestmark = pytest.mark.long

_NEEDED = {
    "app": [
        "*.py",
        "*.md",
        "*.yaml",
        "*.html",
        "*.svg",
        "*.avif",
        "*.gz",
        "*.template",
    ],
    "runtally": ["*.py", "py.typed"],
    "migrations": ["*.py"],
}

_DECLARED = pyproject()["project"]
_MOST_BYTES_OF_CLIENT = 15_000_000

_SHOWN: list[list[str]] = [
    ["simulated", "URL", "API key", "server.log"],
    ["attempt 0", "→ core__get_current_time", "Asia/Tokyo", "done: stop", "Receipts", "final"],
    ["Lisbon, as you have told me."],
    ["needs consent", "! allow", "Table for 2 at 20:00", "Your table is reserved."],
    ["done: stop", "Together: 242 USD"] if which("bwrap") and which("socat") else ["Left out"],
    ["│ → core__get_current_time", "done: stop"],
    ["connection cut after event 10", "Last-Event-ID: 10", "last token."],
    ["kill -9", "attempt 1", "last token."],
    ["wire = receipts", "partial", "every number is the same", "1 was cut off"],
]
"""What each scene of the demo shows; before the first one is the heading."""

_TEST_OF_A_TOOL = """
import asyncio
from runtally.testing import call_tool
from shipping import quote
print(asyncio.run(call_tool(quote, country="FR", weight_kg=2)).markdown)
"""

_PAGES = """
import asyncio
import gzip
from hashlib import sha256
from app.http.api.guide.pages import guide_pages
from app.http.api.pages.routes import files
from app.http.openapi.document import examples
print([len(page.text) for page in guide_pages().values()])
print(len(examples()))
for path in ("shell.js", "languages/de.ftl"):
    got = asyncio.run(files.get_response(path, {"method": "GET", "headers": []}))
    print(got.media_type, got.headers["content-encoding"], sha256(gzip.decompress(got.body)).hexdigest())
"""
"""What an installed server has of the guide and of the API's examples, and where it finds a script."""


def _pages() -> str:
    web = ROOT / "app" / "web"
    script, words = (
        sha256(text.encode()).hexdigest()
        for text in (without_comments((web / "shell.js").read_text()), (web / "languages/de.ftl").read_text())
    )
    texts = [len(page.text) for page in guide_pages().values()]
    return f"{texts}\n{len(examples())}\ntext/javascript gzip {script}\ntext/plain gzip {words}\n"


async def output_of(
    *command: str | Path, cwd: Path, variables: Mapping[str, str] | None = None, exit_code: int = 0
) -> str:
    """What a program prints, in an environment that has nothing but a search path and these variables."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env={"PATH": os.defpath, "HOME": str(cwd), **(variables or {})},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    assert process.returncode == exit_code, printed.decode()
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
        with tarfile.open(fileobj=io.BytesIO(archive.read("app/texts.tar.bz2"))) as inner:
            archived = set(inner.getnames())
    with tarfile.open(source) as sources:
        sent = sources.getnames()

    here = {
        path.relative_to(ROOT).as_posix()
        for directory, patterns in _NEEDED.items()
        for pattern in patterns
        for path in (ROOT / directory).rglob(pattern)
    }
    texts = {".env.example", "app/http/openapi/examples.yaml"}
    texts |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "app/web/vendor").glob("*.LICENSE")}
    texts |= {"app/web/vendor/README.md"}
    texts |= {f"docs/{name or 'README'}.md" for name in guide_pages().keys() - {"settings"}}
    for kind in ("js", "css", "ftl"):
        texts |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "app/web").rglob(f"*.{kind}")}
    needed = {re.sub("^migrations/", "app/migrations/", path) for path in here}
    assert needed - packed - texts == set()
    assert texts - archived == set()
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
    server = _DECLARED["dependencies"] + _DECLARED["optional-dependencies"]["server"]
    await install(built[1], server, tmp_path)
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
    assert await output_of(tmp_path / "venv" / "bin" / "python", "-c", _PAGES, cwd=empty) == _pages()
    picture = (empty / "demo.svg").read_text("utf-8")
    assert "receipts" in picture
    assert key[0] not in picture


async def test_the_client_is_small_and_needs_nothing_of_the_server(
    built: tuple[Path, Path], world_of: WorldOf, tmp_path: Path
) -> None:
    packages = await install(built[1], _DECLARED["dependencies"], tmp_path)
    world = await world_of(lambda _request: Reply([Text("Paris.")]))
    (_, quick_start), *_ = programs("QUICKSTART_PYTHON.md", "python")
    (tmp_path / "quick_start.py").write_text(quick_start)
    template = ROOT / "app" / "cli" / "project" / "templates" / "tools" / "shipping.py.template"
    (tmp_path / "shipping.py").write_text(template.read_text("utf-8"))
    (tmp_path / "author.py").write_text(_TEST_OF_A_TOOL)
    binaries = tmp_path / "venv" / "bin"
    there = {"RUNTALLY_URL": world.url, "RUNTALLY_API_KEY": KEY}

    answered = await output_of(binaries / "python", "quick_start.py", cwd=tmp_path, variables=there)
    quoted = await output_of(binaries / "python", "author.py", cwd=tmp_path)
    refused = await output_of(binaries / "runtally", "serve", cwd=tmp_path, exit_code=1)

    assert answered.split("\n") == ["Paris.", "ended: stop", ""]
    assert quoted == "2 kg to FR cost 10.40 USD\n"
    assert refused == 'The command `runtally` needs the server: pip install "runtally[server]"\n'
    assert bytes_of(packages) <= _MOST_BYTES_OF_CLIENT


async def install(wheel: Path, requirements: list[str], directory: Path) -> Path:
    """Install the wheel into the environment `venv`, where nothing else is but these requirements.

    Returns the directory of the packages.
    """
    await output_of(sys.executable, "-m", "venv", "--without-pip", "venv", cwd=directory)
    (packages,) = (directory / "venv" / "lib").glob("*/site-packages")
    pip = (sys.executable, "-m", "pip", "--python", "venv", "install", "--quiet", "--no-compile")
    await output_of(*pip, "--no-index", "--no-deps", wheel, cwd=directory)
    link(requirements, packages)
    return packages


def bytes_of(packages: Path) -> int:
    """The size of all files as they are unpacked."""
    files = (file for entry in packages.iterdir() for file in [entry, *entry.resolve().rglob("*")])
    return sum(file.stat().st_size for file in files if file.is_file() and file.suffix != ".pyc")


def link(requirements: list[str], packages: Path) -> None:
    """Let an environment use the installed copies of these requirements, and of nothing else."""
    installed, linked = Path(get_path("purelib")), set[str]()
    waiting = [Requirement(text) for text in requirements]
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
