"""The bodies that clients post for deployments, and what our schedules have of them; pure."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, ValidationError

from app.errors import Invalid
from app.http.managed_agents.input import (
    MOST_EVENTS,
    BudgetLimit,
    ManagedInput,
    NotServed,
    TextBlock,
    patched,
)
from app.http.parameters import StorableText
from app.platform.serialization.mistakes import problem_of
from app.requests.attribution import Metadata
from app.requests.messages import Message, TextPart, is_blank_content
from app.requests.run_request import GraphId, GraphRunRequest, RunLimits
from app.schedules.cron import MAX_CRON_CHARS, Timing
from app.schedules.deployments.records import DeploymentOrder

_MOST_CHARS: Final = 32_768
"""Of all initial events: lists show them."""

_FIELDS: Final = {"cron": "schedule.expression", "timeZone": "schedule.timezone", "run": "agent"}
"""Theirs, by the first part of ours."""

_Name = Annotated[StorableText, Field(max_length=256)]
_Description = Annotated[str, Field(max_length=2_048, pattern=r"^[^\x00]*$")]


class DeployedAgent(ManagedInput):
    """A graph; its deployment has nothing in place of what the graph has."""

    type: Literal["agent"] = "agent"
    id: GraphId
    version: Literal[1] = 1


def _agent_of(given: object) -> object:
    return {"id": given} if isinstance(given, str) else given


_Agent = Annotated[DeployedAgent, BeforeValidator(_agent_of, json_schema_input_type=str | DeployedAgent)]


class CronSchedule(ManagedInput):
    """When sessions begin."""

    type: Literal["cron"]
    expression: Annotated[StorableText, Field(max_length=MAX_CRON_CHARS)]
    timezone: Annotated[StorableText, Field(max_length=100)]


class DeployedMessage(ManagedInput):
    """A message that each session begins with: text only."""

    type: Literal["user.message"]
    content: Annotated[list[TextBlock], Field(min_length=1)]


_Messages = Annotated[list[DeployedMessage], Field(min_length=1, max_length=MOST_EVENTS)]


class NewDeployment(ManagedInput):
    """A deployment to create."""

    name: _Name
    agent: _Agent
    environment_id: Literal["env_default"]
    initial_events: _Messages
    description: _Description | None = None
    schedule: CronSchedule | None = None
    """Null: only clients begin its sessions."""
    budget: BudgetLimit | None = None
    """Of each session."""
    metadata: Annotated[Metadata, Field(default_factory=dict)]
    resources: NotServed | None = None
    vault_ids: NotServed | None = None

    @property
    def order(self) -> DeploymentOrder:
        """What its schedule has; all messages are the one message of a run. Raises `Invalid`."""
        blocks = [block for event in self.initial_events for block in event.content]
        parts = [TextPart(type="text", text=block.text) for block in blocks]
        if is_blank_content(parts):
            raise Invalid.field("initial_events", "must hold a text that is not blank")
        if sum(block.chars for block in blocks) > _MOST_CHARS:
            raise Invalid.field("initial_events", f"must not have more than {_MOST_CHARS} characters")
        limits, cron = RunLimits(), self.schedule
        if self.budget is not None:
            limits = RunLimits.of(max_budget_usd=self.budget.max_list_cost.usd, cover_calls=True)
        request = GraphRunRequest.of(
            graph_id=self.agent.id,
            messages=[Message.of(role="user", content=parts)],
            metadata=dict(self.metadata) or None,
            limits=limits,
        )
        timing = Timing("") if cron is None else Timing(cron.expression, cron.timezone)
        return DeploymentOrder(self.model_dump(mode="json"), timing, request)


class ChangedDeployment(ManagedInput):
    """What of a deployment changes; what is left out stays."""

    name: _Name | None = None
    agent: _Agent | None = None
    environment_id: Literal["env_default"] | None = None
    initial_events: _Messages | None = None
    description: _Description | None = None
    schedule: CronSchedule | None = None
    budget: BudgetLimit | None = None
    metadata: Annotated[dict[str, str | None], Field(max_length=32)] | None = None
    """A name with null is deleted."""
    resources: NotServed | None = None
    vault_ids: NotServed | None = None

    def applied_to(self, posted: Mapping[str, Any]) -> DeploymentOrder:
        """The deployment with these changes; raises `Invalid`."""
        sent = self.model_dump(mode="json", exclude_unset=True)
        metadata = patched(posted["metadata"], self.metadata or {})
        try:
            return NewDeployment.model_validate({**posted, **sent, "metadata": metadata}).order
        except ValidationError as error:
            fault = error.errors()[0]
            raise Invalid.field(".".join(map(str, fault["loc"])), problem_of(fault)) from error


@contextmanager
def naming_their_fields() -> Iterator[None]:
    """Errors about fields of our schedules name those of deployments."""
    try:
        yield
    except Invalid as error:
        name = error.errors[0].field.partition(".")[0] if error.errors else ""
        if name not in _FIELDS:
            raise
        raise Invalid.field(_FIELDS[name], error.errors[0].message) from error
