"""Faults of the tools that clients execute."""

from tests.mutants.mutant import Mutant

_CALLS = "app/executors/client_calls.py"
_TOOLS = "app/executors/tools"
_ABANDONMENT = "app/runs/abandonment"
_ABANDONED = ("tests/integration/test_abandoned_runs.py",)
_STARTER = ("tests/unit/executors/claude_agent/test_starter.py",)
_AI_SDK = ("tests/unit/http/ai_sdk/test_client_tools.py",)
_AG_UI = ("tests/unit/http/ag_ui/test_client_tools.py",)

CLIENT_TOOLS = (
    Mutant(
        "a message that waits for its client is left for itself",
        f"{_ABANDONMENT}/repository.py",
        "later.turn > waiting.turn",
        "later.turn >= waiting.turn",
        _ABANDONED,
    ),
    Mutant(
        "a run that was started natively is left for a chat's message",
        f"{_ABANDONMENT}/repository.py",
        "WHERE message_id IS NOT NULL AND EXISTS",
        "WHERE EXISTS",
        _ABANDONED,
    ),
    Mutant(
        "a chat's run is left for one that was started natively",
        f"{_ABANDONMENT}/repository.py",
        "\n              AND later.message_id IS NOT NULL)",
        ")",
        _ABANDONED,
    ),
    Mutant(
        "a run is left for a message that has ended",
        f"{_ABANDONMENT}/repository.py",
        " AND later.status IN ('queued', 'running')",
        "",
        _ABANDONED,
    ),
    Mutant(
        "runs are not left for messages that other processes have accepted",
        f"{_ABANDONMENT}/service.py",
        "first_of(self._due.wait(), timeout_s=_EVERY_S)",
        "self._due.wait()",
        ("tests/e2e/test_a_client_brings_tools.py",),
    ),
    Mutant(
        "a run is left before its readers see its call",
        _CALLS,
        "call.published.done() and not call.result.done()",
        "not call.result.done()",
    ),
    Mutant(
        "a different result of a client is accepted",
        _CALLS,
        "elif call.digest != digest:",
        "elif call.digest is None:",
    ),
    Mutant(
        "a long result of a client is not cut off",
        _CALLS,
        "if len(encoded) <= MAX_RESULT_BYTES:",
        "if len(encoded) <= 9 * MAX_RESULT_BYTES:",
    ),
    Mutant(
        "a call of a client tool is sent before its message is complete",
        f"{_TOOLS}/calls.py",
        "await asyncio.wait_for(self._message_end.wait(), _MESSAGE_END_S)",
        "await asyncio.sleep(0)",
    ),
    Mutant(
        "the arguments of a client tool are not checked",
        "app/tools/argument_check.py",
        "    if mismatch is not None:\n",
        "    if mismatch is not None and False:\n",
        ("tests/unit/executors/tools/test_calls.py",),
    ),
    Mutant(
        "a client tool may have the id of one of the graph",
        "app/requests/client_tools.py",
        '_PREFIX: Final = "client-"',
        '_PREFIX: Final = ""',
    ),
    Mutant(
        "a graph takes tools whose names begin as its pattern",
        "app/graphs/spec.py",
        "re.fullmatch(rule.names, name)",
        "re.match(rule.names, name)",
        ("tests/unit/requests/test_client_tools.py",),
    ),
    Mutant(
        "a kept process is given a run with other tools",
        "app/executors/claude_agent/launching/started_cli.py",
        "            tools=bridge.descriptions,\n",
        "            tools=[],\n",
        _STARTER,
    ),
    Mutant(
        "a chat of the AI SDK gets its own results again",
        "app/http/ai_sdk/mapper.py",
        "if event.tool_call_id in self.answered:",
        "if event.tool_call_id not in self._open and False:",
        _AI_SDK,
    ),
    Mutant(
        "a client tool's call is in one step with an unfinished one of ours",
        "app/http/ai_sdk/mapper.py",
        "        if self._client_step != self._step and self._open:\n",
        "        if self._open and False:\n",
        _AI_SDK,
    ),
    Mutant(
        "a client of AG-UI gets its own results again",
        "app/http/ag_ui/output/mapper.py",
        "if not ended.is_known:",
        "if True:",
        _AG_UI,
    ),
    Mutant(
        "calls that an AG-UI client has posted are sent again",
        "app/http/ag_ui/continuing.py",
        "shown=posted.call_ids",
        "shown=()",
        ("tests/e2e/test_an_ag_ui_client_asks.py",),
    ),
    Mutant(
        "calls of an earlier attempt still wait for an AG-UI client",
        "app/http/ag_ui/output/mapper.py",
        "            self._client_calls.forget()\n",
        "",
        _AG_UI,
    ),
    Mutant(
        "a result that comes with the next message is lost",
        "app/http/ag_ui/segment.py",
        "    await services.client_tools.answer_left(caller, message.chat, posted.left_tool_results)\n",
        "",
        ("tests/e2e/test_a_client_brings_tools.py",),
    ),
)
