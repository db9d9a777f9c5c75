"""Commands to a queued run: they are stored, and applied before it starts."""

from collections.abc import Sequence
from typing import Any

import structlog

from app.errors import AppError
from app.requests import Message, SentMessage
from app.runs.commands.service import _COMMANDS, ChangeMode, Send
from app.runs.supervisor import ActiveRun

log = structlog.get_logger(__name__)


def apply_queued(run: ActiveRun, commands: Sequence[dict[str, Any]]) -> None:
    """Apply the commands that a run got while it was queued; it has not begun yet."""
    for stored in commands:
        try:
            match _COMMANDS.validate_python(stored):
                case Send() as command:
                    message = Message.model_validate({"role": "user", "content": command.content})
                    run.control.send(SentMessage(command.message_id, message, command.priority))
                case ChangeMode(mode=mode):
                    run.control.approvals.mode = mode
        except AppError as error:
            log.warning("command.refused", run_id=run.plan.run.run_id, reason=error.code)
