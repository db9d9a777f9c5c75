"""Client: a blocking client of a Runtally server."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Self, TypeVar, Unpack
from uuid import uuid4

import httpx

from runtally.accounts.budgets import Budgets
from runtally.accounts.service import Accounts
from runtally.batches import Batches
from runtally.client_tools import call, handler_of, require_over
from runtally.conversations import Conversations
from runtally.errors import Conflict, NotFound, RuntallyError
from runtally.events import ClientToolCall
from runtally.options import (
    ApprovalFilters,
    DecisionOptions,
    Priority,
    Prompt,
    ReceiptFilters,
    RunFilters,
    RunOptions,
    UsageOptions,
    body_of,
)
from runtally.protocol import calls
from runtally.protocol.billing import Balance, Receipt, UsageReport
from runtally.protocol.call import Call
from runtally.protocol.connection import DEFAULT_RETRIES, DEFAULT_TIMEOUT_S, Connection
from runtally.protocol.following import Following
from runtally.protocol.pages import each
from runtally.protocol.retries import Retries
from runtally.streams import RunStream
from runtally.types import (
    Approval,
    Evidence,
    Feedback,
    Graph,
    GraphFinal,
    LanguageModel,
    Run,
    RunFile,
    RunPreview,
    SentMessage,
    StartedRun,
    ToolDescription,
)

T = TypeVar("T")


class Client:
    """A blocking client of one server with one API key; may be used by several threads.

    `base_url` and `api_key` default to RUNTALLY_URL and RUNTALLY_API_KEY. `timeout_s` is how long a server
    may be silent, not how long a run may take. A request that fails for a passing reason is repeated
    `max_retries` times; none is executed twice. `transport` replaces httpx's, for example to trust a
    certificate of your own.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        max_retries: int = DEFAULT_RETRIES,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._connection = Connection.of(base_url, api_key, timeout_s=timeout_s, max_retries=max_retries)
        self._http = httpx.Client(transport=transport, **self._connection.http_options())
        self.conversations = Conversations(self.call)
        self.batches = Batches(self.call)
        self.accounts = Accounts(self.call)
        self.budgets = Budgets(self.call)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    @property
    def url(self) -> str:
        """The URL of the server."""
        return self._connection.url

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def run(self, graph: str, prompt: Prompt, **options: Unpack[RunOptions]) -> GraphFinal:
        """Run a graph and wait for its end.

        A connection that is lost meanwhile neither loses nor doubles the run. A run without an answer is a
        result as well: see `GraphFinal.raise_for_error`. The handlers of `client_tools` are called meanwhile.
        """
        tools = options.get("client_tools", ())
        with self.stream(graph, prompt, **options) as stream:
            for event in stream:
                if isinstance(event, ClientToolCall) and (handler := handler_of(event, tools)) is not None:
                    self._execute(stream.run_id, event, handler)
            return stream.result()

    def stream(self, graph: str, prompt: Prompt, **options: Unpack[RunOptions]) -> RunStream:
        """Run a graph and stream its events; the request is sent when the first one is read."""
        run_id = options.get("run_id") or str(uuid4())
        body = body_of(run_id, graph, prompt, options=options)
        return RunStream(self.call, self._http, Following(self._connection, run_id, body=body, after=0))

    def start(self, graph: str, prompt: Prompt, **options: Unpack[RunOptions]) -> StartedRun:
        """Start a run in the background."""
        run_id = options.get("run_id") or str(uuid4())
        return self.call(calls.start_run(body_of(run_id, graph, prompt, options=options)))

    def follow(self, run_id: str, *, after: int = 0) -> RunStream:
        """Stream the events of a run after a position."""
        return RunStream(self.call, self._http, Following(self._connection, run_id, body=None, after=after))

    def wait(self, run_id: str) -> GraphFinal:
        """Wait for the end of a run."""
        final = self.get(run_id).final
        if final is not None:
            return final
        with self.follow(run_id) as stream:
            return stream.result()

    def get(self, run_id: str) -> Run:
        """The state of a run."""
        return self.call(calls.get_run(run_id))

    def list_runs(self, **filters: Unpack[RunFilters]) -> Iterator[Run]:
        """All runs that match, newest first; pages are requested as they are read."""
        return each(self.call, partial(calls.list_runs, filters))

    def preview(self, graph: str, prompt: Prompt, **options: Unpack[RunOptions]) -> RunPreview:
        """Plan a run and forecast its cost, without starting it."""
        run_id = options.get("run_id") or str(uuid4())
        return self.call(calls.preview_run(body_of(run_id, graph, prompt, options=options)))

    def request(self, run_id: str) -> dict[str, Any]:
        """The request that has started a run, without its files and metadata."""
        return self.call(calls.get_request(run_id))

    def evidence(self, run_id: str) -> Iterator[Evidence]:
        """What a run did, oldest first: prompts, capabilities and decisions; needs `runs:audit`."""
        return each(self.call, partial(calls.list_evidence, run_id))

    def files(self, run_id: str) -> list[RunFile]:
        """The files that the agent of a run has left in its workspace."""
        return (self.call(calls.list_files(run_id))).items

    def read_file(self, run_id: str, path: str) -> bytes:
        """The content of a file of a run's workspace."""
        return self.call(calls.read_file(run_id, path))

    def archive(self, run_id: str, form: Literal["zip", "tar"] = "zip") -> bytes:
        """All files of a run's workspace as one archive."""
        return self.call(calls.read_archive(run_id, form))

    def give_feedback(self, run_id: str, rating: Literal["up", "down"], note: str | None = None) -> Feedback:
        """Keep what a person thinks of the answer of a run, in place of what they thought before."""
        return self.call(calls.give_feedback(run_id, rating, note))

    def change(self, run_id: str, *, permission_mode: str) -> None:
        """Change how further tool calls of a run are decided, within what its graph allows."""
        self.call(calls.change_run(run_id, permission_mode=permission_mode))

    def delete(self, run_id: str) -> None:
        """Delete the contents of an ended run: request, answer, events and files."""
        self.call(calls.delete_run(run_id))

    def cancel(self, run_id: str) -> StartedRun:
        """Cancel a run: it ends with `aborted`."""
        return self.call(calls.cancel_run(run_id))

    def interrupt(self, run_id: str, *, after_tool: bool = False) -> StartedRun:
        """Stop the current turn of a run; messages that wait are answered next.

        `after_tool`: a tool that is at work may finish first.
        """
        return self.call(calls.interrupt_run(run_id, after_tool=after_tool))

    def send(self, run_id: str, text: str, *, priority: Priority = "next") -> SentMessage:
        """Send a message to a running agent, once."""
        return self.call(calls.send_message(run_id, text, priority=priority))

    def decide(
        self, run_id: str, request_id: str, *, allow: bool, **options: Unpack[DecisionOptions]
    ) -> None:
        """Allow or deny a tool call that waits for consent."""
        self.call(calls.decide_permission(run_id, request_id, allow=allow, options=options))

    def answer(self, run_id: str, request_id: str, answers: Mapping[str, str | Sequence[str]] | None) -> None:
        """Answer a `QuestionAsked`, by the text of each question or its index; None declines to.

        An answer is an option's label, several of them where the question takes several, or any other text.
        """
        self.call(calls.answer_question(run_id, request_id, answers))

    def submit_tool_result(
        self, run_id: str, tool_call_id: str, result: Any, *, is_error: bool = False
    ) -> None:
        """Answer a `ClientToolCall`: any JSON for the model, or with `is_error` why the call has failed."""
        self.call(calls.submit_tool_result(run_id, tool_call_id, result, is_error=is_error))

    def _execute(self, run_id: str, called: ClientToolCall, handler: Callable[[dict[str, Any]], Any]) -> None:
        result, is_error = call(handler, called.args)
        try:
            self.submit_tool_result(run_id, called.tool_call_id, result, is_error=is_error)
        except (Conflict, NotFound) as error:
            require_over(error)

    def approvals(self, **filters: Unpack[ApprovalFilters]) -> Iterator[Approval]:
        """What waits for a person, newest first; `decide`, `answer` and `submit_tool_result` answer it."""
        return each(self.call, partial(calls.list_approvals, filters))

    def receipts(self, **filters: Unpack[ReceiptFilters]) -> Iterator[Receipt]:
        """All receipts that match, newest first; pages are requested as they are read."""
        return each(self.call, partial(calls.list_receipts, filters))

    def run_receipts(self, run_id: str) -> list[Receipt]:
        """The receipts of a run, oldest first."""
        return self.call(calls.list_run_receipts(run_id)).items

    def usage(self, **options: Unpack[UsageOptions]) -> UsageReport:
        """Sums over receipts; without `group_by` only the total."""
        return self.call(calls.get_usage(options))

    def balance(self) -> Balance:
        """The account's credit."""
        return self.call(calls.get_balance())

    def graphs(self) -> list[Graph]:
        """All graphs."""
        return self.call(calls.list_graphs()).items

    def tools(self) -> list[ToolDescription]:
        """All tools."""
        return self.call(calls.list_tools()).items

    def models(self) -> list[LanguageModel]:
        """All models that the server knows or a graph names."""
        return self.call(calls.list_models()).items

    def call(self, call: Call[T]) -> T:
        """Send a call, as often as it takes; raises `RuntallyError`."""
        retries = Retries(self._connection)
        while True:
            try:
                return call.result(self._http.request(call.method, call.path, **call.options()))
            except (httpx.RequestError, RuntallyError) as error:
                time.sleep(retries.delay_after(error, repeatable=call.repeatable))
