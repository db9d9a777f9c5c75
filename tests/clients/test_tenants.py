"""docs/TENANTS.md, followed step by step."""

import pytest
from anyio import to_thread

from app.simulator.script import in_turn
from tests.clients.quick_starts import programs
from tests.e2e.stories import KEY, WorldOf

PROGRAMS = programs("TENANTS.md", "python")


def printed(program: str, key: str) -> list[str]:
    """The lines that a program prints; `KEY` in it is the tenant's."""
    lines: list[str] = []

    def note(*values: object) -> None:
        lines.append(" ".join(map(str, values)))

    exec(program, {"KEY": key, "print": note})  # noqa: S102 - of our own document
    return lines


async def test_a_tenant_is_created_restricted_and_suspended(
    world_of: WorldOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await world_of(in_turn())
    monkeypatch.setenv("RUNTALLY_URL", world.url)
    monkeypatch.setenv("RUNTALLY_API_KEY", KEY)

    shown: dict[str, list[str]] = {}
    for title, program in PROGRAMS:
        key = shown.get("Create a tenant", [""])[0]
        shown[title] = await to_thread.run_sync(printed, program, key)

    assert list(shown) == [
        *("Create a tenant", "Let the tenant make its keys", "Label the runs of a key"),
        *("Limit what it spends", "Keep less", "Replace a key"),
        *("Suspend a tenant", "Read what was done"),
    ]
    assert shown["Create a tenant"][0].startswith("rt_")
    assert shown["Let the tenant make its keys"][0].endswith("['messages:assistant'] 2")
    assert shown["Label the runs of a key"] == ["end_user='ann' tags={'team': 'search'} fixed=True"]
    assert [line.split()[:2] for line in shown["Limit what it spends"]] == [
        ["cap", "50.0000000000"],
        ["per-user", "0.5000000000"],
    ]
    assert shown["Keep less"] == ["7"]
    assert shown["Replace a key"] == ["['messages:assistant']"]
    assert shown["Read what was done"] == [
        *("account.resumed", "account.suspended", "key.revoked", "key.rotated"),
        *("account.retention_set", "budget.set", "budget.set", "key.created", "key.created"),
        *("key.created", "account.created"),
    ]
