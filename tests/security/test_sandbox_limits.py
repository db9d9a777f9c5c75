import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from app.executors.claude_agent.sandbox import bubblewrap
from app.executors.claude_agent.sandbox.seccomp import refusing_filter
from app.simulator.script import Answer, ApiRequest, Reply, Text
from app.workspaces.spec import WorkspaceSpec
from tests.e2e.stories import WorldOf, a_request, arguments_of, cli_processes
from tests.e2e.workshop import EDITOR, answered, bash, calling, files, read, settings
from tests.programs import require

MIB = 1024 * 1024
NOBODY = 65_534
SOCKETS = 'python3 -c "import socket, time; x = [socket.socketpair() for _ in range(500)]; time.sleep(30)"'
"""What waits in a socket to be read belongs to no process."""
HOG = """python3 -c "
import ctypes, threading, time
threading.Thread(target=lambda: (bytearray(b'x' * 30_000_000), time.sleep(30))).start()
ctypes.CDLL(None).pthread_exit(None)"
"""
"""Uses memory in a thread, after the first one has ended."""


@pytest.fixture(autouse=True)
def _programs() -> None:
    require("bwrap", "socat", "prlimit")


def the_token() -> str:
    """The token of the only CLI there is, as only its parent can see it."""
    for process in cli_processes():
        for child in [process, *process.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                if token := child.environ().get("ANTHROPIC_API_KEY"):
                    return token
    raise AssertionError


async def test_a_command_finds_neither_the_token_nor_a_path_of_the_server(
    world_of: WorldOf, tmp_path: Path
) -> None:
    shown = (
        "exec > seen 2>&1; env; cat /proc/self/mountinfo /proc/mounts; "
        "cat /proc/[0-9]*/environ | tr '\\0' '\\n'; "
        "for p in /proc/[0-9]*; do ls -l $p/cwd $p/root $p/fd $p/exe; cat $p/mountinfo; done"
    )
    tokens: list[str] = []

    def look(_: ApiRequest) -> Answer:
        tokens.append(the_token())
        return Reply([bash(shown)])

    def search(_: ApiRequest) -> Answer:
        everywhere = f"grep -rIls {tokens[0]} / --exclude-dir=proc --exclude-dir=usr; echo over"
        return Reply([bash(everywhere)])

    def end(_: ApiRequest) -> Answer:
        return Reply([Text("done")])

    answers = iter([look, search, end])

    def model(request: ApiRequest) -> Answer:
        return next(answers)(request)

    world = await world_of(model, **settings(tmp_path))

    events = await world.run(a_request("go", graphId=EDITOR))

    assert events[-1].data["finishReason"] == "stop"
    seen = (await read(world, events[0].data["runId"], "seen")).decode(errors="replace")
    assert "PATH=/usr/local/bin" in seen
    assert "/workspace rw" in seen
    assert tokens[0] not in seen
    assert str(tmp_path) not in seen
    assert answered(world)[1] == '"over"'


async def test_every_place_that_can_be_written_to_is_small_and_says_when_it_is_full(
    world_of: WorldOf, tmp_path: Path
) -> None:
    places = '/workspace /tmp /dev/shm /dev / /etc /agent /run /var "$TMPDIR" "$HOME"'
    fill = (
        f'for d in {places}; do head -c 60000000 /dev/zero > "$d/fill" 2>/tmp/said; '
        '[ ! -e "$d/fill" ] || echo "filled $(stat -c %s "$d/fill") $d"; cat /tmp/said; '
        'rm -f "$d/fill"; done; echo kept > kept'
    )
    limits = "workspace: {max_bytes: 1000000, max_temporary_bytes: 2000000}"
    world = await world_of(calling(bash(fill)), **settings(tmp_path, limits))

    events = await world.run(a_request("go", graphId=EDITOR))

    (answer,) = answered(world)
    sizes = [int(size) for size in re.findall(r"filled (\d+)", answer)]
    assert len(sizes) >= 3
    assert max(sizes) <= 2 * 1_000_000 + 2 * MIB
    assert "No space left on device" in answer
    assert events[-1].data["finishReason"] == "stop"
    assert list(await files(world, events[0].data["runId"])) == ["kept"]


async def test_a_command_that_takes_too_much_memory_fails_and_the_run_goes_on(
    world_of: WorldOf, tmp_path: Path
) -> None:
    hog = bash('python3 -c "bytearray(800 << 20)"')
    # Memory that belongs to no process.
    hidden = bash("python3 -c \"import os; os.memfd_create('x')\"; ipcmk -M 1000000")
    limits = f"workspace: {{max_memory_bytes: {512 * MIB}}}"
    world = await world_of(calling(hog, hidden), **settings(tmp_path, limits))

    events = await world.run(a_request("go", graphId=EDITOR))

    memory, other = answered(world)
    assert "MemoryError" in memory
    assert other.count("Function not implemented") == 2
    assert events[-1].data["finishReason"] == "stop"


@pytest.mark.parametrize(
    ("limit", "command"),
    [
        pytest.param("max_cpu_s: 1", "for i in 1 2 3 4; do (while :; do :; done) & done; wait", id="cpu"),
        pytest.param("max_files: 3", "seq 2000 | xargs touch; sleep 30", id="files"),
        pytest.param(
            f"max_memory_bytes: {512 * MIB}",
            "for i in $(seq 24); do (head -c 30000000 /dev/zero | tail | sleep 30) & done; wait",
            id="memory",
        ),
        pytest.param(
            f"max_memory_bytes: {512 * MIB}",
            f"for i in $(seq 24); do {HOG.strip()} & done; wait",
            id="memory of other threads",
            marks=pytest.mark.long,
        ),
        pytest.param(
            f"max_temporary_bytes: {MIB}",
            "cd /tmp; seq 9000 | xargs touch; sleep 30",
            id="empty files elsewhere",
            marks=pytest.mark.long,
        ),
        pytest.param(
            f"max_memory_bytes: {512 * MIB}",
            f"{SOCKETS} & {SOCKETS} & {SOCKETS}",
            id="sockets",
            marks=pytest.mark.long,
        ),
        pytest.param("max_processes: 16", "for i in $(seq 400); do sleep 4243 & done; wait", id="processes"),
    ],
)
async def test_commands_that_exceed_a_limit_together_end_their_run(
    world_of: WorldOf, tmp_path: Path, limit: str, command: str
) -> None:
    head = f"workspace: {{{limit}}}"
    world = await world_of(calling(bash(command)), **settings(tmp_path, head, "timeout_s: 60"))

    events = await world.run(a_request("go", graphId=EDITOR))

    assert (events[-2].data["error"], events[-1].data["finishReason"]) == ("rate_limit", "budget")
    assert not [found for found in psutil.process_iter() if "sleep 4243" in arguments_of(found)]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory that any user can pass through, as pytest's own are not."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


def test_the_kernel_counts_the_processes_of_a_server_that_is_not_root(folder: Path) -> None:
    spec = WorkspaceSpec(max_processes=16)
    program = folder / "bwrap"
    program.write_text(bubblewrap.command_sandbox(spec))
    program.chmod(0o755)
    (folder / "syscalls").write_bytes(refusing_filter())
    places = [bubblewrap.COMMAND_SANDBOX, bubblewrap.SYSCALL_FILTER]
    arguments = bubblewrap.bubblewrap_arguments(
        cli=Path("/bin/sh"), files=places, config_bytes=spec.size, spec=spec
    )
    user = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups") if not os.geteuid() else ()
    bomb = (
        "import os, time\nn = 0\n"
        "try:\n    while n < 2000:\n        n += 1\n        os.fork() or time.sleep(60)\n"
        "except OSError as error:\n    print(n, error.strerror)\n"
    )
    start = f'exec "$@" {bubblewrap.FIRST_FILE}< {program} {bubblewrap.FIRST_FILE + 1}< {folder}/syscalls'
    inner = ("bwrap", "--unshare-user", "--unshare-pid", "--die-with-parent", "--ro-bind", "/", "/", "--")

    done = subprocess.run(
        [*user, "/bin/sh", "-c", start, "sh", "bwrap", *arguments, "--", *inner, "python3", "-c", bomb],
        env={"PATH": bubblewrap.SANDBOX_PATH},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    number, _, reason = done.stdout.partition(" ")
    assert reason.strip() == "Resource temporarily unavailable", done.stderr
    assert int(number) < 16 + 64 + 2 * (os.cpu_count() or 1)
