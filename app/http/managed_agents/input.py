"""The bodies that clients of Managed Agents post, and what our requests have of them; pure."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, TypeAdapter, ValidationError

from app.errors import Invalid
from app.http.attachments import posted_attachment
from app.ids import ApiKeyId
from app.platform.serialization.mistakes import problem_of
from app.requests.attachments import PART_CHARS
from app.requests.attribution import Attributed, Metadata
from app.requests.client_tools import ClientTool, ClientTools
from app.requests.messages import ContentPart, DocumentPart, TextPart, is_blank_content
from app.runs.managed.records import SessionSettings
from app.runs.requests.attachments import AttachmentRules

ENVIRONMENT: Final = "env_default"
MOST_EVENTS: Final = 50
_CENT: Final = Decimal("0.01")


class ManagedInput(BaseModel):
    """An unknown field is an error: it may be a restriction that this server does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _must_be_empty(given: object) -> object:
    if given:
        raise ValueError("must be left out: it is not served")
    return given


NotServed: TypeAlias = Annotated[list[Any], AfterValidator(_must_be_empty)]
_Title: TypeAlias = Annotated[str, Field(max_length=500, pattern=r"^[^\x00]*$")]


class Source(ManagedInput):
    """Where the content of a block is."""

    type: Literal["base64", "text", "url"]
    data: str | None = None
    media_type: str | None = None
    url: str | None = None


class TextBlock(ManagedInput):
    """A text."""

    type: Literal["text"]
    text: str

    @property
    def chars(self) -> int:
        """Its length."""
        return len(self.text)


class SourcedBlock(ManagedInput):
    """A block with a source."""

    source: Source

    @property
    def chars(self) -> int:
        """The length of its content."""
        return len(self.source.data or "")


class ImageBlock(SourcedBlock):
    """An image."""

    type: Literal["image"]


class DocumentBlock(SourcedBlock):
    """A PDF or a text."""

    type: Literal["document"]
    title: str | None = None
    context: str | None = None


Block: TypeAlias = Annotated[TextBlock | ImageBlock | DocumentBlock, Field(discriminator="type")]


class UserMessage(ManagedInput):
    """A message of the user."""

    type: Literal["user.message"]
    content: Annotated[list[Block], Field(min_length=1)]

    @property
    def chars(self) -> int:
        """About how many characters it has."""
        return sum(PART_CHARS + each.chars for each in self.content)

    def ours(self, field: str, rules: AttachmentRules) -> str | list[ContentPart]:
        """Its content as ours; raises `Invalid` naming what cannot be sent. Takes long for attachments."""
        fields = [f"{field}.content.{number}" for number in range(len(self.content))]
        parts = [_part(each, field=name) for each, name in zip(self.content, fields, strict=True)]
        if is_blank_content(parts):
            raise Invalid.field(f"{field}.content", "must hold an attachment or a text that is not blank")
        rules.check((name, part) for name, part in zip(fields, parts, strict=True) if part.type != "text")
        return parts[0].text if len(parts) == 1 and isinstance(parts[0], TextPart) else parts


class UserInterrupt(ManagedInput):
    """Stops the turn."""

    type: Literal["user.interrupt"]
    session_thread_id: Annotated[str | None, AfterValidator(_must_be_empty)] = None


class ToolConfirmation(ManagedInput):
    """A person's decision about a call."""

    type: Literal["user.tool_confirmation"]
    tool_use_id: Annotated[str, Field(max_length=300)]
    result: Literal["allow", "deny"]
    deny_message: Annotated[str, Field(min_length=1, max_length=4_000)] | None = None


class CustomToolResult(ManagedInput):
    """The result of a call that the client has executed, or the answer to a question."""

    type: Literal["user.custom_tool_result"]
    custom_tool_use_id: Annotated[str, Field(max_length=300)]
    content: list[TextBlock] = []
    is_error: StrictBool | None = None

    @property
    def text(self) -> str:
        """Its texts, joined."""
        return "\n\n".join(each.text for each in self.content)


PostedEvent: TypeAlias = Annotated[
    UserMessage | UserInterrupt | ToolConfirmation | CustomToolResult, Field(discriminator="type")
]


class PostedEvents(ManagedInput):
    """The events that are sent to a session, in order."""

    events: Annotated[list[PostedEvent], Field(min_length=1, max_length=MOST_EVENTS)]


class CustomTool(ManagedInput):
    """A tool that the client executes."""

    type: Literal["custom"]
    name: str
    description: str
    input_schema: dict[str, Any]


_CLIENT_TOOLS: Final = TypeAdapter[tuple[ClientTool, ...]](ClientTools)


