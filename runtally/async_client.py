"""AsyncClient: a client of a Runtally server for asyncio."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Self, TypeVar, Unpack
from uuid import uuid4

import httpx

from runtally.accounts.budgets import AsyncBudgets
from runtally.accounts.service import AsyncAccounts
from runtally.batches import AsyncBatches
from runtally.client_tools import call_async, handler_of, require_over
from runtally.conversations import AsyncConversations
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
from runtally.protocol.pages import each_async
from runtally.protocol.retries import Retries
from runtally.streams import AsyncRunStream
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


class AsyncClient:
    """A client of one server with one API key, for asyncio.

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
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._connection = Connection.of(base_url, api_key, timeout_s=timeout_s, max_retries=max_retries)
        self._http = httpx.AsyncClient(transport=transport, **self._connection.http_options())
        self.conversations = AsyncConversations(self.call)
        self.batches = AsyncBatches(self.call)
        self.accounts = AsyncAccounts(self.call)
        self.budgets = AsyncBudgets(self.call)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    @property
    def url(self) -> str:
        """The URL of the server."""
        return self._connection.url

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def run(self, graph: str, prompt: Prompt, **options: Unpack[RunOptions]) -> GraphFinal:
        """Run a graph and wait for its end.

        A connection that is lost meanwhile neither loses nor doubles the run. A run without an answer is a
        result as well: see `GraphFinal.raise_for_error`. The handlers of `client_tools` are called meanwhile.
        """
        tools = options.get("client_tools", ())
        async with self.stream(graph, prompt, **options) as stream:
            async for event in stream:
                if isinstance(event, ClientToolCall) and (handler := handler_of(event, tools)) is not None:
                    await self._execute(stream.run_id, event, handler)
            return await stream.result()

    def stream(self, graph: str, prompt: Prompt, **options: Unpack[RunOptions]) -> AsyncRunStream:
        """Run a graph and stream its events; the request is sent when the first one is read."""
        run_id = options.get("run_id") or str(uuid4())
        body = body_of(run_id, graph, prompt, options=options)
        return AsyncRunStream(self.call, self._http, Following(self._connection, run_id, body=body, after=0))

    async def start(self, graph: str, prompt: Prompt, **options: Unpack[RunOptions]) -> StartedRun:
        """Start a run in the background."""
        run_id = options.get("run_id") or str(uuid4())
        return await self.call(calls.start_run(body_of(run_id, graph, prompt, options=options)))

    def follow(self, run_id: str, *, after: int = 0) -> AsyncRunStream:
        """Stream the events of a run after a position."""
        return AsyncRunStream(
            self.call, self._http, Following(self._connection, run_id, body=None, after=after)
        )

    async def wait(self, run_id: str) -> GraphFinal:
        """Wait for the end of a run."""
        final = (await self.get(run_id)).final
        if final is not None:
            return final
        async with self.follow(run_id) as stream:
            return await stream.result()

    async def get(self, run_id: str) -> Run:
        """The state of a run."""
        return await self.call(calls.get_run(run_id))

    def list_runs(self, **filters: Unpack[RunFilters]) -> AsyncIterator[Run]:
        """All runs that match, newest first; pages are requested as they are read."""
        return each_async(self.call, partial(calls.list_runs, filters))

    async def preview(self, graph: str, prompt: Prompt, **options: Unpack[RunOptions]) -> RunPreview:
        """Plan a run and forecast its cost, without starting it."""
        run_id = options.get("run_id") or str(uuid4())
        return await self.call(calls.preview_run(body_of(run_id, graph, prompt, options=options)))

    async def request(self, run_id: str) -> dict[str, Any]:
        """The request that has started a run, without its files and metadata."""
        return await self.call(calls.get_request(run_id))

    def evidence(self, run_id: str) -> AsyncIterator[Evidence]:
        """What a run did, oldest first: prompts, capabilities and decisions; needs `runs:audit`."""
        return each_async(self.call, partial(calls.list_evidence, run_id))

    async def files(self, run_id: str) -> list[RunFile]:
        """The files that the agent of a run has left in its workspace."""
        return (await self.call(calls.list_files(run_id))).items

    async def read_file(self, run_id: str, path: str) -> bytes:
        """The content of a file of a run's workspace."""
        return await self.call(calls.read_file(run_id, path))

    async def archive(self, run_id: str, form: Literal["zip", "tar"] = "zip") -> bytes:
        """All files of a run's workspace as one archive."""
        return await self.call(calls.read_archive(run_id, form))

    async def give_feedback(
        self, run_id: str, rating: Literal["up", "down"], note: str | None = None
    ) -> Feedback:
        """Keep what a person thinks of the answer of a run, in place of what they thought before."""
        return await self.call(calls.give_feedback(run_id, rating, note))

    async def change(self, run_id: str, *, permission_mode: str) -> None:
        """Change how further tool calls of a run are decided, within what its graph allows."""
        await self.call(calls.change_run(run_id, permission_mode=permission_mode))

    async def delete(self, run_id: str) -> None:
        """Delete the contents of an ended run: request, answer, events and files."""
        await self.call(calls.delete_run(run_id))

    async def cancel(self, run_id: str) -> StartedRun:
        """Cancel a run: it ends with `aborted`."""
        return await self.call(calls.cancel_run(run_id))

    async def interrupt(self, run_id: str, *, after_tool: bool = False) -> StartedRun:
        """Stop the current turn of a run; messages that wait are answered next.

        `after_tool`: a tool that is at work may finish first.
        """
        return await self.call(calls.interrupt_run(run_id, after_tool=after_tool))

    async def send(self, run_id: str, text: str, *, priority: Priority = "next") -> SentMessage:
        """Send a message to a running agent, once."""
        return await self.call(calls.send_message(run_id, text, priority=priority))

    async def decide(
        self, run_id: str, request_id: str, *, allow: bool, **options: Unpack[DecisionOptions]
    ) -> None:
        """Allow or deny a tool call that waits for consent."""
        await self.call(calls.decide_permission(run_id, request_id, allow=allow, options=options))

    async def answer(
        self, run_id: str, request_id: str, answers: Mapping[str, str | Sequence[str]] | None
    ) -> None:
        """Answer a `QuestionAsked`, by the text of each question or its index; None declines to.

        An answer is an option's label, several of them where the question takes several, or any other text.
        """
        await self.call(calls.answer_question(run_id, request_id, answers))

    async def submit_tool_result(
        self, run_id: str, tool_call_id: str, result: Any, *, is_error: bool = False
    ) -> None:
        """Answer a `ClientToolCall`: any JSON for the model, or with `is_error` why the call has failed."""
        await self.call(calls.submit_tool_result(run_id, tool_call_id, result, is_error=is_error))

    async def _execute(
        self, run_id: str, called: ClientToolCall, handler: Callable[[dict[str, Any]], Any]
    ) -> None:
        result, is_error = await call_async(handler, called.args)
        try:
            await self.submit_tool_result(run_id, called.tool_call_id, result, is_error=is_error)
        except (Conflict, NotFound) as error:
            require_over(error)

    def approvals(self, **filters: Unpack[ApprovalFilters]) -> AsyncIterator[Approval]:
        """What waits for a person, newest first; `decide`, `answer` and `submit_tool_result` answer it."""
        return each_async(self.call, partial(calls.list_approvals, filters))

    def receipts(self, **filters: Unpack[ReceiptFilters]) -> AsyncIterator[Receipt]:
        """All receipts that match, newest first; pages are requested as they are read."""
        return each_async(self.call, partial(calls.list_receipts, filters))

    async def run_receipts(self, run_id: str) -> list[Receipt]:
        """The receipts of a run, oldest first."""
        return (await self.call(calls.list_run_receipts(run_id))).items

    async def usage(self, **options: Unpack[UsageOptions]) -> UsageReport:
        """Sums over receipts; without `group_by` only the total."""
        return await self.call(calls.get_usage(options))

    async def balance(self) -> Balance:
        """The account's credit."""
        return await self.call(calls.get_balance())

    async def graphs(self) -> list[Graph]:
        """All graphs."""
        return (await self.call(calls.list_graphs())).items

    async def tools(self) -> list[ToolDescription]:
        """All tools."""
        return (await self.call(calls.list_tools())).items

    async def models(self) -> list[LanguageModel]:
        """All models that the server knows or a graph names."""
        return (await self.call(calls.list_models())).items

    async def call(self, call: Call[T]) -> T:
        """Send a call, as often as it takes; raises `RuntallyError`."""
        retries = Retries(self._connection)
        while True:
            try:
                return call.result(await self._http.request(call.method, call.path, **call.options()))
            except (httpx.RequestError, RuntallyError) as error:
                await asyncio.sleep(retries.delay_after(error, repeatable=call.repeatable))
