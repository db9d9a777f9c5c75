import asyncio
import json
from contextlib import suppress
from pathlib import Path

import psutil

from app.platform.settings import withdraw_secrets
from app.simulator.server import Simulator
from tests.e2e.servers import OF_ITS_OWN, a_server
from tests.e2e.stories import KEY, a_request
from tests.e2e.workshop import EDITOR, bash, calling, settings
from tests.programs import require

SECRETS = {
    "ANTHROPIC_API_KEY": "sk-of-the-operator",
    "ANTHROPIC_ADMIN_API_KEY": "admin-key-of-the-operator",
    "RUNTALLY_MCP_SECRETS": json.dumps({"TOKEN": "secret-of-an-mcp-server"}),
    "AWS_SECRET_ACCESS_KEY": "secret-of-another-program",
}
WORDS = (
    "sk-of-the-operator",
    "admin-key-of-the-operator",
    "secret-of-an-mcp-server",
    "secret-of-another-program",
    KEY,
)


def shown_by(process: psutil.Process, server: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        shown, command = process.environ(), process.cmdline()
        # Until it becomes another program, a new process is the server's own memory.
        return "" if command == server.cmdline() else f"{shown} {command}"
    return ""


async def test_no_process_that_a_server_starts_has_its_secrets(tmp_path: Path) -> None:
    require("bwrap", "socat")
    own = {name: str(value) for name, value in settings(tmp_path).items()}
    names: set[str] = set()
    leaks: set[str] = set()
    async with (
        Simulator(calling(bash("sleep 1"))) as simulator,
        a_server(
            tmp_path,
            simulator.url,
            within=OF_ITS_OWN,
            ANTHROPIC_ADMIN_BASE_URL=simulator.url,
            **own,
            **SECRETS,
        ) as (server, http),
    ):
        running = asyncio.create_task(http.post("/v1/runs/wait", json=a_request("go", graphId=EDITOR)))
        while not running.done():
            for process in server.children(recursive=True):
                shown = shown_by(process, server)
                with suppress(psutil.NoSuchProcess):
                    names.add(process.name())
                    leaks |= {f"{process.name()}: {word}" for word in WORDS if word in shown}
            await asyncio.sleep(0.05)

    assert (await running).json()["content"] == "done"
    assert {"postgres", "claude"} <= names
    assert any("python" in name for name in names)
    assert leaks == set()


def test_settings_with_secrets_are_taken_from_the_environment_once_they_are_read() -> None:
    others = {"PATH": "/bin", "RUNTALLY_MARKUP": "2", "AWS_SECRET_ACCESS_KEY": "for a tool"}
    secret = [
        *("ANTHROPIC_API_KEY", "DATABASE_URL", "REDIS_URL", "RUNTALLY_BOOTSTRAP_KEY", "RUNTALLY_MCP_SECRETS"),
    ]
    environ = {**others, **dict.fromkeys(secret, "x"), "anthropic_api_key": "sk-x"}

    withdraw_secrets(environ)

    assert environ == others
