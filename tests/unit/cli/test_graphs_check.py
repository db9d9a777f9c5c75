"""`runtally graphs check`: what an operator sees of rules before a model meets them."""

from pathlib import Path

import pytest

from app.cli.graphs.check import ExampleCall, check_call, check_graphs
from app.cli.terminal import Terminal
from app.errors import AppError
from app.graphs.file import GraphDefinitionError
from app.platform.settings import Settings

MAIL = "claude_agents:mail"
HEAD = """description: Answers mail.
tools: [core__calculate]
native_tools: [Read, Write, Bash]
mcp_servers: {lib: {command: x, tools: {search: read_only}}}
client_tools: {names: "pick_.*"}
agents: {helper: {description: d, prompt: p}}
permission_mode: acceptEdits
rules:
  - {tool: Bash, when: "args.command.contains('rm')", do: deny, message: Nothing is removed., stop: true}
  - {tool: "*", when: "account.id == 'acme' && run.conversation == 'chat'", do: deny}
  - {tool: Write, when: "args.file_path == 'a/b'", do: ask}
  - {tool: "lib__*", when: "args.query == 1", do: allow}
  - {tool: Agent, do: ask}
approve: [Bash, "pick_*"]"""


def settings(directory: Path, head: str = HEAD) -> Settings:
    (directory / "mail.md").write_text(f"---\n{head}\n---\nYou answer mail.\n")
    return Settings.model_validate({"RUNTALLY_GRAPHS_DIR": directory})


async def shown(directory: Path, tool: str, args: str = "{}", **more: str) -> list[str]:
    console = Terminal(record=True, width=200, highlight=False)
    call = ExampleCall(MAIL, tool, args, more.get("account", ""), more.get("conversation", ""))
    await check_call(settings(directory), console, call)
    return console.export_text().splitlines()


@pytest.mark.parametrize(
    ("tool", "args", "rule", "outcome"),
    [
        ("Bash", '{"command": "rm x"}', "rules.0: deny Bash when args.command.contains('rm')", "denied"),
        ("Bash", '{"command": "ls"}', "approve.0: ask Bash", "waits for a person"),
        ("Bash", '{"command": 7}', "a condition has no answer for this call: it is denied", "denied"),
        ("Write", '{"file_path": "/workspace/./a//b"}', "rules.2: ask Write when", "called"),
        ("Read", '{"file_path": "a"}', "no rule: the call is allowed", "called"),
        ("core__calculate", '{"expression": "1"}', "no rule: the call is allowed", "called"),
        ("lib__search", '{"query": 1}', "rules.3: allow lib__*", "called"),
        ("Agent", "{}", "rules.4: ask Agent", "waits for a person"),
        ("pick_date", "{}", "approve.1: ask pick_*", "waits for a person"),
    ],
)
async def test_the_rule_that_meets_a_call_is_shown(
    tmp_path: Path, tool: str, args: str, rule: str, outcome: str
) -> None:
    first, second = await shown(tmp_path, tool, args)
    assert first.startswith(rule)
    assert second == f"In the mode acceptEdits: {outcome}"


async def test_account_and_conversation_of_the_call_may_be_given(tmp_path: Path) -> None:
    first, _ = await shown(tmp_path, "Read", '{"file_path": "a"}', account="acme", conversation="chat")
    assert first.startswith("rules.1: deny *")


async def test_what_no_rule_can_allow_is_named(tmp_path: Path) -> None:
    (line,) = await shown(tmp_path, "Read", '{"file_path": "../a"}')
    assert line.startswith("denied, whatever the rules are")


@pytest.mark.parametrize(
    ("tool", "args", "problem"),
    [
        ("Raed", "{}", "has no tool 'Raed'; did you mean Read?"),
        ("show_date", "{}", "has no tool 'show_date'"),
        ("Bash", "{", "are not JSON"),
        ("Bash", "[]", "must be a JSON object"),
        ("core__calculate", '{"too": 1}', "args.expression"),
    ],
)
async def test_a_call_that_cannot_be_is_refused(tmp_path: Path, tool: str, args: str, problem: str) -> None:
    with pytest.raises(AppError) as refused:
        await shown(tmp_path, tool, args)
    assert problem in refused.value.detail


async def test_graphs_that_do_not_load_are_named_and_the_others_listed(tmp_path: Path) -> None:
    console = Terminal(record=True, width=200, highlight=False)
    assert check_graphs(settings(tmp_path), console, None)
    assert check_graphs(settings(tmp_path), console, MAIL)
    assert (
        "rules.0: deny Bash when args.command.contains('rm'), ends the run: Nothing" in console.export_text()
    )

    broken = settings(tmp_path, HEAD.replace("args.command.", "args.comand."))
    assert not check_graphs(broken, console, MAIL)
    assert "graph file mail.md: rules.0.when: there is no args.comand" in console.export_text()
    with pytest.raises(GraphDefinitionError):
        await check_call(broken, console, ExampleCall(MAIL, "Read", "{}", "", ""))
