"""The `runtally` command, which is a part of the server."""

import sys
from importlib.util import find_spec

_OF_SERVER = ("claude_agent_sdk", "cronsim", "fastapi", "typer")
"""What a program that uses the client only does not have all of."""
_INTERRUPTED = 130
"""What shells expect of a program that Ctrl-C has ended."""


def main() -> None:
    """Run the command line; exits with 1 where the server is not installed."""
    if any(find_spec(name) is None for name in _OF_SERVER):
        sys.exit('The command `runtally` needs the server: pip install "runtally[server]"')
    try:
        from app.__main__ import main as run_command
    except KeyboardInterrupt:
        # Importing takes long enough for a Ctrl-C.
        sys.exit(_INTERRUPTED)
    run_command()
