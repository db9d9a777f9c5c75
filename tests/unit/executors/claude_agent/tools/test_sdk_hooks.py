from typing import Any

from claude_agent_sdk.types import SyncHookJSONOutput

from app.executors.claude_agent.tools.sdk_hooks import HookCall, SdkHooks


async def test_an_observer_that_fails_disturbs_no_other() -> None:
    responded: list[str] = []

    async def fails(_call: HookCall) -> None:
        message = "observer is broken"
        raise RuntimeError(message)

    async def hears(call: HookCall) -> None:
        responded.append(call.name)

    hooks = SdkHooks([fails, hears, fails, hears], nothing_against, full=True)

    await hooks.notify(HookCall("PreToolUse", "toolu_1"))

    assert responded == ["PreToolUse", "PreToolUse"]


async def test_only_of_a_lean_cli_moments_are_told_by_others() -> None:
    responded: list[tuple[str, str]] = []

    async def hears(call: HookCall) -> None:
        responded.append((call.name, call.tool_call_id or ""))

    for full in (True, False):
        hooks = SdkHooks([hears], nothing_against, full=full)
        await hooks.notify_in_lean_mode(HookCall("PreToolUse", f"full: {full}"))

    assert responded == [("PreToolUse", "full: False")]


async def test_the_sdk_is_told_what_is_permitted_before_a_tool_and_nothing_after() -> None:
    denial: SyncHookJSONOutput = {"hookSpecificOutput": {"hookEventName": "PreToolUse"}}

    async def denies(_call: HookCall) -> SyncHookJSONOutput:
        return denial

    sdk = SdkHooks([], denies, full=True).for_sdk(approval_timeout_s=1)
    details: Any = {"tool_name": "Agent"}
    context: Any = {"signal": None}

    answers = {name: await hooks[0].hooks[0](details, "toolu_1", context) for name, hooks in sdk.items()}

    assert answers.pop("PreToolUse") == denial
    assert set(map(str, answers.values())) == {"{}"}
    # A guard that breaks must not open the door.
    assert sdk["PreToolUse"][0].on_failure == "block"


async def nothing_against(_call: HookCall) -> SyncHookJSONOutput:
    return {}
