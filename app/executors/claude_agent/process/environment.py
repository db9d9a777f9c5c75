"""The CLI's complete environment, and the launcher that starts it with nothing else.

The SDK merges `options.env` over the server's own environment, so passing `env` alone would hand
every database URL and cloud key to the CLI. The launcher below starts the CLI under `env -i`
instead: a variable that is not listed here does not exist there.
"""

import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from claude_agent_sdk import __version__ as sdk_version

from app.executors.claude_agent.process.provider_variables import chooses_provider
from app.executors.claude_agent.programs import LONGEST_TIMER_S, PROGRAM_PATH
from app.executors.claude_agent.sandbox.port import Wrapping
from app.models.registry import ModelOptions

_FIXED = {
    "PATH": PROGRAM_PATH,
    "LANG": "C.UTF-8",
    # The SDK would set these; the CLI chooses its protocol by them.
    "CLAUDE_CODE_ENTRYPOINT": "sdk-py",
    "CLAUDE_AGENT_SDK_VERSION": sdk_version,
    "CLAUDE_CODE_SDK_READS_SESSION_STATE": "1",
    # No requests but those to the Messages API.
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
    "NO_PROXY": "127.0.0.1,localhost",
    # Switch off calls that no SDK message shows, as far as the CLI allows.
    "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
    "CLAUDE_CODE_DISABLE_REFUSAL_RETRY": "1",
    "CLAUDE_CODE_DISABLE_REFUSAL_FALLBACK": "1",
    "CLAUDE_CODE_DISABLE_LEGACY_MODEL_REMAP": "1",
    # Nothing is added to the prompt of the request and the graph.
    "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
    "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS": "1",
    # Whether a prompt is too long is decided by the provider, which counts its tokens.
    "CLAUDE_CODE_BLOCKING_LIMIT_OVERRIDE": "1000000000",
    # Fail in seconds, not in the CLI's default of three minutes.
    "CLAUDE_CODE_MAX_RETRIES": "2",
    "API_TIMEOUT_MS": "60000",
    "CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS": "30000",
}

_WITHOUT_SUMMARIES = {"DISABLE_COMPACT": "1"}

GOES_ON = {"CLAUDE_CODE_RESUME_INTERRUPTED_TURN": "1"}
"""For a CLI whose transcript ends in the middle of a turn: it goes on with it as soon as it has started."""


_TOOL_GRACE_S = 5
"""The CLI's own tool timeout is longer than ours, so that ours takes effect first."""

_NICENESS = 4
"""Enough for the server to come first; with more, other programs of the machine would take a CLI's turn."""

CacheTtl: TypeAlias = Literal["5m", "1h"]
"""How long the provider keeps a prompt in its cache."""


@dataclass(frozen=True, slots=True)
class Login:
    """Where the machine's own Claude Code login is stored."""

    named: Path | None
    """The configuration directory the operator configured; None for the default one in the home."""
    home: Path | None
    """The user's home; None if the login is in the configured directory alone."""

    @classmethod
    def of(cls, named: Path | None) -> "Login":
        """The login in this directory, or that of the server's user."""
        return cls(named.absolute(), None) if named is not None else cls(None, Path.home())

    @property
    def config(self) -> Path:
        """Where the CLI keeps its files."""
        return self.named or (self.home or Path()) / ".claude"


def cli_environment(
    *,
    token: str,
    base_url: str,
    directory: Path,
    longest_tool_s: float,
    options: ModelOptions,
    compacts: bool = False,
    prompt_cache_ttl: CacheTtl = "5m",
) -> dict[str, str]:
    """Every variable the CLI gets. `directory` is the run's own and holds everything the CLI writes.

    `base_url` is the run's channel in the gateway and `token` is valid there only: the CLI never gets
    the provider's key. `options` are the model options for which the SDK has no option. `compacts`: a
    conversation that outgrows the model's context is summarized, by a call that only the gateway sees.
    """
    return {
        **_common(directory, longest_tool_s, options),
        **({} if compacts else _WITHOUT_SUMMARIES),
        "CLAUDE_CODE_PROMPT_CACHE_TTL": prompt_cache_ttl,
        "ANTHROPIC_API_KEY": token,
        "ANTHROPIC_BASE_URL": base_url,
    }


def login_environment(
    login: Login,
    *,
    directory: Path,
    longest_tool_s: float = 0,
    options: ModelOptions | None = None,
) -> dict[str, str]:
    """Every variable of a CLI that uses the machine's own login; none of them chooses a provider."""
    found = {
        **_common(directory, longest_tool_s, options or ModelOptions()),
        **_WITHOUT_SUMMARIES,
        "HOME": str(login.home or directory / "home"),
    }
    if login.named is None:
        # If the variable is set, even to the default directory, the CLI looks for the login elsewhere.
        del found["CLAUDE_CONFIG_DIR"]
    else:
        found["CLAUDE_CONFIG_DIR"] = str(login.named)
    return {name: value for name, value in found.items() if not chooses_provider(name)}


def _common(directory: Path, longest_tool_s: float, options: ModelOptions) -> dict[str, str]:
    # With the SDK option alone, newer models still think.
    no_thinking = {"CLAUDE_CODE_DISABLE_THINKING": "1"} if options.thinking == "disabled" else {}
    # Task budgets are one of them, and the CLI sends none or all.
    no_betas = {"CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS": "1"} if options.task_budget is None else {}
    return {
        **_FIXED,
        **no_thinking,
        **no_betas,
        "HOME": str(directory / "home"),
        "TMPDIR": str(directory / "tmp"),
        "CLAUDE_CONFIG_DIR": str(directory / "config"),
        "PWD": str(directory / "work"),
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(options.max_output_tokens),
        "MCP_TOOL_TIMEOUT": str(round(min(longest_tool_s + _TOOL_GRACE_S, LONGEST_TIMER_S) * 1000)),
    }


def launcher(
    cli: Path,
    environment: Mapping[str, str],
    *,
    pid_file: Path,
    wrapping: Wrapping | None = None,
) -> str:
    """A shell program that becomes the CLI with exactly this environment.

    The values are in the file, not in an argument list, because every user of the machine can read
    another process's arguments. It writes its process id, which the CLI keeps, so that a hung CLI can be
    killed. Where the system supports it, the CLI is killed when the server dies, because its usage could
    not be billed any more. It has a lower priority than the server. `wrapping` is for a CLI in a sandbox.
    """
    if wrapping is None:
        wrapping = Wrapping(cli=cli, command=(), environment={}, files=(), group=None)
    environment = {**environment, **wrapping.environment}
    nice, setpriv = shutil.which("nice"), shutil.which("setpriv")
    low_priority = [nice, "-n", str(_NICENESS)] if nice else []
    killed_with_server = [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
    descriptors = "".join(
        f" {number}< {shlex.quote(str(path))}" for number, path in enumerate(wrapping.files, 3)
    )
    exports = [f"export {name}={shlex.quote(value)}" for name, value in sorted(environment.items())]
    command = shlex.join([*low_priority, *killed_with_server, *wrapping.command, str(wrapping.cli)])
    return "\n".join(
        [
            "#!/usr/bin/env -iS /bin/sh",
            f"echo $$ > {shlex.quote(str(pid_file))}",
            *([] if wrapping.group is None else [f"echo 0 > {shlex.quote(str(wrapping.group))} || exit 1"]),
            *exports,
            f'exec {command} "$@"{descriptors}',
            "",
        ],
    )
