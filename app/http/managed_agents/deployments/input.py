"""The bodies that clients post for deployments, and what our schedules have of them; pure."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final, Literal

from pydantic import Field, field_validator

from app.errors import Invalid
from app.http.managed_agents.input import (
    MOST_EVENTS,
    BudgetLimit,
    ManagedInput,
    MetadataPatch,
    NotServed,
    TextBlock,
    patched,
)
from app.http.parameters import StorableText
from app.requests.attribution import Metadata
from app.requests.messages import Message, TextPart, is_blank_content
from app.requests.runs import GraphRunRequest, RunLimits
from app.schedules.cron import MAX_CRON_CHARS, Timing
from app.schedules.deployments.service import DeploymentTerms

_MOST_CHARS: Final = 65_536
"""Of all initial events: lists show them."""

_FIELDS: Final = {"cron": "schedule.expression", "timeZone": "schedule.timezone", "run": "agent"}
"""What is a field of ours, by that of theirs."""

Name = Annotated[StorableText, Field(max_length=256)]
Description = Annotated[str, Field(max_length=2_048, pattern=r"^[^\x00]*$")]


class DeployedAgent(ManagedInput):
    """A graph; its deployment has nothing in place of what the graph has."""

    type: Literal["agent"]
    id: str
    version: Literal[1] | None = None


class CronSchedule(ManagedInput):
    """When sessions begin."""

    type: Literal["cron"]
    expression: Annotated[StorableText, Field(max_length=MAX_CRON_CHARS)]
    timezone: Annotated[StorableText, Field(max_length=100)]


class DeployedMessage(ManagedInput):
    """A message that each session begins with: text only."""

    type: Literal["user.message"]
    content: Annotated[list[TextBlock], Field(min_length=1)]


DeployedMessages = Annotated[list[DeployedMessage], Field(min_length=1, max_length=MOST_EVENTS)]
Agent = Annotated[str, Field(max_length=200)] | DeployedAgent


class NewDeployment(ManagedInput):
    """A deployment to create."""

    name: Name
    agent: Agent
    environment_id: Literal["env_default"]
    initial_events: DeployedMessages
    description: Description | None = None
    schedule: CronSchedule | None = None
    budget: BudgetLimit | None = None
    metadata: Annotated[Metadata, Field(default_factory=dict)]
    resources: NotServed | None = None
    vault_ids: NotServed | None = None

    @property
    def terms(self) -> DeploymentTerms:
        """As ours; raises `Invalid`."""
        request = GraphRunRequest.of(
            graph_id=_graph(self.agent),
            messages=[_message(self.initial_events)],
            metadata=dict(self.metadata) or None,
            limits=_limits(self.budget),
        )
        return DeploymentTerms(self.name, self.description or None, _timing(self.schedule), request)


_STAYS: Final = ("name", "agent", "environment_id", "initial_events")


class ChangedDeployment(ManagedInput):
    """What of a deployment changes; what is left out stays."""

    name: Name | None = None
    agent: Agent | None = None
    environment_id: Literal["env_default"] | None = None
    initial_events: DeployedMessages | None = None
    description: Description | None = None
    schedule: CronSchedule | None = None
    """Null: only clients begin its sessions."""
    budget: BudgetLimit | None = None
    """Null: none any more."""
    metadata: MetadataPatch | None = None
    """A name with null is deleted."""
    resources: NotServed | None = None
    vault_ids: NotServed | None = None

    @field_validator(*_STAYS)
    @classmethod
    def _is_something(cls, value: object) -> object:
        # Validators run only for fields that were sent.
        if value is None:
            raise ValueError("must not be null")
        return value

    def applied_to(self, terms: DeploymentTerms) -> DeploymentTerms:
        """The terms with these changes; raises `Invalid`."""
        sent, request = self.model_fields_set, terms.request
        changes: dict[str, Any] = {}
        if self.agent is not None:
            changes["graph_id"] = _graph(self.agent)
        if self.initial_events is not None:
            changes["messages"] = [_message(self.initial_events)]
        if "budget" in sent:
            changes["limits"] = _limits(self.budget)
        if self.metadata is not None:
            changes["metadata"] = patched(request.metadata or {}, self.metadata) or None
        return DeploymentTerms(
            name=self.name or terms.name,
            description=(self.description or None) if "description" in sent else terms.description,
            timing=_timing(self.schedule) if "schedule" in sent else terms.timing,
            request=request.model_copy(update=changes),
        )


@contextmanager
def naming_their_fields() -> Iterator[None]:
    """Errors about fields of our schedules name those of deployments."""
    try:
        yield
    except Invalid as error:
        fault = error.errors[0] if error.errors else None
        if fault is None or (field := _FIELDS.get(fault.field.partition(".")[0])) is None:
            raise
        raise Invalid.field(field, fault.message) from error


def _graph(agent: str | DeployedAgent) -> str:
    return agent if isinstance(agent, str) else agent.id


def _timing(schedule: CronSchedule | None) -> Timing:
    return Timing("") if schedule is None else Timing(schedule.expression, schedule.timezone)


def _limits(budget: BudgetLimit | None) -> RunLimits:
    if budget is None:
        return RunLimits()
    return RunLimits.of(max_budget_usd=budget.max_list_cost.usd, cover_calls=True)


def _message(events: list[DeployedMessage]) -> Message:
    """All of them as the one message of a run."""
    blocks = [block for event in events for block in event.content]
    parts = [TextPart(type="text", text=block.text) for block in blocks]
    if is_blank_content(parts):
        raise Invalid.field("initial_events", "must hold a text that is not blank")
    if sum(block.chars for block in blocks) > _MOST_CHARS:
        raise Invalid.field("initial_events", f"must not have more than {_MOST_CHARS} characters")
    return Message.of(role="user", content=parts)
