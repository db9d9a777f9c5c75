"""Faults of the log and of the sentences for operators."""

from tests.mutants.mutant import Mutant

CONTEXT = ("tests/unit/platform/logs/test_context.py",)
DEPENDENCY = ("tests/unit/platform/logs/test_dependency.py",)
LINES = ("tests/unit/cli/test_logs.py",)
REQUESTS = ("tests/unit/http/test_request_log.py",)
OPERATORS = ("tests/integration/test_errors_of_operators.py",)
CLI_RUNS = ("tests/unit/executors/claude_agent/test_executor.py",)
"""`OPERATORS` needs PostgreSQL and Valkey."""

LOGS = (
    Mutant(
        "a detached task keeps the context of the run that starts it",
        "app/platform/logs/context.py",
        "asyncio.create_task(work, context=context)",
        "asyncio.create_task(work)",
        CONTEXT,
    ),
    Mutant(
        "a tool call is logged under the run that started its process",
        "app/executors/claude_agent/tools/mcp_bridge.py",
        "        with plan.log_context():\n",
        "        if True:\n",
        CLI_RUNS,
    ),
    Mutant(
        "each task logs the same outage",
        "app/platform/logs/dependency.py",
        "        elif not self.each_reason or reason in self._reasons:\n            return\n",
        "",
        DEPENDENCY,
    ),
    Mutant(
        "one call that works ends an outage",
        "app/platform/logs/dependency.py",
        "self.now() - self._failed_at >= self.quiet_s",
        "True",
        DEPENDENCY,
    ),
    Mutant(
        "names of fields are written as they are",
        "app/cli/logs.py",
        "_clean_name(name): _cleaned",
        "name: _cleaned",
        LINES,
    ),
    Mutant(
        "values within values are written as they are",
        "app/cli/logs.py",
        "_clean_text(str(name)): _cleaned(item, depth - 1)",
        "name: item",
        LINES,
    ),
    Mutant(
        "a record that cannot be formatted is printed by logging",
        "app/cli/logs.py",
        "    def handleError(",
        "    def on_error(",
        LINES,
    ),
    Mutant(
        "comments of a stream are counted as events",
        "app/http/request_log.py",
        'body.count(b"\\ndata:") + body.startswith(b"data:")',
        'body.count(b"\\n\\n")',
        REQUESTS,
    ),
    Mutant(
        "a request's trace is not logged",
        "app/http/request_log.py",
        '{"trace_id": caller.trace_id}',
        "{}",
        REQUESTS,
    ),
    Mutant(
        "a standby is used",
        "app/platform/postgres/usability.py",
        "    elif row.is_standby or row.is_read_only:\n",
        "    elif row.is_standby:\n",
        OPERATORS,
    ),
    Mutant(
        "a graph with an unknown model is served",
        "app/bootstrap/catalogs.py",
        "    graphs.require_models(lambda name: _problem_of(models, name))\n",
        "",
        OPERATORS,
    ),
    Mutant(
        "a common word is hidden wherever it is",
        "app/platform/logs/secrets.py",
        "filter(_is_no_word, secrets)",
        "filter(None, secrets)",
        ("tests/unit/doctor/test_report.py",),
    ),
)
