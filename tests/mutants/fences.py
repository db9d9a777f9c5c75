"""Faults planted in what keeps an attempt that was taken over from acting."""

from tests.mutants.mutant import Mutant

OVER = ("tests/integration/test_an_attempt_is_over.py",)
RECOVERY = ("tests/integration/test_run_recovery.py",)
WORKER = ("tests/integration/test_run_worker.py",)

_MIGRATION = "migrations/versions/2026-11-23-0400_fence_attempts.py"
_RECOVERY = "app/runs/recovery/service.py"
_HEARTBEAT = "app/runs/recovery/heartbeat.py"

FENCES = (
    Mutant(
        "the end of a run is not fenced by its attempt",
        "app/runs/repository.py",
        " AND attempt = :attempt\n",
        " AND :attempt >= 0\n",
        WORKER,
    ),
    Mutant(
        "a later attempt does not fence the transcript",
        _MIGRATION,
        "AND attempt >= writer)",
        "AND attempt > writer)",
        OVER,
    ),
    Mutant(
        "a run can be taken over while its transcript is written",
        _MIGRATION,
        "PERFORM FROM runs WHERE account_id = account AND run_id = run FOR SHARE;",
        "",
        OVER,
    ),
    Mutant(
        "files of an attempt that is over are stored",
        "app/workspaces/service.py",
        "            await require_attempt(tx, run, attempt)\n",
        "",
        OVER,
    ),
    Mutant(
        "the state of a stop is stored for a later attempt",
        "app/runs/repository.py",
        "and_(_is(key), runs.c.attempt == attempt)",
        "and_(_is(key), attempt >= 0)",
        OVER,
    ),
    Mutant(
        "messages that began after a takeover are charged",
        "app/billing/receipts/repository.py",
        "AND lost.attempt = new.attempt AND lost.at < new.used_at",
        "AND lost.attempt = new.attempt AND lost.at > new.used_at + interval '1 day'",
        OVER,
    ),
    Mutant(
        "messages that began before a takeover are not charged",
        "app/billing/receipts/repository.py",
        "AND lost.attempt = new.attempt AND lost.at < new.used_at",
        "AND lost.attempt = new.attempt",
        OVER,
    ),
    Mutant(
        "an event does not wait for the lease",
        "app/runs/events/publisher.py",
        "is_held = await self.lease.wait_held(self.run, within_s=self.lease_wait_s)",
        "is_held = True",
    ),
    Mutant(
        "events of a lost run are published",
        "app/runs/events/publisher.py",
        "if self.lease.is_lost(self.run):",
        "if False:",
    ),
    Mutant(
        "a model call does not wait for the lease",
        "app/executors/credit_check.py",
        "not await self.lease.wait_held(self.plan.run, within_s=deadline - loop.time()):",
        "False:",
    ),
    Mutant(
        "a tool call does not wait for the lease",
        "app/executors/tools/calls.py",
        "if not await self._lease.wait_held(run, within_s=_LEASE_WAIT_S):",
        "if False:",
    ),
    Mutant(
        "the lease is renewed by an answer, however late it comes",
        "app/platform/clock/lease.py",
        "self._renewed_at = max(self._renewed_at, since)",
        "self._renewed_at = self.elapsed_s()",
    ),
    Mutant(
        "the lease is renewed before lost runs are stopped",
        _HEARTBEAT,
        "        self._lose(lost)\n",
        "",
        RECOVERY,
    ),
    Mutant(
        "a run that is lost before it starts is started",
        "app/runs/starting.py",
        "        self.lease.lose(run for run in runs if run in self._starting)\n",
        "",
        RECOVERY,
    ),
    Mutant(
        "a run whose claim is older than the lease needs no heartbeat",
        "app/platform/clock/lease.py",
        "            self._unconfirmed.add(run)",
        "            pass",
        ("tests/unit/platform/clock/test_lease.py",),
    ),
    Mutant(
        "a claim of a process that stood still meanwhile counts at once",
        "app/runs/dispatch/postgres.py",
        "                self.lease.add(each.run.key, since=since)\n",
        "",
        ("tests/integration/test_run_dispatcher.py",),
    ),
    Mutant(
        "a run that was accepted by a process that stood still meanwhile counts at once",
        "app/runs/dispatch/postgres.py",
        "                self.lease.add(claim.used_by, since=since)\n",
        "                pass\n",
        ("tests/integration/test_run_dispatcher.py",),
    ),
    Mutant(
        "a heartbeat confirms runs that it does not have",
        "app/platform/clock/lease.py",
        "self._unconfirmed.difference_update(runs)",
        "self._unconfirmed.clear()",
        ("tests/unit/platform/clock/test_lease.py",),
    ),
    Mutant(
        "a lease that has ended is held as if it had not",
        "app/platform/clock/lease.py",
        "            self._held_since = since",
        "            pass",
        ("tests/unit/platform/clock/test_lease.py",),
    ),
    Mutant(
        "a process takes over runs as soon as the database is back",
        _HEARTBEAT,
        "if has_jumped or began - self._last > self._lease.term_s * 2 / HEARTBEATS:",
        "if has_jumped:",
        RECOVERY,
    ),
    Mutant(
        "runs of a process that answers are taken over",
        _RECOVERY,
        "return self._peers is not None and await self._peers.may_be_alive(process_id)",
        "return False",
        RECOVERY,
    ),
    Mutant(
        "the transactions of a process that stands still go on",
        _RECOVERY,
        "await end_connections(tx, processes)\n",
        "await end_connections(tx, [])\n",
        RECOVERY,
    ),
    Mutant(
        "a run that has just ended is taken for lost",
        "app/runs/recovery/repository.py",
        "WHERE lost.attempt >= active.attempt\n",
        "WHERE lost.attempt >= active.attempt UNION SELECT account_id, run_id FROM runs\n",
        RECOVERY,
    ),
    Mutant(
        "a takeover is not recorded",
        _RECOVERY,
        "            await record_takeovers(tx, resumed)\n",
        "",
        RECOVERY,
    ),
    Mutant(
        "the takeover of a run that ends is not recorded",
        _RECOVERY,
        "            await record_takeovers(tx, [run])\n",
        "",
        RECOVERY,
    ),
    Mutant(
        "a run whose start was never confirmed stays for ever",
        _HEARTBEAT,
        "for (run, attempt), first in self._unconfirmed.items() if first <= since",
        "for (run, attempt), first in self._unconfirmed.items() if first < since - 10**6",
        RECOVERY,
    ),
    Mutant(
        "the end of a run is published before it is stored",
        "app/runs/worker.py",
        "        if isinstance(stored, datetime):\n",
        "        if stored is not _NotStored.FENCED:\n"
        "            stored = datetime.fromtimestamp(0).astimezone()\n",
        WORKER,
    ),
    Mutant(
        "an attempt that is over publishes an end",
        "app/runs/worker.py",
        "        if isinstance(stored, datetime):\n",
        "        if stored is not _NotStored.LATER:\n"
        "            stored = datetime.fromtimestamp(0).astimezone()\n",
        WORKER,
    ),
)
