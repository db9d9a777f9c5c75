"""Runs Node programs with the npm packages of clients."""

import asyncio
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO

import pytest
from filelock import FileLock

from tests.programs import require

HERE = Path(__file__).parent
_CLIENT = HERE.parents[1] / "clients" / "typescript"
_TIMEOUT_S = 300.0
"""For a program that hangs. One with 16 chats takes 12 s, and on a busy machine ten times as long."""


def install(directory: Path = HERE) -> Path:
    """Install the packages that the directory has a lock of, unless they are there; returns where they are.

    Skips the test where Node is missing.
    """
    require("node", "npm")
    lock, packages = directory / "package-lock.json", directory / "node_modules"
    installed = packages / ".package-lock.json"
    with FileLock(directory / ".installing"):
        if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
            command = [_path("npm"), "ci", "--loglevel=error"]
            subprocess.run(command, cwd=directory, check=True, capture_output=True)
            installed.touch()
    return packages


async def node(
    program: str,
    *arguments: str,
    given: str = "",
    variables: Mapping[str, str] | None = None,
    runtime: Path | None = None,
    statuses: Collection[int] = (0,),
) -> str:
    """Run a program with this standard input and environment; returns its output.

    Without a `runtime` it is the Node of this machine, with the packages of this directory. Fails the test
    with the program's output if it ends with another status or takes too long.
    """
    if runtime is None:
        await asyncio.to_thread(install)
    with TemporaryFile() as output, TemporaryFile() as errors:
        process = await asyncio.create_subprocess_exec(
            *(runtime or _path("node"), program, *arguments),
            cwd=HERE,
            env={"PATH": os.environ["PATH"], **(variables or {})},
            stdin=asyncio.subprocess.PIPE,
            stdout=output,
            stderr=errors,
        )
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                await process.communicate(given.encode())
        except TimeoutError:
            process.kill()
            await process.wait()
            pytest.fail(f"{program} takes longer than {_TIMEOUT_S:.0f} s: {_text(errors)}{_text(output)}")
        assert process.returncode in statuses, f"{program}: {_text(errors)}{_text(output)}"
        return _text(output)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


async def compile_typescript(
    directory: Path, *programs: str, document: str | None = None, check_only: bool = False
) -> None:
    """Compile strictly; `api.ts` has the types of this OpenAPI document."""
    (directory / "package.json").write_text('{"type": "module"}')
    packages = await asyncio.to_thread(install)
    (directory / "node_modules").symlink_to(packages)
    if document is not None:
        (directory / "openapi.json").write_text(document)
        types = [str(directory / "openapi.json"), "--output", str(directory / "api.ts")]
        await node(str(packages / "openapi-typescript/bin/cli.js"), *types, "--default-non-nullable", "false")
    options = ["--strict", "--module", "nodenext", "--target", "es2022", "--skipLibCheck", "--types", "node"]
    paths = [str(directory / program) for program in programs]
    await node(str(packages / "typescript/bin/tsc"), *options, *paths, *(["--noEmit"] if check_only else []))


def _packed_client() -> bytes:
    """The package of the TypeScript client, as it would be published; packed once for all processes."""
    parts = [_CLIENT / name for name in ("package.json", "tsconfig.json", "README.md")]
    sources = [*parts, *sorted((_CLIENT / "src").iterdir())]
    state = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    packages = install()
    packed = packages / f".runtally-client-{state[:16]}.tgz"
    with FileLock(HERE / ".installing"):
        if not packed.exists():
            for earlier in packages.glob(".runtally-client-*.tgz"):
                earlier.unlink()
            _pack(parts, packed)
    return packed.read_bytes()


def _pack(parts: Sequence[Path], target: Path) -> None:
    compiler = target.parent / "typescript/bin/tsc"
    with TemporaryDirectory() as name:
        source = Path(name)
        for part in parts:
            shutil.copy(part, source)
        shutil.copytree(_CLIENT / "src", source / "src")
        for command in (
            [_path("node"), str(compiler), "--project", name],
            [_path("npm"), "pack", "--ignore-scripts", "--silent"],
        ):
            done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
        shutil.move(next(source.glob("*.tgz")), target)


def install_client(directory: Path) -> None:
    """Install the TypeScript client for the programs in this directory and below it."""
    target = directory / "node_modules" / "@runtally"
    target.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(_packed_client())) as package:
        package.extractall(target, filter="data")
    (target / "package").rename(target / "client")


def _path(program: str) -> str:
    found = shutil.which(program)
    assert found is not None
    return found
