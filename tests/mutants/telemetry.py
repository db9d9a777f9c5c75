"""Faults of telemetry: parents, ids, counts of tokens, content, and what a receiver may delay."""

from tests.mutants.mutant import Mutant

_TRACES = ("tests/unit/platform/telemetry/test_run_trace.py",)
_RUNS = ("tests/integration/test_run_traces.py",)

TELEMETRY = (
    Mutant(
        "spans below a tool call do not wait for it",
        "app/platform/telemetry/run_trace.py",
        "        if call is None:\n            self._write(span, parent)",
        "        if call is None or parent:\n            self._write(span, parent)",
        _TRACES,
    ),
    Mutant(
        "a subagent is not found by its messages",
        "app/platform/telemetry/run_trace.py",
        "        self._callers[agent] = tool_call_id\n",
        "        self._callers[agent] = next(iter(self._tools))\n",
        _TRACES,
    ),
    Mutant(
        "content is exported without a request",
        "app/platform/telemetry/run_trace.py",
        "        if self._options.captures_content:\n            attributes",
        "        if True:\n            attributes",
        _TRACES,
    ),
    Mutant(
        "a process that has lost a run exports its end",
        "app/runs/worker.py",
        "                if trace is not None:\n                    trace.close()",
        "                if trace is not None:\n                    trace.end(run_result(output.final()))",
        _RUNS,
    ),
    Mutant(
        "the end of a run that no process executes has no span",
        "app/runs/closing.py",
        "        if context is not None:\n",
        "        if context is None:\n",
        _RUNS,
    ),
    Mutant(
        "a worker does not continue the caller's trace",
        "app/runs/starting.py",
        "self.telemetry.context_of(run.key, run.caller_trace)",
        "self.telemetry.context_of(run.key, None)",
        _RUNS,
    ),
    Mutant(
        "a receiver that refuses delays the stop",
        "app/platform/telemetry/sdk/opening.py",
        "signal.session.failures == failures and ",
        "",
        _RUNS,
    ),
    Mutant(
        "tokens are counted only where the delivery has inserted the receipt",
        "app/billing/receipts/delivery.py",
        "own = {each.receipt_id for each in charged.values() if not each.is_fenced} | inserted.charged",
        "own = inserted.charged",
        ("tests/integration/test_receipt_delivery.py",),
    ),
    Mutant(
        "tokens of fenced receipts are counted",
        "app/billing/receipts/delivery.py",
        "if not each.is_fenced} | inserted.charged",
        "} | inserted.charged | inserted.fenced",
        ("tests/integration/test_receipt_delivery.py",),
    ),
)
