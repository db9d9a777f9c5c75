"""The commands to an attempt of a run that its next attempt must get again."""

from app.executors.control import RunControl
from app.graphs.spec import GraphSpec
from app.runs.commands.records import ChangeMode, Command, Send


def pending_commands(control: RunControl, spec: GraphSpec) -> list[Command]:
    """What the run's next attempt must get again: messages that have not taken effect, and the mode."""
    pending: list[Command] = [
        Send(message_id=sent.message_id, content=sent.message.content, priority=sent.priority)
        for sent in control.inbox.pending()
    ]
    mode = control.approvals.mode
    return pending if mode == spec.permission_mode else [ChangeMode(mode=mode), *pending]
