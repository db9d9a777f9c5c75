"""Files of other tools: what is added to them, and what stays."""

import json
from pathlib import Path

import pytest

from app.cli.connections.tools import TOOLS, NotMerged, ToolFile, ToolName, telemetry_of_claude_code

URL, KEY, OTHER = "https://r.example.org", "rt_one", "rt_two"


def written(path: Path, name: ToolName, key: str = KEY) -> str:
    tool = TOOLS[name]
    ToolFile.open(path, tool).add(tool.settings(URL, key))
    return path.read_text()


@pytest.mark.parametrize("name", TOOLS)
def test_a_new_file_has_what_is_shown_and_only_its_owner_reads_it(name: ToolName, tmp_path: Path) -> None:
    tool, path = TOOLS[name], tmp_path / "new" / "file"

    assert written(path, name).strip() == tool.shown(tool.settings(URL, KEY))
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["file"]


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize("mode", [0o640, 0o400])
def test_a_file_that_a_link_names_is_changed_and_only_its_owner_reads_it(
    name: ToolName, mode: int, tmp_path: Path
) -> None:
    path, named = tmp_path / "home" / "file", tmp_path / "dotfiles" / "file"
    for each in (path, named):
        each.parent.mkdir()
    path.symlink_to(named)
    written(path, name)
    named.chmod(mode)

    written(path, name, OTHER)

    assert path.is_symlink()
    assert OTHER in named.read_text()
    assert named.stat().st_mode & 0o777 == mode & 0o600
    assert [each.name for each in (*path.parent.iterdir(), *named.parent.iterdir())] == ["file", "file"]


@pytest.mark.parametrize("name", [ToolName.CURSOR, ToolName.CLAUDE_DESKTOP])
def test_other_servers_stay_and_the_own_one_is_replaced(name: ToolName, tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{"theme": "dark", "mcpServers": {"mine": {"command": "x"}, "runtally": {"url": "old"}}}')
    written(path, name)

    found = json.loads(written(path, name, OTHER))

    assert (found["theme"], found["mcpServers"]["mine"]) == ("dark", {"command": "x"})
    assert set(found["mcpServers"]) == {"mine", "runtally"}
    assert OTHER in json.dumps(found)
    assert KEY not in json.dumps(found)


def test_variables_of_telemetry_are_added_to_the_others_of_claude_code(tmp_path: Path) -> None:
    tool, path = TOOLS[ToolName.CLAUDE_CODE], tmp_path / "settings.json"
    path.write_text('{"env": {"OTEL_METRIC_EXPORT_INTERVAL": "5000"}}')
    settings = tool.settings(URL, KEY)
    settings["env"].update(telemetry_of_claude_code(URL, KEY))

    ToolFile.open(path, tool).add(settings)

    found = json.loads(path.read_text())["env"]
    assert found["OTEL_METRIC_EXPORT_INTERVAL"] == "5000"
    assert found["ANTHROPIC_BASE_URL"] == found["OTEL_EXPORTER_OTLP_ENDPOINT"] == f"{URL}/anthropic"


def test_other_variables_and_comments_stay(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("# mine\nPORT=3000\nOPENAI_API_KEY=old\n")

    assert written(path, ToolName.OPEN_WEBUI) == (
        f"# mine\nPORT=3000\nOPENAI_API_KEY={KEY}\nOPENAI_API_BASE_URL={URL}/openai/v1\n"
    )


def test_other_credentials_stay(tmp_path: Path) -> None:
    path = tmp_path / "credentials.json"
    path.write_text('[{"id": "mine"}, {"id": "runtally", "data": "old"}]')

    assert [each["id"] for each in json.loads(written(path, ToolName.N8N))] == ["mine", "runtally"]
    assert "old" not in path.read_text()


@pytest.mark.parametrize(
    ("text", "problem"),
    [("{,", "is not JSON"), ('["a"]', "form of this tool"), ("[" * 100_000, "is not JSON")],
)
def test_a_file_that_cannot_be_read_is_named_and_stays(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(text)

    with pytest.raises(NotMerged, match=problem) as refused:
        ToolFile.open(path, TOOLS[ToolName.CURSOR])

    assert str(path) in str(refused.value)
    assert path.read_text() == text


def test_a_directory_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(NotMerged, match="cannot be read or written"):
        ToolFile.open(tmp_path / "file" / "mcp.json", TOOLS[ToolName.CURSOR])


@pytest.mark.parametrize(
    ("platform", "folder"),
    [("linux", ".config"), ("darwin", "Library/Application Support"), ("win32", "AppData/Roaming")],
)
def test_the_file_of_claude_desktop_is_where_its_platform_has_it(platform: str, folder: str) -> None:
    path = TOOLS[ToolName.CLAUDE_DESKTOP].path(Path("/home/ann"), platform)

    assert path == Path("/home/ann") / folder / "Claude" / "claude_desktop_config.json"
