"""Hooks in both modes of the CLI: who is notified, and what the SDK gets."""

from pathlib import Path
from typing import Any, get_args

import structlog
from claude_agent_sdk import ClaudeAgentOptions, SystemMessage
from claude_agent_sdk.types import SyncHookJSONOutput

from app.executors.claude_agent.tools.sdk_hooks import (
    HOOK_TIMEOUT_S,
    HookCall,
    HookName,
    SdkHooks,
    log_hook_call,
)
from tests.factories import a_plan
from tests.unit.executors.claude_agent.fake_cli import FakeCli
from tests.unit.executors.claude_agent.frames import a_result


async def test_an_observer_that_fails_disturbs_no_other() -> None:
    responded: list[str] = []

    async def fails(_call: HookCall) -> None:
        message = "observer is broken"
        raise RuntimeError(message)

    async def records(call: HookCall) -> None:
        responded.append(call.name)

    hooks = SdkHooks([fails, records, fails, records], nothing_against, full=True)

    await hooks.notify(HookCall("PreToolUse", "toolu_1"))

    assert responded == ["PreToolUse", "PreToolUse"]


async def test_the_sdk_is_told_what_is_permitted_before_a_tool_and_nothing_after() -> None:
    denial: SyncHookJSONOutput = {"hookSpecificOutput": {"hookEventName": "PreToolUse"}}

    async def denies(_call: HookCall) -> SyncHookJSONOutput:
        return denial

    sdk = SdkHooks([], denies, full=True).for_sdk(person_s=1)
    details: Any = {"tool_name": "Agent"}
    context: Any = {"signal": None}

    answers = {name: await hooks[0].hooks[0](details, "toolu_1", context) for name, hooks in sdk.items()}

    assert answers.pop("PreToolUse") == denial
    assert set(map(str, answers.values())) == {"{}"}
    # A guard that breaks must not open the door.
    assert sdk["PreToolUse"][0].on_failure == "block"


async def nothing_against(_call: HookCall) -> SyncHookJSONOutput:
    return {}


async def test_of_a_lean_cli_prompts_and_ends_of_turns_are_taken_from_what_it_says() -> None:
    calls: list[str] = []

    async def observe(call: HookCall) -> None:
        calls.append(call.name)

    lean, full = (SdkHooks([observe], nothing_against, full=mode) for mode in (False, True))
    for message in (SystemMessage("init", {}), SystemMessage("status", {}), a_result()):
        await lean.observe(message)
        await full.observe(message)

    assert calls == ["UserPromptSubmit", "Stop"]


async def test_of_a_full_cli_every_hook_is_received(tmp_path: Path) -> None:
    calls: list[tuple[str, str | None, str | None]] = []

    async def observe(call: HookCall) -> None:
        calls.append((call.name, call.tool_call_id, call.tool_name))

    of_run = SdkHooks([observe], nothing_against, full=True)
    hooks = of_run.for_sdk(person_s=1)
    cli = FakeCli()
    client = cli.client(ClaudeAgentOptions(hooks=hooks, cwd=tmp_path))
    await client.connect()
    try:
        # A CLI that warms up has no run, and nobody gets what it does.
        assert await cli.hook("SubagentStop", "toolu_1") == [{}]
        of_run.attach_run(a_plan())
        for name in get_args(HookName):
            assert await cli.hook(name, "toolu_1", tool_name="Bash") == [{}]
    finally:
        await client.disconnect()

    assert calls == [(name, "toolu_1", "Bash") for name in get_args(HookName)]
    assert {"UserPromptSubmit", "Stop", "SubagentStart", "SubagentStop"} <= {name for name, *_ in calls}


async def test_a_call_that_is_denied_counts_as_failed_for_observers() -> None:
    calls: list[str] = []

    async def observe(call: HookCall) -> None:
        calls.append(call.name)

    async def deny(_call: HookCall) -> SyncHookJSONOutput:
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}}

    hooks = SdkHooks([observe], deny, full=True)
    hooks.attach_run(a_plan())
    sdk = hooks.for_sdk(person_s=1)
    details: Any = {"tool_name": "Bash"}
    context: Any = {"signal": None}
    await sdk["PreToolUse"][0].hooks[0](details, "toolu_1", context)

    assert calls == ["PreToolUse", "PostToolUseFailure"]


def test_a_hook_may_take_as_long_as_the_person_who_decides() -> None:
    sdk = SdkHooks([], nothing_against, full=True).for_sdk(person_s=100)

    assert {matcher.timeout for matchers in sdk.values() for matcher in matchers} == {HOOK_TIMEOUT_S + 100}


async def test_arguments_are_not_logged() -> None:
    with structlog.testing.capture_logs() as logs:
        await log_hook_call(HookCall("PreToolUse", "toolu_1", "Bash", {"tool_input": {"command": "secret"}}))
        await log_hook_call(HookCall("Stop"))

    assert [entry["hook"] for entry in logs] == ["PreToolUse"]
    assert "secret" not in str(logs)
