"""Conversations whose turns are runs of no process."""

from app.auth.records import KeyRecord
from app.conversations.history import ConversationHistory
from app.conversations.records import Conversation
from app.conversations.repository import take_turn
from app.conversations.transcript_store import TranscriptStore
from app.ids import RunId, RunKey, new_uuid
from app.platform.db import Database
from app.platform.objects.service import INSIDE, Objects
from app.platform.storage.service import StorageQuota
from app.runs.conversations.service import ConversationService
from app.runs.records import NewRun
from app.runs.repository import finish_run
from tests.factories import a_final, a_new_turn
from tests.integration.run_process import insert

KEY = "chat-1"


def conversations_over(
    database: Database, max_bytes: int = 2**30, objects: Objects = INSIDE
) -> ConversationService:
    sessions = TranscriptStore(database, objects)
    return ConversationService(
        database,
        ConversationHistory(sessions, tool_id_of=lambda name: name),
        storage=StorageQuota(database, None),
        max_bytes=max_bytes,
    )


async def a_turn(database: Database, key: KeyRecord, run_id: str, *, ended: bool = True) -> Conversation:
    run = RunKey(key.account_id, RunId(run_id))
    async with database.transaction() as tx:
        conversation = await take_turn(tx, key.account_id, a_new_turn(KEY))
        graph, question = "claude_agents:assistant", f"question of {run_id}"
        new = NewRun(run, key.id, graph, "m", "{}", question, b"", None, new_uuid(), conversation)
        await insert(tx, new)
    if ended:
        await end_run(database, run)
    return conversation


async def end_run(database: Database, run: RunKey) -> None:
    async with database.transaction() as tx:
        await finish_run(tx, run, attempt=0, final=a_final(run.run_id), report=None, events=[])
