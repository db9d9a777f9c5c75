"""The CLI's settings for its own sandbox of commands, which is inside ours; pure."""

import json
from typing import Final

from app.executors.claude_agent.tools.builtin_tools import WORKSPACE

SHOWN: Final = ("/etc/alternatives", "/etc/ssl/certs")
"""What commands see besides the workspace and the programs."""


def sandbox_settings() -> str:
    """The CLI's settings for its command sandbox: no network, only the workspace and the programs.

    The SDK's own `sandbox` option would replace the key, and has no settings for files.
    """
    sandbox = {
        "enabled": True,
        "failIfUnavailable": True,
        "autoAllowBashIfSandboxed": True,
        "allowUnsandboxedCommands": False,
        # Means only that it uses the outer sandbox's /proc, which shows the sandbox's own processes,
        # because a nested sandbox cannot mount a new one.
        "enableWeakerNestedSandbox": True,
        "network": {"allowedDomains": []},
        "filesystem": {
            "denyRead": ["/"],
            "allowRead": [WORKSPACE, "/usr", "/bin", "/lib", "/lib64", *SHOWN],
        },
    }
    return json.dumps({"sandbox": sandbox})
