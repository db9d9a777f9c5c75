from typing import Any

import pytest

from app.executors.claude_agent.options.init_check import BUILT_IN_PLUGINS, UnexpectedCapabilities, check_init

EXPECTED: dict[str, Any] = {
    "tools": ["mcp__runtally__core__calculate"],
    "mcp_servers": [{"name": "runtally", "status": "connected"}],
    "plugins": [{"name": name} for name in BUILT_IN_PLUGINS],
    "slash_commands": ["discovered"],
    "skills": ["discovered"],
    "agents": ["discovered"],
}


def check(init: dict[str, Any]) -> None:
    check_init(init, tools={"mcp__runtally__core__calculate"}, servers={"runtally"})


def test_what_was_asked_is_accepted_and_discoveries_are_tolerated() -> None:
    check(EXPECTED)


@pytest.mark.parametrize(
    "change",
    [
        {"tools": ["mcp__runtally__core__calculate", "Bash"]},
        {"tools": []},
        {"mcp_servers": []},
        {"mcp_servers": [{"name": "runtally"}, {"name": "somebody"}]},
        {"plugins": [{"name": "stranger"}]},
    ],
)
def test_anything_else_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(UnexpectedCapabilities, match=next(iter(change))):
        check({**EXPECTED, **change})
