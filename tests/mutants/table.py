"""The planted faults."""

from tests.mutants.acceptance import ACCEPTANCE
from tests.mutants.branches import BRANCHES
from tests.mutants.chain import CHAIN
from tests.mutants.client import CLIENT
from tests.mutants.client_tools import CLIENT_TOOLS
from tests.mutants.commands import COMMANDS
from tests.mutants.dispatch import DISPATCH
from tests.mutants.event_log import EVENT_LOG
from tests.mutants.fences import FENCES
from tests.mutants.fleet import FLEET
from tests.mutants.gateway import GATEWAY
from tests.mutants.inputs import INPUTS
from tests.mutants.logs import LOGS
from tests.mutants.metrics import METRICS
from tests.mutants.mutant import Mutant
from tests.mutants.receipts import RECEIPTS
from tests.mutants.reconciliation import RECONCILIATION
from tests.mutants.schedules import SCHEDULES
from tests.mutants.schema import SCHEMA
from tests.mutants.stopping import STOPPING
from tests.mutants.telemetry import TELEMETRY
from tests.mutants.times import TIMES
from tests.mutants.tool_servers import TOOL_SERVERS
from tests.mutants.wires import WIRES

WORKER = ("tests/integration/test_run_worker.py",)
SUPERVISOR = ("tests/integration/test_run_supervisor.py",)
CONVERSATIONS = ("tests/integration/test_conversation_turns.py",)
"""Fast tests that need PostgreSQL."""


_CLAUDE = "app/executors/claude_agent"
_EXECUTOR = ("tests/unit/executors/claude_agent/test_executor.py",)

