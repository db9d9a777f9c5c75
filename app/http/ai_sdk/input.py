"""ChatRequest: what `useChat` posts, and its conversion to a `GraphRunRequest`."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from app.errors import Invalid
from app.executors.client_calls import ClientToolResult
from app.graphs.spec import GraphSpec
from app.http.ai_sdk.ui_message import MOST_ANSWERED, UiMessage, UiPart, read_leniently
from app.http.attachments import posted_attachment
from app.http.posted_turns import messages_of, posted_turns
from app.ids import STATE_KEY_PATTERN
from app.requests import run_request
from app.requests.attribution import Attributed, Metadata, labels_in
from app.requests.client_tools import MOST_DESCRIBED, ClientTool
from app.requests.messages import ContentPart, TextPart, is_blank_content
from app.runs.chats import Chat, ChatMessage, ShownMessage
from app.runs.planner import SystemMessageRefused
from app.runs.requests.attachments import DEFAULT_RULES, AttachmentRules, unreadable

_APPROVAL_STATES = frozenset({"approval-requested", "approval-responded", "output-denied"})


def _dict_or_list(tools: object) -> object:
    """What has no tools in any form that is known is none: other servers have options of this name."""
    return tools if isinstance(tools, dict | list) else None


def _or_none(value: object) -> object:
    """What a template's empty selection box posts is no selection."""
    return None if value == "" else value


def _if_metadata(given: object, validate: ValidatorFunctionWrapHandler) -> Any:
    """What other programs have in a field of this name is ignored unless it is metadata of a run."""
    try:
        return validate(given)
    except ValidationError:
        return None


