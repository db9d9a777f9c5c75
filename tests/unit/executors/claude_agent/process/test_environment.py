import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

from app.executors.claude_agent.process.environment import cli_environment, launcher
from app.models.registry import ModelOptions

RUN = Path("/somewhere/run-1")


def environment(**options: Any) -> dict[str, str]:
    return cli_environment(
        token="sk-x", base_url="http://api", directory=RUN, longest_tool_s=30, options=ModelOptions(**options)
    )


def test_the_environment_is_the_same_wherever_the_server_runs() -> None:
    assert environment() == environment()
    assert {"HOME", "TMPDIR", "CLAUDE_CONFIG_DIR", "PWD"} <= set(environment())
    assert all(environment()[name].startswith(str(RUN)) for name in ("HOME", "TMPDIR", "PWD"))


def test_how_the_model_is_asked_stands_where_the_cli_looks_for_it() -> None:
    assert environment()["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "32000"
    assert environment(max_output_tokens=500)["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "500"
    assert environment()["CLAUDE_CODE_DISABLE_THINKING"] == "1"
    for thinking in ("adaptive", 2048):
        assert "CLAUDE_CODE_DISABLE_THINKING" not in environment(thinking=thinking)


def test_our_tool_timeout_answers_before_the_clis() -> None:
    assert int(environment()["MCP_TOOL_TIMEOUT"]) > 30_000


def test_the_launcher_starts_from_nothing_and_quotes_every_value() -> None:
    hostile = "a'b $(touch /tmp/x) `id` \n c"

    text = launcher(Path("/opt/cla ude"), {"KEY": hostile}, pid_file=RUN / "pid")

    first, *rest = text.split("\n", 1)
    assert first == "#!/usr/bin/env -iS /bin/sh"
    assert f"export KEY={shlex.quote(hostile)}\n" in rest[0]
    assert rest[0].rstrip().endswith("'/opt/cla ude' \"$@\"")


def test_a_cli_comes_behind_the_server_where_processors_are_scarce(tmp_path: Path) -> None:
    cli, script = tmp_path / "cli", tmp_path / "launcher"
    cli.write_text("#!/bin/sh\nexec nice\n")
    script.write_text(launcher(cli, {"PATH": os.environ["PATH"]}, pid_file=tmp_path / "pid"))
    for program in (cli, script):
        program.chmod(0o700)

    finished = subprocess.run([script], check=True, capture_output=True, text=True)

    assert int(finished.stdout) == min(19, os.nice(0) + 4)
