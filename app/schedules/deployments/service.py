"""Deployments: the schedules of an account that each begin a session of Managed Agents at their due times."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Unpack
from uuid import UUID

from app.errors import Conflict, NotFound
from app.ids import new_uuid
from app.platform.pagination import PageRequest
from app.requests.principal import Principal
from app.runs.requests.posted import Posting
from app.runs.service import id_of_key
from app.schedules.deployments.records import DeploymentOrder, DeploymentRun, DeploymentRunFilter
from app.schedules.deployments.repository import newest_deployment_runs, newest_deployments
from app.schedules.records import Deployment, Schedule, ScheduleTerms
from app.schedules.service import ScheduleNotFound, ScheduleOrder, ScheduleService

_PREFIX: Final = "depl_"
_CATCH_UP_S: Final = 3600


class DeploymentRunNotFound(NotFound):
    """No deployment of this account has a run with this id."""

    code = "deployment_run_not_found"


class DeploymentChanged(Conflict):
    """Another request has changed this deployment meanwhile: read it, and try again."""

    code = "deployment_changed"


class SessionDelayed(Conflict):
    """No session can be created now. It is tried again: what becomes of it is in the deployment's runs."""

    code = "session_delayed"


@dataclass(frozen=True, slots=True)
class Deployments:
    """Raises as `ScheduleService` does; schedules that are no deployments are not found."""

    schedules: ScheduleService

    async def create(self, caller: Principal, order: DeploymentOrder, **posting: Unpack[Posting]) -> Schedule:
        """Create a deployment, or return the one that the same request has created."""
        now = await self.schedules.firing.read_time()
        terms = ScheduleTerms(order.timing, "allow", _CATCH_UP_S)
        deployment = Deployment(posted=order.posted, updated_at=now)
        name = f"{_PREFIX}{UUID(id_of_key(caller, posting) or str(new_uuid())).hex}"
        new = ScheduleOrder(
            *(name, terms, order.request),
            paused=False,
            deployment=deployment,
            fingerprint=posting.get("fingerprint"),
        )
        return await self.schedules.create(caller, new)

    async def get(self, caller: Principal, deployment_id: str) -> tuple[Schedule, Deployment]:
        schedule = await self.schedules.get(caller, deployment_id)
        if schedule.deployment is None:
            raise ScheduleNotFound
        return schedule, schedule.deployment

    async def page(
        self, caller: Principal, page: PageRequest, *, graph_id: str | None, has_archived: bool
    ) -> tuple[list[Schedule], str | None]:
        """A page of the account's deployments, and the cursor of the next page."""
        async with self.schedules.database.read() as reader:
            found = await newest_deployments(
                reader, caller.account_id, page, graph_id=graph_id, has_archived=has_archived
            )
        return page.cut(found, lambda each: (each.created_at, each.schedule_id))

    async def change(
        self,
        caller: Principal,
        deployment_id: str,
        change: Callable[[Mapping[str, Any]], DeploymentOrder],
    ) -> Schedule:
        """Change a deployment, for its next sessions; raises `DeploymentChanged`, and as `change` does."""
        schedule, seen = await self.get(caller, deployment_id)
        caller.require_reading(schedule.api_key_id)
        order, now = change(seen.posted), await self.schedules.firing.read_time()

        def changed(current: Deployment) -> Deployment:
            if current.updated_at != seen.updated_at:
                raise DeploymentChanged
            return current.model_copy(update={"posted": order.posted, "updated_at": now})

        return await self.schedules.change(
            *(caller, deployment_id, lambda terms: replace(terms, timing=order.timing)),
            request=order.request,
            deployment=changed,
        )

    async def after(
        self, act: Callable[[Principal, str], Awaitable[Schedule]], caller: Principal, deployment_id: str
    ) -> Schedule:
        """A deployment after something was done to it that can be done to schedules."""
        await self.get(caller, deployment_id)
        return await act(caller, deployment_id)

    async def run(self, caller: Principal, deployment_id: str, key: str | None = None) -> DeploymentRun:
        """Begin a session, with an idempotency key once; raises `SessionDelayed` if it has to be later."""
        schedule, _ = await self.get(caller, deployment_id)
        due = await self.schedules.trigger(caller, deployment_id, key)
        if due.outcome in {"starting", "waiting"}:
            raise SessionDelayed
        return DeploymentRun(due, deployment_id, schedule.summary.graph_id)

    async def runs(
        self, caller: Principal, chosen: DeploymentRunFilter, page: PageRequest
    ) -> tuple[list[DeploymentRun], str | None]:
        """A page of the chosen due times, newest first, and the cursor of the next page."""
        async with self.schedules.database.read() as reader:
            found = await newest_deployment_runs(reader, caller.account_id, chosen, page)
        return page.cut(found, lambda each: (each.due.due_at, each.due.run_id))

    async def find_run(self, caller: Principal, run_id: str) -> DeploymentRun:
        """One due time; raises `DeploymentRunNotFound`."""
        found, _ = await self.runs(caller, DeploymentRunFilter(run_id=run_id), PageRequest(1))
        if not found:
            raise DeploymentRunNotFound
        return found[0]
