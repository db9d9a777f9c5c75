"""JSON of share links, and of what they show."""

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

from pydantic import Field, StrictBool

from app.http.api.conversations.schemas import ConversationMessageResponse
from app.http.response_model import Moment, ResponseModel
from app.requests.wire_models import InputModel, UtcMoment
from app.runs.conversations.sharing.records import ConversationShare, SharedPage


class ShareResponse(ResponseModel):
    """A share link of a conversation; `lastRun` is the last run that it shows."""

    id: UUID
    last_run: str
    with_tool_calls: bool
    api_key_id: UUID
    created_at: Moment
    expires_at: Moment


class CreatedShare(ShareResponse):
    """A new share link; `url` and `token` cannot be retrieved later."""

    url: str
    token: str

    @classmethod
    def of(cls, share: ConversationShare, token: str, page: str) -> "CreatedShare":
        # Browsers do not send what is after `#`, so that no log has it.
        return cls.built_from(share, url=f"{page}#{token}", token=token)


class NewShare(InputModel):
    """What a share link shows, and until when: 30 days by default."""

    expires_at: UtcMoment | None = None
    with_tool_calls: Annotated[
        StrictBool, Field(description="Whether tool calls are shown, with their arguments and results.")
    ] = False


class SharedConversation(ResponseModel):
    """A page of a shared conversation, oldest messages first; `nextCursor` is null on the last page."""

    title: str | None
    shared_at: Moment
    expires_at: Moment
    messages: Sequence[ConversationMessageResponse]
    next_cursor: str | None

    @classmethod
    def of(cls, page: SharedPage) -> "SharedConversation":
        return cls(
            title=page.title,
            shared_at=page.share.created_at,
            expires_at=page.share.expires_at,
            messages=[ConversationMessageResponse.of(entry) for entry in page.entries],
            next_cursor=page.next_cursor,
        )
