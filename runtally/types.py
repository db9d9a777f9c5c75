"""What the server responds with: money as `Decimal`, times as aware `datetime`."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal

from pydantic import AwareDatetime

from runtally.errors import RuntallyError
from runtally.model import Model


class FinalUsage(Model):
    """Tokens of a run."""

    prompt_tokens: int
    completion_tokens: int


class FileChange(Model):
    """A file that a run has changed; `change`: `created`, `changed` or `deleted`."""

    path: str
    change: str
    diff: str | None = None
    """How its text differs, in the unified format; None of a file that is not text, or too large."""


class FileChanges(Model):
    """The files of a workspace that a run has changed, by path; `more` are not named."""

    files: list[FileChange]
    more: int = 0


class GraphFinal(Model):
    """How a run ended. `error` is None if it succeeded; the codes are in docs/api/runs.md."""

    ok: bool
    run_id: str
    request_id: str | None = None
    content: str
    structured_output: Any = None
    error: str | None = None
    finish_reason: str
    usage: FinalUsage
    context_used: int | None = None
    """The tokens of the model's last prompt and answer."""
    context_window: int | None = None
    """How many they may have, if the server knows it."""
    file_changes: FileChanges | None = None

    def raise_for_error(self) -> "GraphFinal":
        """Return itself; raises `RunFailed` for a run without an answer."""
        if not self.ok:
            raise RunFailed(self)
        return self


class RunFailed(RuntallyError):
    """The run ended without an answer; raised by `GraphFinal.raise_for_error` only."""

    def __init__(self, final: GraphFinal) -> None:
        self.final = final
        super().__init__(f"The run {final.run_id} failed: {final.error}.")


class StartedRun(Model):
    """A run that executes in the background; `status` is `queued`, `running`, `succeeded` …."""

    run_id: str
    status: str


class RunBilling(Model):
    """The charges of a run so far."""

    receipts: int
    cost_usd: Decimal
    web_search_requests: int = 0
    web_fetch_requests: int = 0


class RunFile(Model):
    """A file of a run's workspace; `origin`: `uploaded`, `created`, `changed`, or `kept` from before."""

    path: str
    bytes: int
    sha256: str
    media_type: str
    origin: str


class Evidence(Model):
    """A prompt, capability or decision of a run; what `content` has depends on `type`."""

    position: int
    at: AwareDatetime
    type: str
    content: dict[str, Any]


class Feedback(Model):
    """What a person thinks of the answer of a run."""

    rating: Literal["up", "down"]
    note: str | None = None
    at: AwareDatetime


class Run(Model):
    """The state of a run. `final` is None until it has ended, `billing` without `receipts:read`."""

    run_id: str
    graph_id: str
    model: str
    status: str
    attempt: int
    state_key: str | None = None
    created_at: AwareDatetime
    started_at: AwareDatetime | None = None
    ended_at: AwareDatetime | None = None
    final: GraphFinal | None = None
    end_user: str | None = None
    tags: Mapping[str, str] | None = None
    metadata: Mapping[str, str] | None = None
    feedback: Feedback | None = None
    billing: RunBilling | None = None


class Quantiles(Model):
    """Half of the runs, and 95 of 100, needed no more."""

    p50: Decimal
    p95: Decimal


class Forecast(Model):
    """What is expected, in dollars and seconds; `runs`: how many runs it follows from."""

    cost_usd: Quantiles
    seconds: Quantiles
    runs: int


class RunPreview(Model):
    """A run that could be started; all other fields are in `model_extra`."""

    graph_id: str
    model: str
    system_prompt: str
    timeout_s: float
    forecast: Forecast | None = None


class BatchCounts(Model):
    """How many items there are in each state."""

    pending: int
    running: int
    succeeded: int
    failed: int
    cancelled: int
    refused: int


class Batch(Model):
    """A batch and how far it has come.

    `status`: `running`, `stopping`, `completed`, `stopped` or `cancelled`; `reason` says why it was stopped.
    `cost_usd` is None without `receipts:read`; only a new batch has a `forecast`.
    """

    batch_id: str
    graph_id: str
    status: str
    reason: str | None = None
    items: int
    counts: BatchCounts
    parallelism: int
    max_usd: Decimal | None = None
    cost_usd: Decimal | None = None
    created_at: AwareDatetime
    ended_at: AwareDatetime | None = None
    forecast: Forecast | None = None


