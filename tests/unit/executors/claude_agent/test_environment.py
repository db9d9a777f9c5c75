import shlex
from pathlib import Path

from app.executors.claude_agent.environment import cli_environment, launcher

RUN = Path("/somewhere/run-1")


def environment() -> dict[str, str]:
    return cli_environment(token="sk-x", base_url="http://api", directory=RUN, longest_tool_s=30)


def test_the_environment_is_the_same_wherever_the_server_runs() -> None:
    assert environment() == environment()
    assert {"HOME", "TMPDIR", "CLAUDE_CONFIG_DIR", "PWD"} <= set(environment())
    assert all(environment()[name].startswith(str(RUN)) for name in ("HOME", "TMPDIR", "PWD"))


def test_our_tool_timeout_answers_before_the_clis() -> None:
    assert int(environment()["MCP_TOOL_TIMEOUT"]) > 30_000


def test_the_launcher_starts_from_nothing_and_quotes_every_value() -> None:
    hostile = "a'b $(touch /tmp/x) `id` \n c"

    text = launcher(Path("/opt/cla ude"), {"KEY": hostile}, pid_file=RUN / "pid")

    first, *rest = text.split("\n", 1)
    assert first == "#!/usr/bin/env -iS /bin/sh"
    assert f"export KEY={shlex.quote(hostile)}\n" in rest[0]
    assert rest[0].rstrip().endswith("'/opt/cla ude' \"$@\"")
