"""BatchRequests: checks every request of a batch as starting its run would, and encodes it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from app.errors import Invalid
from app.ids import RunId, RunKey
from app.platform.concurrency.offload import Offload
from app.requests.principal import Principal
from app.requests.run_request import GraphRunRequest
from app.runs.batches.lines import BatchLine
from app.runs.batches.records import BATCH_PRIORITY, MAX_ITEMS, NewItem
from app.runs.planner import RunPlanner
from app.runs.requests.codec import encoded
from app.runs.requests.schema_preparation import SchemaPreparation

_AT_ONCE = 64
"""How many requests are worked on before other work gets the thread."""
_ALWAYS_LARGE = 2**20
_NO_RUN = RunId("none")


@dataclass(frozen=True, slots=True)
class CheckedBatch:
    """A batch that could be started."""

    graph_id: str
    items: Sequence[NewItem]


@dataclass(frozen=True, slots=True)
class BatchRequests:
    """Stores nothing."""

    planner: RunPlanner
    schemas: SchemaPreparation
    offload: Offload

    async def check(self, owner: Principal, lines: Iterator[BatchLine]) -> CheckedBatch:
        """All items; raises `GraphNotFound`, or `Invalid` naming the line and its field."""
        checking = _Checking(self.planner, owner)
        while (some := await self.offload.run(partial(checking.take, lines), size=_ALWAYS_LARGE)) is not None:
            for number, request in some:
                spec = self.planner.graphs.get(request.graph_id)
                try:
                    await self.schemas.prepare(request, spec, account_id=owner.account_id)
                except Invalid as error:
                    raise error.below(f"lines.{number}.request") from error
        if checking.graph_id is None:
            raise Invalid.field("body", "must have at least one line")
        return CheckedBatch(checking.graph_id, checking.items)


class _Checking:
    """Checks the lines one after the other, in a thread; keeps of each only what is stored."""

    def __init__(self, planner: RunPlanner, owner: Principal) -> None:
        self.items: list[NewItem] = []
        self.graph_id: str | None = None
        self._planner = planner
        self._owner = owner
        self._lines_by_id: dict[str, int] = {}
        self._schemas: set[str] = set()

    def take(self, lines: Iterator[BatchLine]) -> list[tuple[int, GraphRunRequest]] | None:
        """Check some lines; returns those to check further; None if there are no lines."""
        unchecked: list[tuple[int, GraphRunRequest]] = []
        count = 0
        for line in islice(lines, _AT_ONCE):
            count += 1
            number = len(self.items) + 1
            try:
                self._add(line, number)
            except Invalid as error:
                raise error.below(f"lines.{number}") from error
            if line.request.input is not None or self._has_new_schemas(line.request):
                unchecked.append((number, line.request))
        return unchecked if count else None

    def _add(self, line: BatchLine, number: int) -> None:
        request = line.request
        if number > MAX_ITEMS:
            raise Invalid.field("body", f"must have at most {MAX_ITEMS} lines")
        if (first := self._lines_by_id.setdefault(line.custom_id, number)) != number:
            raise Invalid.field("customId", f"is that of line {first} as well")
        self.graph_id = self.graph_id or request.graph_id
        if request.graph_id != self.graph_id:
            raise Invalid.field("request.graphId", f"must be {self.graph_id}, as in line 1")
        if not request.messages:
            raise Invalid.field("request.messages", "is required")
        run = RunKey(self._owner.account_id, _NO_RUN)
        try:
            # As an erasure of the end user finds it.
            request = self._owner.labelled(request)
            plan = self._planner.plan_for(self._owner, run, request)
        except Invalid as error:
            raise error.below("request") from error
        stored = request.model_copy(update={"priority": request.priority or BATCH_PRIORITY})
        reserve = plan.limits.max_budget_usd or plan.first_message_usd
        self.items.append(NewItem(line.custom_id, encoded(stored, with_files=True), reserve))

    def _has_new_schemas(self, request: GraphRunRequest) -> bool:
        if request.response_format is None and not request.client_tools:
            return False
        shown = request.model_dump_json(include={"response_format", "client_tools"})
        is_new = shown not in self._schemas
        self._schemas.add(shown)
        return is_new