class BatchPreview(Model):
    """A batch that could be started."""

    graph_id: str
    items: int
    forecast: Forecast | None = None


class BatchResult(Model):
    """An item that has ended; without an answer `error` says why. `run_id` is None without a run."""

    custom_id: str
    run_id: str | None = None
    status: str
    result: GraphFinal | None = None
    error: str | None = None
    cost_usd: Decimal | None = None
    usage: FinalUsage


class SentMessage(Model):
    """A message to a running agent; `position` is None if it was not yet delivered."""

    run_id: str
    message_id: str
    position: int | None = None


class Conversation(Model):
    """A conversation: the runs with one `state_key`."""

    state_key: str
    title: str | None = None
    turns: int
    forked_from: str | None = None
    forked_at: str | None = None
    branches: int = 1
    pinned: bool = False
    archived: bool = False
    created_at: AwareDatetime
    updated_at: AwareDatetime
    found_in_run: str | None = None
    """In a list, the newest run with what was searched for; None: it is in the title."""


class Share(Model):
    """A link by which anybody reads a conversation, up to its run `last_run`."""

    id: str
    last_run: str
    with_tool_calls: bool
    api_key_id: str
    created_at: AwareDatetime
    expires_at: AwareDatetime


class CreatedShare(Share):
    """A new link; `url` and its `token` cannot be retrieved later."""

    url: str
    token: str


class ConversationFiles(Model):
    """What the next turn of a conversation begins with: the files of the run `run_id`, if there are any."""

    run_id: str | None = None
    items: tuple[RunFile, ...]


class Branch(Model):
    """A branch of a conversation; `runs` and `cost_usd` count what no earlier branch has."""

    branch_id: str
    forked_from_run: str | None = None
    forked_from_branch: str | None = None
    runs: int
    last_run: str | None = None
    created_at: AwareDatetime
    is_current: bool
    cost_usd: Decimal | None = None


class Approval(Model):
    """What waits for a person: `kind` is `approval`, `question`, `client_tool` or `budget`."""

    run_id: str
    request_id: str
    kind: str
    graph_id: str
    state_key: str | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    args: Any = None
    input_schema: dict[str, Any] | None = None
    grantable: bool = False
    source: str | None = None
    questions: Sequence[Any] | None = None
    budget: dict[str, Any] | None = None
    """`spentUsd` and `maxBudgetUsd` of a budget; None for keys without `receipts:read`."""
    requested_at: AwareDatetime
    expires_at: AwareDatetime


class Grant(Model):
    """A tool that runs of this graph call in the conversation without asking a person."""

    id: str
    graph_id: str
    tool_name: str
    api_key_id: str
    created_at: AwareDatetime


class CitedPage(Model):
    """A page that an answer is based on, and an excerpt of it."""

    url: str
    title: str | None = None
    cited_text: str


class ConversationMessage(Model):
    """A message, tool call or result of a conversation; `type` decides which fields are present."""

    type: str
    run_id: str | None = None
    at: AwareDatetime | None = None
    content: str | None = None
    message_id: str | None = None
    partial: bool | None = None
    citations: tuple[CitedPage, ...] = ()
    tool_call_id: str | None = None
    tool_name: str | None = None
    args: Any = None
    result: Any = None
    is_error: bool | None = None
    ok: bool | None = None
    error: str | None = None
    finish_reason: str | None = None
    cost_usd: Decimal | None = None
    feedback: Feedback | None = None


class Suggestion(Model):
    """A message that people may begin with, and what to show for it."""

    title: str
    message: str


class Graph(Model):
    """A graph that runs can name."""

    id: str
    title: str | None = None
    """What people call it; None from a server that has no titles yet."""
    icon: str | None = None
    """An emoji."""
    suggestions: tuple[Suggestion, ...] = ()
    input: dict[str, Any] | None = None
    """The JSON schema of the `input` that a run may have in place of a prompt."""
    output: dict[str, Any] | None = None
    """The JSON schema of answers, if a run has none of its own."""
    description: str
    provider: str
    model: str | None = None
    tools: tuple[str, ...] = ()


class ToolDescription(Model):
    """A tool that graphs can use."""

    id: str
    description: str
    effect: str
    input_schema: dict[str, Any]


class LanguageModel(Model):
    """A model, its aliases and prices; a model that is not priced cannot be used."""

    id: str
    aliases: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    priced: bool
