"""Faults of commands to runs of other processes."""

from tests.mutants.mutant import Mutant

HERE = ("tests/integration/test_run_commands.py",)
REPEATED = ("tests/integration/test_repeated_commands.py",)
CANCELLED = ("tests/integration/test_cancellations.py",)
CHANNEL = ("tests/contracts/test_process_channel.py", "tests/contracts/test_peers.py")
"""Fast tests that need PostgreSQL or Valkey."""

_COMMANDS = "app/runs/commands"
_RECOVERY = "app/runs/recovery"

COMMANDS = (
    Mutant(
        "a process that has lost a run applies commands to it",
        f"{_COMMANDS}/service.py",
        "self.supervisor.find(record.key) if record.process_id == self.process_id else None",
        "self.supervisor.find(record.key)",
        REPEATED,
    ),
    Mutant(
        "what a lost run refuses is answered",
        f"{_COMMANDS}/application.py",
        '        if run.is_lost:\n            raise NotApplied("not_here") from None\n',
        "",
    ),
    Mutant(
        "what is applied to a lost run is answered",
        f"{_COMMANDS}/application.py",
        '    if run.is_lost:\n        raise NotApplied("not_here")\n    return result',
        "    return result",
    ),
    Mutant(
        "a lost run is not marked",
        "app/runs/supervisor.py",
        "            run.is_lost = True\n",
        "            run.is_lost = False\n",
        REPEATED,
    ),
    Mutant(
        "commands to an ended run are sent again",
        f"{_COMMANDS}/service.py",
        "        if record.finished:\n            raise RunEnded\n",
        "",
        HERE,
    ),
    Mutant(
        "a command that arrives again is applied again",
        f"{_COMMANDS}/applied.py",
        "if (task := self._tasks.get(key)) is None:",
        "if (task := self._tasks.get(key)) is None or True:",
        REPEATED,
    ),
    Mutant(
        "a command has another id each time it is sent",
        f"{_COMMANDS}/remote.py",
        "command_id=self._id,",
        "command_id=new_uuid(),",
        REPEATED,
    ),
    Mutant(
        "a command that was not applied is remembered",
        f"{_COMMANDS}/applied.py",
        "if answer.not_applied is not None:",
        "if False:",
    ),
    Mutant(
        "a command that is being applied is forgotten",
        f"{_COMMANDS}/applied.py",
        "is not None and not task.done():",
        "is not None and False:",
    ),
    Mutant(
        "answers are remembered without a bound",
        f"{_COMMANDS}/applied.py",
        "if self._of_run[run] >= self.most_per_run:",
        "if False:",
    ),
    Mutant(
        "a receiver does not answer before the command has its result",
        f"{_COMMANDS}/applied.py",
        "await asyncio.wait({task}, timeout=within_s)",
        "await asyncio.wait({task})",
    ),
    Mutant(
        "commands that wait are not limited",
        f"{_COMMANDS}/waiting.py",
        "            raise MessageQueueFull(retry_after_s=RETRY_AFTER_S)\n",
        "            pass\n",
    ),
    Mutant(
        "a refusal quotes everything",
        f"{_COMMANDS}/answers.py",
        "(fault.field[:_FIELD_CHARS], fault.message[:_FIELD_CHARS])",
        "(fault.field, fault.message)",
    ),
    Mutant(
        "large commands are sent as messages",
        f"{_COMMANDS}/remote.py",
        "if len(content) <= SMALL_BYTES:",
        "if True:",
        HERE,
    ),
    Mutant(
        "attachments stay in the relay",
        f"{_COMMANDS}/remote.py",
        "await self._channel.attachments.delete(self._id, size=self._attached_bytes)",
        "pass",
        HERE,
    ),
    Mutant(
        "an attachment that the relay has lost is not stored again",
        f"{_COMMANDS}/remote.py",
        "            self._is_stored = False\n        return received",
        "            pass\n        return received",
        REPEATED,
    ),
    Mutant(
        "attachments are read without memory for them",
        f"{_COMMANDS}/receiver.py",
        "            self._memory.require_room(_COPIES_WHILE_PARSING * size)\n",
        "",
        HERE,
    ),
    Mutant(
        "a part of an attachment is taken for all of it",
        "app/streams/relay/attachments.py",
        "                return None\n            pieces.append(piece)",
        '                piece = b""\n            pieces.append(piece)',
        ("tests/contracts/test_attachments.py",),
    ),
    Mutant(
        "a cancellation is sent without being stored",
        f"{_COMMANDS}/service.py",
        "cancelled = await request_cancel(tx, run)",
        "cancelled = None",
        CANCELLED,
    ),
    Mutant(
        "a cancellation that is not answered fails",
        f"{_COMMANDS}/service.py",
        "suppress(RunEnded, RunOnAnotherServer, MessageQueueFull)",
        "suppress(RunEnded, MessageQueueFull)",
        CANCELLED,
    ),
    Mutant(
        "a cancellation goes back to its first state",
        f"{_COMMANDS}/repository.py",
        "runs.c.status.in_(UNFINISHED), is_uncancelled)",
        "runs.c.status.in_(UNFINISHED))",
        CANCELLED,
    ),
    Mutant(
        "the cancellation of what a run replaces is only sent",
        "app/runs/acceptance.py",
        "                await request_cancels(tx, turn.to_cancel)\n",
        "",
        CANCELLED,
    ),
    Mutant(
        "an ended run is cancelled",
        f"{_COMMANDS}/repository.py",
        ".where(is_given, runs.c.status.in_(UNFINISHED), is_uncancelled)",
        ".where(is_given, is_uncancelled)",
        CANCELLED,
    ),
    Mutant(
        "the progress of an interrupt replaces a cancellation",
        "app/runs/repository.py",
        'if interruption["kind"] == "interrupt" else true()',
        "if False else true()",
        CANCELLED,
    ),
    Mutant(
        "a heartbeat does not see cancellations",
        f"{_RECOVERY}/heartbeat.py",
        "        self._supervisor.cancel(cancelled)\n",
        "",
        CANCELLED,
    ),
    Mutant(
        "a heartbeat takes an interrupt for a cancellation",
        f"{_RECOVERY}/repository.py",
        '        interruption["kind"].as_string() == "cancel",\n        interruption["state"].as_string() == '
        '"requested",\n',
        '        interruption["state"].as_string() != "",\n',
        CANCELLED,
    ),
    Mutant(
        "a cancelled run whose process died ends as failed",
        f"{_RECOVERY}/service.py",
        "ABORTED if run.is_cancelled else INTERNAL",
        "INTERNAL",
        CANCELLED,
    ),
    Mutant(
        "a cancelled run is resumed",
        f"{_RECOVERY}/resumption.py",
        "if run.state_key is None or run.interruption is not None:",
        "if run.state_key is None:",
        CANCELLED,
    ),
    Mutant(
        "a busy process does not answer whether it is alive",
        f"{_RECOVERY}/peers.py",
        "channel.serve({_KIND: self._answer}, urgent=True)",
        "channel.serve({_KIND: self._answer})",
        CHANNEL,
    ),
    Mutant(
        "a process handles any number of requests",
        "app/streams/process_channel.py",
        "if len(self._handling) < MAX_HANDLERS:",
        "if True:",
        CHANNEL,
    ),
    Mutant(
        "a request beyond the limit is not answered",
        "app/streams/process_channel.py",
        "elif len(self._refusing) < MAX_REFUSALS:",
        "elif False:",
        CHANNEL,
    ),
    Mutant(
        "any number of requests is refused at once",
        "app/streams/process_channel.py",
        "elif len(self._refusing) < MAX_REFUSALS:",
        "else:",
        CHANNEL,
    ),
    Mutant(
        "messages of any size are sent",
        "app/streams/process_channel.py",
        "        raise MessageTooLarge\n",
        "        pass\n",
        CHANNEL,
    ),
)