MUTANTS = (
    *ACCEPTANCE,
    *BRANCHES,
    *CHAIN,
    *CLIENT,
    *CLIENT_TOOLS,
    *COMMANDS,
    *DISPATCH,
    *EVENT_LOG,
    *FENCES,
    *FLEET,
    *GATEWAY,
    *INPUTS,
    *LOGS,
    *METRICS,
    *RECEIPTS,
    *RECONCILIATION,
    *SCHEDULES,
    *SCHEMA,
    *STOPPING,
    *TELEMETRY,
    *TIMES,
    *TOOL_SERVERS,
    *WIRES,
    # Faults that the tests of an earlier version did not find.
    Mutant(
        "two events of a run are appended at once",
        "app/runs/events/publisher.py",
        "async with self._publish_lock:\n            is_held",
        "if True:\n            is_held",
    ),
    Mutant(
        "the deadline does not end the CLI",
        f"{_CLAUDE}/watchdog.py",
        "await asyncio.gather(self._process.stop(), self._control.acknowledge())",
        "await self._control.acknowledge()",
    ),
    Mutant(
        "the model gets no description of tools",
        f"{_CLAUDE}/tools/mcp_bridge.py",
        "description=tool.description,",
        'description="",',
        _EXECUTOR,
    ),
    Mutant(
        "UserPromptSubmit is not observed",
        f"{_CLAUDE}/tools/sdk_hooks.py",
        'await self.notify_in_lean_mode(HookCall("UserPromptSubmit"))',
        "return",
    ),
    Mutant(
        "Stop is not observed",
        f"{_CLAUDE}/tools/sdk_hooks.py",
        'await self.notify_in_lean_mode(HookCall("Stop"))',
        "return",
    ),
    Mutant(
        "the SDK gets no hooks for subagents",
        f"{_CLAUDE}/tools/sdk_hooks.py",
        "for name in get_args(HookName)\n",
        'for name in get_args(HookName)\n            if not name.startswith("Subagent")\n',
    ),
    Mutant(
        "tools are called after deadline or budget",
        "app/executors/tools/calls.py",
        'return None if limit is None else _DENIAL_REASONS.get(limit, "This run is over.")',
        "return None",
    ),
    Mutant(
        "the init message of the CLI is not checked",
        f"{_CLAUDE}/run_stream.py",
        "check_init(init, tools=self._expected_tools(), servers=self._expected_servers())",
        "pass",
        _EXECUTOR,
    ),
    Mutant("the CLI may load skills", f"{_CLAUDE}/options/sdk_options.py", "        skills=[],\n", ""),
    Mutant(
        "the CLI gets a plugin",
        f"{_CLAUDE}/options/sdk_options.py",
        "        plugins=[],\n",
        '        plugins=[{"type": "local", "path": "/tmp"}],\n',
    ),
    Mutant(
        "messages to a running agent are missing from the history",
        "app/conversations/sdk_transcript.py",
        '"type": "queued_command", "prompt": content',
        '"type": "none", "prompt": content',
    ),
    # Others.
    Mutant(
        "usage is not recorded",
        "app/runs/events/output.py",
        "self._receipts.record(fact)",
        "pass",
    ),
    Mutant(
        "output beyond the limit is published",
        "app/runs/events/output.py",
        "if self._bytes > self._max_bytes:",
        "if False:",
    ),
    Mutant(
        "a cancel does not go beyond an interrupt",
        "app/executors/control.py",
        'self._requested not in {kind, "cancel"}',
        "self._requested is None",
    ),
    Mutant(
        "an expired approval allows the call",
        "app/executors/approvals.py",
        'Decision("deny", message=_EXPIRED)',
        'Decision("allow", message=_EXPIRED)',
    ),
    Mutant(
        "every tool may be called",
        "app/tools/policy.py",
        "return tool_id in self.allowed",
        "return True",
    ),
    Mutant(
        "the graph's limits do not count",
        "app/runs/planner.py",
        "limits = request.limits.tightest(spec.limits)",
        "limits = request.limits",
    ),
    Mutant(
        "credits are rounded down",
        "app/billing/prices/price_list.py",
        "exact.to_integral_value(ROUND_CEILING)",
        "exact",
    ),
    Mutant(
        "a webhook reaches private addresses",
        "app/webhooks/addresses.py",
        "if not address.is_global or any(address in network for network in _SPECIAL_PURPOSE):",
        "if False:",
    ),
    Mutant(
        "what follows a later delta of usage is lost",
        "app/gateway/wire.py",
        "merged, highest = merge_usage(self._raw, reported), highest",
        "merged, highest = self._raw or reported, highest",
    ),
    # The run core.
    Mutant(
        "a CLI outlives its run",
        f"{_CLAUDE}/watchdog.py",
        "            task.cancel()\n        self._process.kill()",
        "            task.cancel()",
    ),
    Mutant(
        "a run keeps the variables of the request that started it",
        "app/runs/supervisor.py",
        "call_detached(self._tasks.start_soon, self._execute, run, request)",
        "self._tasks.start_soon(self._execute, run, request)",
        SUPERVISOR,
    ),
    Mutant(
        "a server that stops waits for its runs only",
        "app/runs/supervisor.py",
        "in self._active.values():\n            run.control.stop.set()",
        "in self._active.values():\n            pass",
        SUPERVISOR,
    ),
    Mutant(
        "a run that was stopped while it waited is executed",
        "app/runs/worker.py",
        "if control.stop.is_set():",
        "if False:",
        SUPERVISOR,
    ),
    Mutant(
        "a crash of one run ends the others",
        "app/runs/worker.py",
        'log.exception("run.crashed")',
        "raise",
        WORKER,
    ),
    Mutant(
        "a run that could not be stored is not stored later",
        "app/runs/worker.py",
        "while stored is _NotStored.LATER:",
        "while False:",
        WORKER,
    ),
    Mutant(
        "the credit reserved for a run is not released",
        "app/runs/worker.py",
        "await self._ledger.release(tx, finished.run)",
        "pass",
        WORKER,
    ),
    Mutant(
        "a later attempt repeats positions of events",
        "app/runs/events/publisher.py",
        "after = self._attempt * POSITIONS_PER_ATTEMPT",
        "after = 0",
        WORKER,
    ),
    Mutant(
        "a key that may not read continues another key's conversation",
        "app/runs/conversations/view.py",
        'if caller.may("runs:read"):',
        "if True:",
        CONVERSATIONS,
    ),
    Mutant(
        "a busy conversation takes a turn that was to be rejected",
        "app/runs/conversations/service.py",
        'if earlier and request.on_conflict == "reject":',
        "if False:",
        CONVERSATIONS,
    ),
    Mutant(
        "a conversation is deleted under a run",
        "app/runs/conversations/service.py",
        "            if await unfinished_turns(tx, conversation):\n                raise ConversationBusy\n"
        "            await delete_conversation",
        "            await delete_conversation",
        CONVERSATIONS,
    ),
    Mutant(
        "an edited history is accepted",
        "app/conversations/history_merge.py",
        "if not differing:",
        "if len(differing) < len(posted):",
    ),
    Mutant(
        "a repeated message is queued twice",
        "app/executors/inbox.py",
        "if sent.message_id in self._positions:",
        "if False:",
    ),
    Mutant(
        "a message after the agent's end is queued",
        "app/executors/inbox.py",
        "if self._closed:",
        "if False:",
    ),
    Mutant(
        "a message that has taken effect still counts as waiting",
        "app/executors/inbox.py",
        '        """The message took effect with the event at this position."""\n'
        "        self._pending.pop(message_id, None)\n",
        "",
    ),
    Mutant(
        "a message that cannot be delivered fails the run",
        "app/executors/inbox.py",
        'log.exception("run.message_not_delivered")',
        "raise",
    ),
    Mutant(
        "a process that is discarded at once is never cleaned up",
        f"{_CLAUDE}/process/cli_process.py",
        "if self._owner is not None and self._owner_runs and not self._ended:",
        "if self._owner is not None and not self._ended:",
    ),
    Mutant(
        "a process that is discarded twice is not cleaned up",
        f"{_CLAUDE}/process/cli_process.py",
        "if self._owner is not None and self._owner_runs and not self._ended:",
        "if self._owner is not None and self._owner_runs:",
    ),
    Mutant(
        "a process whose conversation was continued elsewhere is used",
        f"{_CLAUDE}/sdk_session.py",
        "if await self._store.state(conversation.transcript) != state:",
        "if False:",
    ),
    Mutant(
        "a process is used for a conversation created again with its key",
        f"{_CLAUDE}/sdk_session.py",
        "if conversation.transcript != before.conversation.transcript:",
        "if False:",
    ),
    Mutant(
        "a process that said something between runs is used",
        f"{_CLAUDE}/process/cli_process.py",
        "self._disturbed |= not isinstance(message, SystemMessage)",
        "pass",
    ),
    Mutant(
        "a process is used with options that it was not started with",
        f"{_CLAUDE}/starter.py",
        "elif self._launch_spec(plan, turn.prompt) != parked.cli.spec:",
        "elif False:",
    ),
    Mutant(
        "a process is used for another key than it was started for",
        f"{_CLAUDE}/starter.py",
        "elif plan.attribution.api_key_id != parked.api_key_id:",
        "elif False:",
    ),
    Mutant(
        "the costs of a run in a used process include those before",
        f"{_CLAUDE}/process/cli_process.py",
        "self._run = CliRun(self._usage)",
        "self._run = CliRun({})",
    ),
    Mutant(
        "events of a subagent delay the pause of a response",
        "app/http/streaming/pausing.py",
        "if _is_late(encoder, waited_s):",
        "if False:",
    ),
    # Prices: every part of a message, and nothing that is unknown.
    Mutant(
        "an unknown dimension costs nothing more",
        "app/billing/prices/quote.py",
        'missing.append(f"{dimension}={value}")',
        "pass",
    ),
    Mutant(
        "an unknown counter is left out",
        "app/billing/prices/usage_reading.py",
        "elif name not in _KNOWN and name not in others and value not in _NOTHING:",
        "elif False:",
    ),
    Mutant(
        "a compaction is free",
        "app/billing/prices/usage_reading.py",
        '_OWN_PARTS = {"compaction", ADVISOR}',
        "_OWN_PARTS = {ADVISOR}",
    ),
    Mutant(
        "an operator's price applies before its time",
        "app/billing/prices/price_list.py",
        "if entry.model == name and entry.since <= at:",
        "if entry.model == name:",
    ),
    Mutant(
        "a refusal without output is charged",
        "app/billing/prices/quote.py",
        'return self.stop_reason == "refusal" and not self.usage.output_tokens',
        "return False",
    ),
    # Misses of the prompt cache.
    Mutant(
        "a mark is a change of the prompt",
        "app/gateway/prompt_cache/prompt.py",
        'if name != "cache_control"}',
        "}",
    ),
    Mutant(
        "subagents share the history of the main agent",
        "app/gateway/prompt_cache/history.py",
        "earlier = self._sent[sent.agent]",
        'earlier = self._sent[""]',
    ),
    Mutant(
        "a prompt of another conversation with the same key is compared",
        "app/conversations/repository.py",
        "return key & (sessions.c.session_id == conversation.session_id)",
        "return key",
        ("tests/integration/test_prompt_store.py",),
    ),
)
