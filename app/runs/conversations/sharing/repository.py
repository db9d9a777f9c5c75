"""SQL for share links."""

from uuid import UUID

from sqlalchemy import ColumnElement, and_, delete, func, insert, select

from app.ids import AccountId
from app.platform.db import Reader, Transaction
from app.runs.conversations.sharing.records import ConversationShare
from app.runs.conversations.sharing.tables import conversation_shares

_shares = conversation_shares.c
_COLUMNS = [column for column in _shares if column is not _shares.token_hash]
_IS_CURRENT = _shares.expires_at > func.now()


async def insert_share(tx: Transaction, share: ConversationShare, token_hash: bytes) -> None:
    """Insert a link, and delete those of the conversation that have expired."""
    await tx.execute(
        delete(conversation_shares).where(_is_of(share.account_id, share.state_key), ~_IS_CURRENT)
    )
    values = {column.name: getattr(share, column.name) for column in _COLUMNS}
    await tx.execute(insert(conversation_shares).values(values | {"token_hash": token_hash}))


async def shares_of(reader: Reader, account_id: AccountId, state_key: str) -> list[ConversationShare]:
    """The links of a conversation that have not expired, newest first."""
    statement = select(*_COLUMNS).where(_is_of(account_id, state_key), _IS_CURRENT)
    found = await reader.execute(statement.order_by(_shares.created_at.desc(), _shares.id.desc()))
    return [ConversationShare(**row) for row in found.mappings()]


async def find_share(reader: Reader, token_hash: bytes) -> ConversationShare | None:
    """The link with this token, unless it has expired."""
    statement = select(*_COLUMNS).where(_shares.token_hash == token_hash, _IS_CURRENT)
    row = (await reader.execute(statement)).mappings().one_or_none()
    return None if row is None else ConversationShare(**row)


async def delete_share(tx: Transaction, account_id: AccountId, state_key: str, share_id: UUID) -> bool:
    """Delete a link of a conversation; whether there was one."""
    statement = delete(conversation_shares).where(_is_of(account_id, state_key), _shares.id == share_id)
    return bool((await tx.execute(statement)).rowcount)


def _is_of(account_id: AccountId, state_key: str) -> ColumnElement[bool]:
    return and_(_shares.account_id == account_id, _shares.state_key == state_key)
