import re
import sys
import tomllib
from pathlib import Path

import pytest

from app.tools.extensions.loading import Extensions
from runtally.tools.hooks import SessionResult, ToolCall
from tests.unit.tools.calling import CONTEXT
from tests.unit.tools.extensions.packages import install

PAGE = Path(__file__).parents[4] / "docs" / "TOOLS.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


async def test_the_example_is_a_package_with_hooks_and_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = (block for block in blocks("python") if "Hooks" in block)
    (project,) = (tomllib.loads(block) for block in blocks("toml"))
    points = project["project"]["entry-points"]
    (tmp_path / "acme_audit.py").write_text(code)
    groups = {group.removeprefix("runtally."): named for group, named in points.items()}
    install(tmp_path, monkeypatch, **groups)
    monkeypatch.delitem(sys.modules, "acme_audit", raising=False)
    monkeypatch.setenv(f"GITHUB_OF_{CONTEXT.run.account_id.hex}", "ghp_A1b2C3d4E5f6")
    call = ToolCall(tool_call_id="t", tool_name="m", arguments={}, effect="external_side_effect")
    extensions = Extensions.load()

    denials = [await extensions.hooks.before_tool(CONTEXT, call) for _ in range(4)]
    result = SessionResult(ok=True, finish_reason="stop", error=None, content="")
    await extensions.hooks.session_end(CONTEXT, result)

    assert denials == [None, None, None, "This run has sent enough."]
    assert await extensions.hooks.before_tool(CONTEXT, call) is None
    token = await extensions.credentials(CONTEXT, "m").get("github")
    assert token.get_secret_value() == "ghp_A1b2C3d4E5f6"