def client_tools(tools: Sequence[CustomTool]) -> tuple[ClientTool, ...]:
    """Those of an agent as ours; raises `Invalid`."""
    described = [each.model_dump(exclude={"type", "input_schema"}) for each in tools]
    schemas = [{"inputSchema": each.input_schema} for each in tools]
    try:
        return _CLIENT_TOOLS.validate_python(
            [{**one, **schema} for one, schema in zip(described, schemas, strict=True)]
        )
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, ("agent.tools", *fault["loc"])))
        raise Invalid.field(where, problem_of(fault)) from error


class ChosenModel(ManagedInput):
    """A model with its settings, of which only the model can be chosen here."""

    id: str


class AgentReference(ManagedInput):
    """A graph, and for `agent_with_overrides` what this session has instead of the graph's."""

    type: Literal["agent", "agent_with_overrides"]
    id: str
    version: Literal[1] | None = None
    model: str | ChosenModel | None = None
    tools: list[CustomTool] = []


class MonetaryAmount(ManagedInput):
    """Cents as an integer in quotes: "2500" is $25.00."""

    amount: Annotated[str, Field(pattern=r"^[1-9][0-9]{0,11}$")]
    currency: Literal["USD"]

    @property
    def usd(self) -> Decimal:
        """In dollars."""
        return int(self.amount) * _CENT


class BudgetLimit(ManagedInput):
    """The most that the runs of a session may cost."""

    type: Literal["limit"]
    max_list_cost: MonetaryAmount


class NewSession(ManagedInput):
    """A session to create."""

    agent: Annotated[str, Field(max_length=200)] | AgentReference
    environment_id: Literal["env_default"]
    title: _Title | None = None
    metadata: Metadata = {}
    budget: BudgetLimit | None = None
    initial_events: Annotated[list[UserMessage], Field(max_length=MOST_EVENTS)] = []
    resources: NotServed = []
    vault_ids: NotServed = []

    def settings(self, api_key_id: ApiKeyId) -> SessionSettings:
        """What its runs have; raises `Invalid` for tools that no run takes."""
        chosen = AgentReference(type="agent", id=self.agent) if isinstance(self.agent, str) else self.agent
        model = chosen.model.id if isinstance(chosen.model, ChosenModel) else chosen.model
        return SessionSettings(
            graph_id=chosen.id,
            api_key_id=api_key_id,
            model=model,
            tools=client_tools(chosen.tools),
            metadata=self.metadata,
            budget_usd=None if self.budget is None else self.budget.max_list_cost.usd,
        )


class ChangedAgent(ManagedInput):
    """The tools that the client executes from now on."""

    tools: list[CustomTool]


class ChangedSession(ManagedInput):
    """What of a session changes; what is left out stays."""

    title: _Title | None = None
    metadata: Annotated[dict[str, str | None], Field(max_length=32)] | None = None
    """A name with null is deleted."""
    budget: BudgetLimit | None = None
    """Null: none any more."""
    agent: ChangedAgent | None = None

    def applied_to(self, settings: SessionSettings) -> SessionSettings:
        """The settings with these changes; raises `Invalid`."""
        changes: dict[str, Any] = {}
        if "budget" in self.model_fields_set:
            changes["budget_usd"] = None if self.budget is None else self.budget.max_list_cost.usd
        if self.agent is not None:
            changes["tools"] = client_tools(self.agent.tools)
        if self.metadata is not None:
            changes["metadata"] = patched(settings.metadata, self.metadata)
        return settings.model_copy(update=changes)


def patched(metadata: Mapping[str, str], patch: Mapping[str, str | None]) -> Mapping[str, str]:
    """The metadata with these changes, of which null deletes; raises `Invalid`."""
    found = {name: value for name, value in {**metadata, **patch}.items() if value is not None}
    try:
        return Attributed.of(metadata=found).metadata or {}
    except ValidationError as error:
        raise Invalid.field("metadata", problem_of(error.errors()[0])) from error


def _part(block: Block, *, field: str) -> ContentPart:
    if isinstance(block, TextBlock):
        return TextPart(type="text", text=block.text)
    source, title = block.source, block.title if isinstance(block, DocumentBlock) else None
    if source.type == "text":
        if not isinstance(block, DocumentBlock) or not source.data:
            raise Invalid.field(f"{field}.source", "must be the text of a document")
        return DocumentPart.of(type="document", media_type="text/plain", text=source.data, title=title)
    given = source.data if source.type == "base64" else source.url
    if given is None:
        raise Invalid.field(f"{field}.source", "must have data or a url, as its type says")
    place = "data" if source.type == "base64" else "url"
    return posted_attachment(
        source.media_type,
        **{place: given},
        type_of_part=block.type,
        title=title,
        field=f"{field}.source.{place}",
    )
