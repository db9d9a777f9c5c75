"""Faults planted in the queue of runs and in what takes runs from it."""

from tests.mutants.mutant import Mutant

_TEMPORAL = "app/runs/dispatch/temporal/"
_TEMPORAL_TESTS = "tests/contracts/test_temporal_dispatcher.py::"
_QUEUE = ("tests/integration/test_run_queue.py",)
_CONTRACT = ("tests/contracts/test_dispatchers.py",)
_DISPATCHER = ("tests/integration/test_run_dispatcher.py",)
_SQL = "migrations/versions/2026-11-23-0700_dispatch_runs.py"
_REPOSITORY = "app/runs/dispatch/repository.py"
_CLOSER = "app/runs/closing.py"

DISPATCH = (
    Mutant(
        "two decisions about an account's runs are made at once",
        _SQL,
        "PERFORM lock_dispatch(account);\n        account_limit := active_limit(per_account);\n        rank",
        "account_limit := active_limit(per_account);\n        rank",
        _QUEUE,
    ),
    Mutant(
        "the last place is for the account that has all others",
        _SQL,
        "places := places * 3 / 4;",
        "",
        _QUEUE,
    ),
    Mutant(
        "a run does not wait for the earlier turns of its conversation",
        _SQL,
        "WHEN earlier > 0 THEN 'turn'",
        "",
        _QUEUE,
    ),
    Mutant(
        "the limit of a key does not count",
        _SQL,
        "OR per_key IS NOT NULL AND per_key <=",
        "OR false AND per_key <=",
        _QUEUE,
    ),
    Mutant(
        "the next run of an account is its oldest, whatever its key",
        _SQL,
        "ORDER BY priority, coalesce(runs, 0), created_at, run_id LIMIT 1",
        "ORDER BY priority, created_at, run_id LIMIT 1",
        _QUEUE,
    ),
    Mutant(
        "one account fills the queue",
        _SQL,
        "IF NOT is_full AND waiting >= (max_waiting + 1) / 2 THEN",
        "IF false THEN",
        _QUEUE,
    ),
    Mutant(
        "a next turn is offered to a process that has ended",
        _SQL,
        "AND seen_at > now() - make_interval(secs => lease_s)\n    $$",
        "\n    $$",
        _QUEUE,
    ),
    Mutant(
        "the end of a run does not release the next turn",
        _SQL,
        "IF conversation IS NOT NULL THEN\n            SELECT run_id INTO next_run",
        "IF false THEN\n            SELECT run_id INTO next_run",
        _QUEUE,
    ),
    Mutant(
        "runs are started in the order in which they were posted",
        _REPOSITORY,
        ".order_by(runs.c.rank, runs.c.ready_at)",
        ".order_by(runs.c.ready_at)",
        _QUEUE,
    ),
    Mutant(
        "a run that is offered to one worker goes to any",
        _REPOSITORY,
        "_ready.where(_is_offered, _is_known)",
        "_ready.where(_is_known)",
        _QUEUE,
    ),
    Mutant(
        "a cancelled run is started",
        _REPOSITORY,
        ".where(_is_ready, runs.c.interruption.is_(None))",
        ".where(_is_ready)",
        _QUEUE,
    ),
    Mutant(
        "a full queue takes further runs",
        _SQL,
        "IF is_full THEN",
        "IF false THEN",
        _QUEUE,
    ),
    Mutant(
        "a process that drains starts runs",
        "app/runs/dispatch/places.py",
        "return 0 if self.is_closed else max(0, self.total - self.taken)",
        "return max(0, self.total - self.taken)",
        _CONTRACT,
    ),
    Mutant(
        "ready runs are found by notifications only",
        "app/runs/dispatch/postgres.py",
        "if woken is not None or (self.places.free and await self.queue.has_ready()):",
        "if woken is not None:",
        _DISPATCHER,
    ),
    Mutant(
        "the first worker that is woken claims all runs of a takeover",
        "app/runs/dispatch/repository.py",
        "(_counted.c.ready + _workers - 1) // _workers",
        "_counted.c.ready + 0 * _workers",
        ("tests/integration/test_run_queue.py",),
    ),
    Mutant(
        "a run that cannot be started keeps its place",
        "app/runs/starting.py",
        "                self.places.give_back()",
        "                pass",
        _DISPATCHER,
    ),
    Mutant(
        "messages to a queued run are lost",
        "app/runs/starting.py",
        "apply_queued(self.supervisor.start(plan, request), commands)",
        "self.supervisor.start(plan, request)",
        _DISPATCHER,
    ),
    Mutant(
        "readers of a queued run get nothing before it starts",
        "app/runs/events/reader.py",
        "return entries or _first_events(run)",
        "return entries",
        _DISPATCHER,
    ),
    Mutant(
        "a run that is cancelled in the queue keeps its credit",
        _CLOSER,
        "await self.ledger.release(tx, run.key)",
        "pass",
        _DISPATCHER,
    ),
    Mutant(
        "a run that is cancelled in the queue releases none",
        _CLOSER,
        "        if ended_at is not None:\n"
        "            await self.queue.release_after(tx, run.key, run.state_key)\n",
        "",
        _DISPATCHER,
    ),
    Mutant(
        "an ended run keeps its place",
        "app/runs/supervisor.py",
        "            self.places.give_back()\n",
        "",
        ("tests/integration/test_run_supervisor.py",),
    ),
    Mutant(
        "Temporal waits for a worker that stands still",
        _TEMPORAL + "workflows.py",
        "heartbeat_timeout=timedelta(seconds=run.heartbeat_timeout_s),",
        "",
        (_TEMPORAL_TESTS + "test_a_worker_that_stands_still_keeps_no_run",),
    ),
    Mutant(
        "a workflow that Temporal cancels leaves its queued run",
        _TEMPORAL + "workflows.py",
        "if is_cancelled_exception(error):",
        "if is_cancelled_exception(error) and False:",
        (_TEMPORAL_TESTS + "test_what_is_done_to_a_workflow_is_done_to_its_run_and_the_other_way_round",),
    ),
    Mutant(
        "a run whose submission to Temporal was lost waits for ever",
        _TEMPORAL + "repository.py",
        "(submitted_at IS NULL OR submitted_at < now() - CAST(:again_after AS interval))",
        "(submitted_at IS NULL OR CAST(:again_after AS interval) IS NULL)",
        (_TEMPORAL_TESTS + "test_a_run_whose_submitter_has_died_is_submitted_again_later",),
    ),
    Mutant(
        "all accounts are one in the queue of Temporal",
        _TEMPORAL + "submission.py",
        "fairness_key=str(run.account_id)",
        'fairness_key="all"',
        (_CONTRACT[0] + "::test_an_account_with_one_run_does_not_wait_for_all_runs_of_another",),
    ),
)
