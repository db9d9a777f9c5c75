"""PromptStore: keeps the last prompt of a conversation, as hashes; the next turn is compared with it."""

import structlog
from pydantic import TypeAdapter, ValidationError

from app.conversations.records import Conversation
from app.conversations.repository import last_prompt, set_last_prompt
from app.errors import Unavailable
from app.gateway.prompt_cache.diagnosis import SentPrompt
from app.gateway.prompt_cache.history import PromptHistory
from app.ids import RunKey
from app.platform.db import Database, StatementFailed

log = structlog.get_logger(__name__)

_PROMPT = TypeAdapter(SentPrompt)


class PromptStore:
    """What it cannot read or write is logged: a run does not fail because a miss stays unexplained."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self, conversation: Conversation | None) -> SentPrompt | None:
        """The prompt before those of a run of this conversation; None for a run without one."""
        if conversation is None:
            return None
        try:
            async with self._database.read() as reader:
                stored = await last_prompt(reader, conversation)
            return None if stored is None else _PROMPT.validate_python(stored)
        except ValidationError:
            log.warning("prompt_cache.history_unavailable", reason="stored by another version")
        except (Unavailable, StatementFailed) as error:
            log.warning("prompt_cache.history_unavailable", reason=str(error))
        return None

    async def save(
        self, conversation: Conversation | None, history: PromptHistory, *, run: RunKey, attempt: int
    ) -> None:
        """Keep the last prompt for the next turn, unless the attempt that sent it was taken over."""
        if conversation is None or history.last is None:
            return
        try:
            async with self._database.write() as tx:
                prompt = _PROMPT.dump_python(history.last, mode="json")
                await set_last_prompt(tx, conversation, prompt, run=run, attempt=attempt)
        except (Unavailable, StatementFailed) as error:
            log.warning("prompt_cache.history_unavailable", reason=str(error))
