"""Conversations and AsyncConversations: the conversations of an account."""

from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Literal, Unpack

from runtally.options import ConversationFilters
from runtally.protocol import calls
from runtally.protocol.call import AsyncSend, Send
from runtally.protocol.pages import each, each_async
from runtally.types import (
    Branch,
    Conversation,
    ConversationFiles,
    ConversationMessage,
    CreatedShare,
    Grant,
    Share,
)


class Conversations:
    """The runs with one `state_key` form a conversation."""

    def __init__(self, send: Send) -> None:
        self._send = send

    def list(self, **filters: Unpack[ConversationFilters]) -> Iterator[Conversation]:
        """All conversations that match, most recently used first."""
        return each(self._send, partial(calls.list_conversations, filters))

    def get(self, state_key: str) -> Conversation:
        """One conversation."""
        return self._send(calls.get_conversation(state_key))

    def messages(self, state_key: str) -> Iterator[ConversationMessage]:
        """Its messages, tool calls and results, oldest first."""
        return each(self._send, partial(calls.list_conversation_messages, state_key))

    def change(
        self,
        state_key: str,
        *,
        title: str | None = None,
        pinned: bool | None = None,
        archived: bool | None = None,
    ) -> Conversation:
        """Rename, pin or archive it; None stays as it is."""
        return self._send(calls.change_conversation(state_key, title=title, pinned=pinned, archived=archived))

    def export(self, state_key: str, format_: Literal["markdown", "json"] = "markdown") -> bytes:
        """All its messages as one document."""
        return self._send(calls.export_conversation(state_key, format_))

    def share(
        self, state_key: str, *, expires_at: datetime | None = None, with_tool_calls: bool = False
    ) -> CreatedShare:
        """A link by which anybody reads what it has now, for 30 days by default; needs `runs:share`."""
        return self._send(
            calls.create_share(state_key, expires_at=expires_at, with_tool_calls=with_tool_calls)
        )

    def shares(self, state_key: str) -> Sequence[Share]:
        """Its links that have not expired, newest first."""
        return self._send(calls.list_shares(state_key)).items

    def revoke_share(self, state_key: str, share_id: str) -> None:
        """End a link at once."""
        self._send(calls.revoke_share(state_key, share_id))

    def fork(self, state_key: str, *, at: str | None = None, new_key: str | None = None) -> Conversation:
        """Copy it up to and including the run `at`, or whole."""
        return self._send(calls.fork_conversation(state_key, at=at, new_key=new_key))

    def branches(self, state_key: str) -> Sequence[Branch]:
        """The branches that edited messages and repeated answers have begun, oldest first."""
        return self._send(calls.list_branches(state_key)).items

    def files(self, state_key: str) -> ConversationFiles:
        """The files that its next turn begins with, if its graph keeps the workspace."""
        return self._send(calls.list_workspace(state_key))

    def grants(self, state_key: str) -> Sequence[Grant]:
        """What `for_conversation` decisions have allowed, newest first."""
        return self._send(calls.list_grants(state_key)).items

    def revoke(self, state_key: str, grant_id: str) -> None:
        """Ask a person about the next call of the tool again."""
        self._send(calls.revoke_grant(state_key, grant_id))

    def return_to(self, state_key: str, branch_id: str) -> Sequence[Branch]:
        """Continue it on this branch; a `Conflict` while one of its runs is active."""
        return self._send(calls.return_to_branch(state_key, branch_id)).items

    def delete(self, state_key: str) -> None:
        """Delete its transcript, with its share links; its runs and receipts stay."""
        self._send(calls.delete_conversation(state_key))


class AsyncConversations:
    """The runs with one `state_key` form a conversation."""

    def __init__(self, send: AsyncSend) -> None:
        self._send = send

    def list(self, **filters: Unpack[ConversationFilters]) -> AsyncIterator[Conversation]:
        """All conversations that match, most recently used first."""
        return each_async(self._send, partial(calls.list_conversations, filters))

    async def get(self, state_key: str) -> Conversation:
        """One conversation."""
        return await self._send(calls.get_conversation(state_key))

    def messages(self, state_key: str) -> AsyncIterator[ConversationMessage]:
        """Its messages, tool calls and results, oldest first."""
        return each_async(self._send, partial(calls.list_conversation_messages, state_key))

    async def change(
        self,
        state_key: str,
        *,
        title: str | None = None,
        pinned: bool | None = None,
        archived: bool | None = None,
    ) -> Conversation:
        """Rename, pin or archive it; None stays as it is."""
        return await self._send(
            calls.change_conversation(state_key, title=title, pinned=pinned, archived=archived)
        )

    async def export(self, state_key: str, format_: Literal["markdown", "json"] = "markdown") -> bytes:
        """All its messages as one document."""
        return await self._send(calls.export_conversation(state_key, format_))

    async def share(
        self, state_key: str, *, expires_at: datetime | None = None, with_tool_calls: bool = False
    ) -> CreatedShare:
        """A link by which anybody reads what it has now, for 30 days by default; needs `runs:share`."""
        return await self._send(
            calls.create_share(state_key, expires_at=expires_at, with_tool_calls=with_tool_calls)
        )

    async def shares(self, state_key: str) -> Sequence[Share]:
        """Its links that have not expired, newest first."""
        return (await self._send(calls.list_shares(state_key))).items

    async def revoke_share(self, state_key: str, share_id: str) -> None:
        """End a link at once."""
        await self._send(calls.revoke_share(state_key, share_id))

    async def fork(
        self, state_key: str, *, at: str | None = None, new_key: str | None = None
    ) -> Conversation:
        """Copy it up to and including the run `at`, or whole."""
        return await self._send(calls.fork_conversation(state_key, at=at, new_key=new_key))

    async def branches(self, state_key: str) -> Sequence[Branch]:
        """The branches that edited messages and repeated answers have begun, oldest first."""
        return (await self._send(calls.list_branches(state_key))).items

    async def files(self, state_key: str) -> ConversationFiles:
        """The files that its next turn begins with, if its graph keeps the workspace."""
        return await self._send(calls.list_workspace(state_key))

    async def grants(self, state_key: str) -> Sequence[Grant]:
        """What `for_conversation` decisions have allowed, newest first."""
        return (await self._send(calls.list_grants(state_key))).items

    async def revoke(self, state_key: str, grant_id: str) -> None:
        """Ask a person about the next call of the tool again."""
        await self._send(calls.revoke_grant(state_key, grant_id))

    async def return_to(self, state_key: str, branch_id: str) -> Sequence[Branch]:
        """Continue it on this branch; a `Conflict` while one of its runs is active."""
        return (await self._send(calls.return_to_branch(state_key, branch_id))).items

    async def delete(self, state_key: str) -> None:
        """Delete its transcript, with its share links; its runs and receipts stay."""
        await self._send(calls.delete_conversation(state_key))
