"""ConversationShares: links by which others read a conversation without signing in."""

import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final
from uuid import UUID

from app.conversations.history import ConversationHistory
from app.conversations.repository import find_conversation, lock_conversation
from app.errors import Conflict, Invalid, NotFound, Unauthenticated
from app.ids import AccountId, ApiKeyId, new_uuid
from app.platform.audit.records import Actor, Change
from app.platform.audit.repository import record_change
from app.platform.db import Database
from app.requests.principal import Principal
from app.runs.conversations.branching import load_tree
from app.runs.conversations.page import ConversationPage, PageEntry, parse_cursor, read_page, turns_on_branch
from app.runs.conversations.service import required
from app.runs.conversations.sharing.records import ConversationShare, SharedPage
from app.runs.conversations.sharing.repository import delete_share, find_share, insert_share, shares_of
from app.runs.conversations.view import require_reading

LIFETIME: Final = timedelta(days=30)
MAX_LIFETIME: Final = timedelta(days=366)
MOST_SHARES: Final = 100
"""Of a conversation: lists of them have no pages."""
_TOKEN = re.compile(r"rts_[A-Za-z0-9_-]{43}")
_PAGE_LINES: Final = 200


class NothingToShare(Conflict):
    """The conversation has no run yet."""

    code = "nothing_to_share"


class TooManyShares(Conflict):
    """This conversation has as many share links as it may have; revoke some of them."""

    code = "too_many_shares"


class ShareNotFound(NotFound):
    """This conversation has no share link with this id."""

    code = "share_not_found"


class ShareEnded(Unauthenticated):
    """This link does not work: it has expired or was revoked, or it is not complete."""

    code = "share_ended"


@dataclass(frozen=True, slots=True)
class ConversationShares:
    """The share links of all accounts. Tokens are 256 random bits and stored as a hash."""

    database: Database
    history: ConversationHistory
    is_usable: Callable[[ApiKeyId], Awaitable[bool]]
    """Whether a key has not ended and its account is not suspended."""

    async def create(
        self,
        caller: Principal,
        state_key: str,
        *,
        expires_at: datetime | None,
        with_tool_calls: bool,
        by: Actor,
    ) -> tuple[ConversationShare, str]:
        """A link to what the current branch has now, and its token, which cannot be retrieved later.

        Raises `ConversationNotFound`, `NothingToShare`, `TooManyShares`, and `Invalid` for `expiresAt`.
        """
        now = datetime.now(UTC)
        expires_at = expires_at or now + LIFETIME
        if not now < expires_at <= now + MAX_LIFETIME:
            raise Invalid.field("expiresAt", f"must be in the next {MAX_LIFETIME.days} days")
        token = f"rts_{secrets.token_urlsafe(32)}"
        async with self.database.transaction() as tx:
            conversation = await required(lock_conversation(tx, caller.account_id, state_key))
            await require_reading(tx, conversation, caller)
            path = (await load_tree(tx, conversation)).path(conversation.session_id)
            if not path:
                raise NothingToShare
            if len(await shares_of(tx, caller.account_id, state_key)) >= MOST_SHARES:
                raise TooManyShares
            share = ConversationShare(
                *(new_uuid(), caller.account_id, state_key, path[-1], with_tool_calls),
                *(caller.api_key_id, now, expires_at),
            )
            await insert_share(tx, share, _hash(token))
            shown = {"stateKey": state_key, "withToolCalls": with_tool_calls, "expiresAt": str(expires_at)}
            change = Change(caller.account_id, "share.created", str(share.id), after=shown)
            await record_change(tx, by, change)
        return share, token

    async def list_shares(self, account_id: AccountId, state_key: str) -> Sequence[ConversationShare]:
        """The links of a conversation that have not expired, newest first; raises `ConversationNotFound`."""
        async with self.database.snapshot() as reader:
            await required(find_conversation(reader, account_id, state_key))
            return await shares_of(reader, account_id, state_key)

    async def revoke(self, account_id: AccountId, state_key: str, share_id: UUID, *, by: Actor) -> None:
        """End a link at once; raises `ShareNotFound`."""
        async with self.database.transaction() as tx:
            if not await delete_share(tx, account_id, state_key, share_id):
                raise ShareNotFound
            change = Change(account_id, "share.revoked", str(share_id), before={"stateKey": state_key})
            await record_change(tx, by, change)

    async def find(self, token: str) -> ConversationShare:
        """The link with this token; raises the same `ShareEnded` for every reason."""
        if not _TOKEN.fullmatch(token):
            raise ShareEnded
        async with self.database.read() as reader:
            share = await find_share(reader, _hash(token))
        if share is None or not await self.is_usable(share.api_key_id):
            raise ShareEnded
        return share

    async def read(self, share: ConversationShare, cursor: str | None) -> SharedPage:
        """A page of what the link shows; raises `ShareEnded`, and `Invalid` for the cursor."""
        after = parse_cursor(cursor)

        async def read(contents: Mapping[str, bytes]) -> SharedPage:
            async with self.database.snapshot() as reader:
                conversation = await find_conversation(reader, share.account_id, share.state_key)
                if conversation is None:
                    raise ShareEnded
                tree = await load_tree(reader, conversation)
                if share.last_run not in tree:
                    raise ShareEnded
                path = tree.path_to(share.last_run)
                conversation = replace(conversation, session_id=tree.branch_of(share.last_run))
                history = await self.history.page(
                    *(reader, conversation),
                    after=after,
                    limit=_PAGE_LINES,
                    passed_on=tree.passed_on,
                    contents=contents,
                )
                turns = await turns_on_branch(reader, conversation, path)
                page = await read_page(reader, conversation, history, turns=turns)
                return _shown(share, page, path)

        return await self.history.sessions.completed(share.account_id, read)


def _shown(share: ConversationShare, page: ConversationPage, path: Sequence[str]) -> SharedPage:
    """The part of the page that is of these runs, or of what was there before them."""
    of_share = {None, *path}
    entries = [
        _without_addresses(entry)
        for entry in page.entries
        if entry.message.run_id in of_share and (share.with_tool_calls or entry.message.type != "tool_call")
    ]
    next_cursor = page.next_cursor if page.next_run in of_share else None
    return SharedPage(share, page.conversation.title, entries, next_cursor)


def _without_addresses(entry: PageEntry) -> PageEntry:
    """Who has the address of an attachment may be able to read it."""
    attachments = [replace(each, url=None) for each in entry.message.attachments]
    return replace(entry, message=replace(entry.message, attachments=attachments))


def _hash(token: str) -> bytes:
    return sha256(token.encode()).digest()