class ChatRequest(run_request.ModelChoices, Attributed):
    """The body of `DefaultChatTransport`, and the fields of a run that its option `body` can add.

    Other fields are ignored: assistant-ui and templates for chats add `metadata`, `system` and more.
    """

    model_config = ConfigDict(extra="ignore")

    id: Annotated[str, Field(pattern=STATE_KEY_PATTERN)]
    """The chat; the conversation's `stateKey`."""
    message: UiMessage | None = None
    """The new message, instead of `messages`: what a transport sends that posts the last message only."""
    messages: Annotated[list[UiMessage], Field(default=None, min_length=1, validate_default=True)]
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    message_id: str | None = None
    """The message that is regenerated or edited; null for a new one."""
    model: Annotated[Annotated[str, Field(max_length=200)] | None, BeforeValidator(_or_none)] = None
    tool_ids: list[str] | None = None
    on_conflict: run_request.OnConflict = "enqueue"
    response_format: run_request.ResponseFormat | None = None
    limits: run_request.RunLimits = run_request.RunLimits()
    files: tuple[run_request.UploadedFile, ...] = ()
    on_disconnect: run_request.OnDisconnect | None = None
    metadata: Annotated[Metadata | None, WrapValidator(_if_metadata), WithJsonSchema({})] = None
    approve_for_conversation: Annotated[bool, Field(strict=True)] = False
    """Whether the approvals of tool calls that it contains are for the rest of the conversation."""

    tools: Annotated[
        dict[str, Any] | list[Any] | None, BeforeValidator(_dict_or_list), WithJsonSchema({})
    ] = None
    """Tools that the client executes: by name `{description, parameters}` or `{description, inputSchema}`, or
    a list as `clientTools` of a run. Those that cannot be used are left out."""

    @model_validator(mode="before")
    @classmethod
    def _without_null(cls, body: object) -> object:
        """Templates post null for what is not chosen."""
        if not isinstance(body, dict):
            return body
        return {name: value for name, value in body.items() if value is not None}

    @field_validator("messages", mode="wrap")
    @classmethod
    def _one_or_all(
        cls, messages: Any, validate: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> list[UiMessage]:
        if (message := info.data.get("message")) is None:
            if messages is None and "message" in info.data:
                kind = "missing"
                raise PydanticCustomError(kind, "is required")
            return read_leniently(messages, validate)
        if messages is not None:
            both = "cannot be combined with message: send the one or the other"
            raise ValueError(both)
        return [message]

    @property
    def described_tools(self) -> list[Any]:
        """The client's tools in the form of `clientTools`, if they are valid; as many as are looked at."""
        if isinstance(self.tools, dict):
            return [_described(name, tool) for name, tool in islice(self.tools.items(), MOST_DESCRIBED)]
        return (self.tools or [])[:MOST_DESCRIBED]

    @property
    def answered_message(self) -> UiMessage | None:
        """The assistant's message with results of client tools, if it is the last one.

        Raises `Invalid` for one with too many.
        """
        last = self.messages[-1]
        if last.role != "assistant" or self.trigger == "regenerate-message":
            return None
        self._require_few(last, [part.tool_result is not None for part in last.parts])
        return last if last.tool_results else None

    @property
    def left_tool_results(self) -> dict[str, ClientToolResult]:
        """The results of client tools in the last answer, where a message of the user follows it."""
        answers = (each for each in reversed(self.messages[:-1]) if each.role == "assistant")
        answer = next(answers, None)
        return {} if answer is None or self.trigger == "regenerate-message" else answer.tool_results

    @property
    def decided_message(self) -> UiMessage | None:
        """The assistant's message with a person's decisions; None if this posts a user message.

        Raises `Invalid` for one with too many.
        """
        if self.trigger == "regenerate-message":
            return None
        named = [each for each in self.messages if each.id == self.message_id]
        for message in (*named, self.messages[-1]):
            is_decided = [part.is_decided for part in message.parts]
            if message.role == "assistant" and any(is_decided):
                self._require_few(message, is_decided)
                return message
        return None

    def _require_few(self, message: UiMessage, answered: Sequence[bool]) -> None:
        if sum(answered) > MOST_ANSWERED:
            field = f"messages.{self.messages.index(message)}.parts"
            raise Invalid.field(field, f"must not answer more than {MOST_ANSWERED} tool calls")

    @property
    def shows_approvals(self) -> bool:
        """Whether a posted message has what version 5 of `ai` does not know: the approval of a tool call."""
        parts = [part for message in self.messages for part in message.parts]
        return any(part.approval is not None or part.state in _APPROVAL_STATES for part in parts)

    @property
    def is_whole_view(self) -> bool:
        """Whether the client posts all that it shows: its own transport always sends a trigger."""
        return "trigger" in self.model_fields_set and self.message is None

    @property
    def view(self) -> list[tuple[int, UiMessage]]:
        """The messages up to the one to answer, with their indexes; raises `Invalid` if it is not the user's.

        Of a regenerated answer some clients post what came after the user's message, too.
        """
        shown = [(index, each) for index, each in enumerate(self.messages) if each.role != "system"]
        if self.trigger == "regenerate-message":
            named = [place for place, (_, each) in enumerate(shown) if each.id == self.message_id]
            if named:
                is_users = shown[named[-1]][1].role == "user"
                shown = shown[: named[-1] + is_users]
            while shown and shown[-1][1].role == "assistant":
                shown.pop()
        if not shown or shown[-1][1].role != "user":
            field = f"messages.{len(self.messages) - 1}"
            raise Invalid.field(field, "must be the user's, or hold a decision on an approval request")
        return shown

    def require_no_system(self, spec: GraphSpec) -> None:
        """Raise `SystemMessageRefused` naming the first message that would extend the system prompt."""
        if spec.allow_system_messages:
            return
        for index, message in enumerate(self.messages):
            if message.role == "system":
                raise SystemMessageRefused.at(index, spec)

    def chat_message(
        self,
        graph_id: str,
        tools: Sequence[ClientTool] = (),
        rules: AttachmentRules = DEFAULT_RULES,
    ) -> ChatMessage:
        """The user's message to answer; raises `Invalid` if there is none.

        Its request can be built if it can be converted; `Invalid` names what cannot.
        """
        view = self.view
        index, new = view[-1]
        new_content = cache(partial(_new_content, index, new, rules))
        return ChatMessage(
            chat=Chat(graph_id, self.id),
            message_id=new.id,
            regenerate=self.trigger == "regenerate-message",
            posted=[each.id for _, each in view],
            first_unanswered=_first_unanswered([each for _, each in view]),
            is_whole_view=self.is_whole_view,
            chars=sum(part.chars for each in self.messages for part in each.parts),
            build_request=partial(self._build_request, graph_id, view, new_content, tools, rules),
            answer_before=_last_answer([each for _, each in view[:-1]]),
        )

    def _build_request(
        self,
        graph_id: str,
        view: Sequence[tuple[int, UiMessage]],
        new_content: Callable[[], list[ContentPart]],
        tools: Sequence[ClientTool],
        rules: AttachmentRules,
        first_new: int,
        *,
        with_history: bool,
    ) -> run_request.GraphRunRequest:
        """The run of the last message and of what was posted before it since `first_new`.

        `with_history`: the messages before it are earlier turns; otherwise those of the user are part of it.
        """
        system = [(index, each) for index, each in enumerate(self.messages) if each.role == "system"]
        before = [each for _, each in view[first_new:-1] if with_history or each.role == "user"]
        earlier = [(each.role, _readable_content(each, rules)) for each in before]
        messages = [
            *(
                message
                for each in system
                for message in messages_of("system", [part for _, part in _content_of(*each)])
            ),
            *posted_turns(earlier, new_content(), rules, with_history=with_history),
        ]
        return run_request.GraphRunRequest.of(
            graph_id=graph_id,
            messages=messages,
            model=self.model,
            tool_ids=self.tool_ids,
            state_key=self.id,
            on_conflict=self.on_conflict,
            response_format=self.response_format,
            effort=self.effort,
            thinking_budget_tokens=self.thinking_budget_tokens,
            task_budget=self.task_budget,
            limits=self.limits,
            **labels_in(self),
            files=self.files,
            on_disconnect=self.on_disconnect,
            client_tools=tuple(tools),
        )


def _described(name: str, tool: Any) -> Any:
    """A tool as `useChat` transports post it, in the form of `clientTools`."""
    if not isinstance(tool, dict):
        return None
    schema = tool.get("inputSchema", tool.get("parameters"))
    return {
        "name": name,
        "description": tool.get("description") or "",
        "inputSchema": {} if schema is None else schema,
    }


def _first_unanswered(view: Sequence[UiMessage]) -> int:
    """The index of the first of the user's messages at the end of a view."""
    answers = (index for index in reversed(range(len(view))) if view[index].role == "assistant")
    return next(answers, -1) + 1


def _last_answer(view: Sequence[UiMessage]) -> ShownMessage | None:
    """The last answer in a view, as far as its page has read it."""
    answers = (each for each in reversed(view) if each.role == "assistant")
    if (answer := next(answers, None)) is None:
        return None
    texts = [part.text for part in answer.parts if part.type == "text" and not part.is_discarded]
    calls = [part for part in answer.parts if part.tool_call_id is not None]
    return ShownMessage(answer.id, "".join(text or "" for text in texts), len(calls))


def _content_of(index: int, posted: UiMessage) -> Iterator[tuple[str, ContentPart]]:
    """The texts of a message and a user's attachments, with the fields of their parts.

    Raises `Invalid` naming a part that is neither.
    """
    for number, ui_part in enumerate(posted.parts):
        field = f"messages.{index}.parts.{number}"
        for part in _content(ui_part, posted.role, field=field):
            yield field, part


def _new_content(index: int, posted: UiMessage, rules: AttachmentRules) -> list[ContentPart]:
    """The content of the message to answer; raises `Invalid` if it has none, or breaks a rule."""
    content = list(_content_of(index, posted))
    if is_blank_content([part for _, part in content]):
        field = f"messages.{index}.parts"
        raise Invalid.field(field, "must hold an attachment or a text that is not blank")
    rules.check((field, part) for field, part in content if not isinstance(part, TextPart))
    return [part for _, part in content]


def _readable_content(posted: UiMessage, rules: AttachmentRules) -> list[ContentPart]:
    """The same of an earlier message: what cannot be converted, or is not allowed, is replaced by a note."""
    return [part for ui_part in posted.parts for part in _readable(ui_part, posted.role, rules)]


def _readable(part: UiPart, role: str, rules: AttachmentRules) -> list[ContentPart]:
    try:
        content = list(_content(part, role, field=""))
        rules.check(("", each) for each in content if not isinstance(each, TextPart))
    except Invalid:
        return [unreadable(part.type)]
    return content


def _content(part: UiPart, role: str, *, field: str) -> Iterator[ContentPart]:
    match part.type:
        case "text" if part.text:
            yield TextPart(type="text", text=part.text)
        case "file" if role == "user":
            yield posted_attachment(part.media_type, url=part.url, title=part.filename, field=f"{field}.url")
        case _:
            return
