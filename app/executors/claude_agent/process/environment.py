"""The CLI's whole environment, built from nothing.

The SDK merges `options.env` over the server's own environment, so passing `env` alone would hand
every database URL and cloud key to the CLI. The launcher below starts the CLI under `env -i`
instead: what is not named here does not exist there.
"""

import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from claude_agent_sdk import __version__ as sdk_version

from app.executors.claude_agent.process.provider_variables import chooses_provider
from app.executors.claude_agent.programs import PROGRAM_PATH
from app.models.registry import ModelOptions

_FIXED = {
    "PATH": PROGRAM_PATH,
    "LANG": "C.UTF-8",
    # What the SDK would have set; the CLI changes its protocol by them.
    "CLAUDE_CODE_ENTRYPOINT": "sdk-py",
    "CLAUDE_AGENT_SDK_VERSION": sdk_version,
    "CLAUDE_CODE_SDK_READS_SESSION_STATE": "1",
    # Nothing but the Messages API is ever called.
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
    "NO_PROXY": "127.0.0.1,localhost",
    # Calls that no SDK message shows cannot be billed: switch off every one that can be.
    "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
    "CLAUDE_CODE_DISABLE_REFUSAL_RETRY": "1",
    "CLAUDE_CODE_DISABLE_REFUSAL_FALLBACK": "1",
    "CLAUDE_CODE_DISABLE_LEGACY_MODEL_REMAP": "1",
    "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS": "1",
    # The prompt is the request's and the graph's, nothing added.
    "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
    "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
    # Fail in seconds, not in the CLI's default of three minutes.
    "CLAUDE_CODE_MAX_RETRIES": "2",
    "API_TIMEOUT_MS": "60000",
    "CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS": "30000",
}

_WITHOUT_SUMMARIES = {"DISABLE_COMPACT": "1"}

_TOOL_GRACE_S = 5
"""The CLI's own tool timeout comes after ours, so that ours is the one that answers."""

_NICENESS = 10


@dataclass(frozen=True, slots=True)
class Login:
    """Where the machine's own Claude Code login is kept."""

    named: Path | None
    """The configuration directory an operator named; None for the usual place in the home."""
    home: Path | None
    """The user's own; None for a login that stands in the named directory alone."""

    @classmethod
    def of(cls, named: Path | None) -> "Login":
        """The login in this directory, else that of the user we run as."""
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
    asked: ModelOptions,
    compacts: bool = False,
) -> dict[str, str]:
    """Every variable the CLI gets. `directory` is the run's own and holds all it writes.

    `base_url` is the run's lane through the gateway and `token` is worth something there only:
    the provider's key never comes near the CLI. `asked` is how the model is to be asked, as far as
    the SDK has no option for it. `compacts`: a conversation may outgrow the model's context; what
    was said is then summed up, by a call that only the gateway sees.
    """
    return {
        **_own(directory, longest_tool_s, asked),
        **({} if compacts else _WITHOUT_SUMMARIES),
        "ANTHROPIC_API_KEY": token,
        "ANTHROPIC_BASE_URL": base_url,
    }


def login_environment(
    login: Login,
    *,
    directory: Path,
    longest_tool_s: float = 0,
    asked: ModelOptions | None = None,
) -> dict[str, str]:
    """Every variable of a CLI that uses the machine's own login: nothing else may choose a provider."""
    found = {
        **_own(directory, longest_tool_s, asked or ModelOptions()),
        **_WITHOUT_SUMMARIES,
        "HOME": str(login.home or directory / "home"),
    }
    if login.named is None:
        # Named, even by its usual place, the CLI would look for the login in other places.
        del found["CLAUDE_CONFIG_DIR"]
    else:
        found["CLAUDE_CONFIG_DIR"] = str(login.named)
    return {name: value for name, value in found.items() if not chooses_provider(name)}


def _own(directory: Path, longest_tool_s: float, asked: ModelOptions) -> dict[str, str]:
    # Told by option alone not to think, the CLI lets newer models think all the same.
    thoughtless = {"CLAUDE_CODE_DISABLE_THINKING": "1"} if asked.thinking == "disabled" else {}
    return {
        **_FIXED,
        **thoughtless,
        "HOME": str(directory / "home"),
        "TMPDIR": str(directory / "tmp"),
        "CLAUDE_CONFIG_DIR": str(directory / "config"),
        "PWD": str(directory / "work"),
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(asked.max_output_tokens),
        "MCP_TOOL_TIMEOUT": str(round((longest_tool_s + _TOOL_GRACE_S) * 1000)),
    }


def launcher(
    cli: Path,
    environment: Mapping[str, str],
    *,
    pid_file: Path,
    jailed_by: Sequence[Path] = (),
    group: Path | None = None,
) -> str:
    """A program that becomes the CLI with exactly this environment.

    The values stand in the file, not in an argument list, because any user of the machine can
    read another process's arguments. It notes its process id, which the CLI keeps, so that a
    hung CLI can be killed. Where the system can, it is told to die with the server: nobody would
    read on, or bill, what it still generates. The server comes first where there is more to do than
    processors to do it: it answers everybody, a CLI one run. `jailed_by` is for a CLI
    that is to see nothing else: a file of bubblewrap's arguments, which inside could read on a command
    line, and the files it is given. `group` is where a process joins a control group.
    """
    nice, setpriv = shutil.which("nice"), shutil.which("setpriv")
    behind_us = [nice, "-n", str(_NICENESS)] if nice else []
    dies_with_us = [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
    jailed = ["bwrap", "--args", "3", "--"] if jailed_by else []
    given = "".join(f" {number}< {shlex.quote(str(path))}" for number, path in enumerate(jailed_by, 3))
    exports = [f"export {name}={shlex.quote(value)}" for name, value in sorted(environment.items())]
    return "\n".join(
        [
            "#!/usr/bin/env -iS /bin/sh",
            f"echo $$ > {shlex.quote(str(pid_file))}",
            *([] if group is None else [f"echo 0 > {shlex.quote(str(group))} || exit 1"]),
            *exports,
            f'exec {shlex.join([*behind_us, *dies_with_us, *jailed, str(cli)])} "$@"{given}',
            "",
        ],
    )
