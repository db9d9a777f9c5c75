"""The CLI that comes with the SDK's wheel."""

from pathlib import Path

import claude_agent_sdk


class CliMissing(Exception):
    """The installed claude-agent-sdk brings no CLI; on musl-based systems its wheels have none."""


def bundled_cli() -> Path:
    """Where the CLI is; only the one the SDK was tested with is ever run."""
    path = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
    if not path.is_file():
        raise CliMissing((CliMissing.__doc__ or "").strip())
    return path
