"""Deployments: the schedules of an account that each begin a session of Managed Agents at their due times."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from app.errors import Conflict, NotFound
from app.ids import new_uuid
from app.platform.pagination import PageRequest
from app.requests.principal import Principal
from app.requests.runs import GraphRunRequest
from app.schedules.cron import Timing
from app.schedules.deployments.repository import (
    DeploymentFilter,
    DeploymentRun,
    DeploymentRunFilter,
    find_deployment,
    newest_deployment_runs,
    newest_deployments,
)
from app.schedules.records import Deployment, Schedule, ScheduledRun, ScheduleTerms
from app.schedules.service import ScheduleOrder, ScheduleService

_PREFIX: Final = "depl_"
_CATCH_UP_S: Final = 3600


class DeploymentNotFound(NotFound):
    """This account has no deployment with this id."""

    code = "deployment_not_found"


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
class Deployed:
    """A deployment, and what each of its sessions begins with."""

    schedule: Schedule
    deployment: Deployment
    request: GraphRunRequest


@dataclass(frozen=True, slots=True)
class DeploymentTerms:
    """What a client decides about a deployment."""

    name: str
    description: str | None
    timing: Timing
    request: GraphRunRequest


@dataclass(frozen=True, slots=True)
class Deployments:
    """Raises as `ScheduleService` does, and `DeploymentNotFound`."""

    schedules: ScheduleService

    async def create(self, caller: Principal, terms: DeploymentTerms) -> Deployed:
        """Create a deployment. Its sessions do not wait for each other."""
        now = await self.schedules.firing.read_time()
        deployment = Deployment(name=terms.name, description=terms.description, updated_at=now)
        schedule_terms = ScheduleTerms(terms.timing, "allow", _CATCH_UP_S)
        order = ScheduleOrder(
            *(f"{_PREFIX}{new_uuid().hex}", schedule_terms, terms.request),
            paused=False,
            deployment=deployment,
        )
        schedule = await self.schedules.create(caller, order)
        return Deployed(schedule, deployment, terms.request)

    async def get(self, caller: Principal, deployment_id: str) -> Deployed:
        """One deployment."""
        async with self.schedules.database.read() as reader:
            found = await find_deployment(reader, caller.account_id, deployment_id)
        if found is None:
            raise DeploymentNotFound
        return await self._deployed(*found)

    async def page(
        self, caller: Principal, chosen: DeploymentFilter, page: PageRequest
    ) -> tuple[list[Deployed], str | None]:
        """A page of the chosen deployments of the caller's account, and the cursor of the next page."""
        async with self.schedules.database.read() as reader:
            found = await newest_deployments(reader, caller.account_id, chosen, page)
        shown, cursor = page.cut(found, lambda each: (each[0].created_at, each[0].schedule_id))
        return [await self._deployed(*each) for each in shown], cursor

    async def change(
        self,
        caller: Principal,
        deployment_id: str,
        change: Callable[[DeploymentTerms], DeploymentTerms],
    ) -> Deployed:
        """Change a deployment, for its next sessions; raises `DeploymentChanged`, and as `change` does."""
        seen = await self.get(caller, deployment_id)
        caller.require_reading(seen.schedule.api_key_id)
        named, timing = seen.deployment, seen.schedule.terms.timing
        terms = change(DeploymentTerms(named.name, named.description, timing, seen.request))
        now = await self.schedules.firing.read_time()

        def changed(current: Deployment) -> Deployment:
            if current.updated_at != named.updated_at:
                raise DeploymentChanged
            update = {"name": terms.name, "description": terms.description, "updated_at": now}
            return current.model_copy(update=update)

        await self.schedules.change(
            *(caller, deployment_id, lambda current: replace(current, timing=terms.timing)),
            request=terms.request,
            deployment=changed,
        )
        return await self.get(caller, deployment_id)

    async def pause(self, caller: Principal, deployment_id: str) -> Deployed:
        """Begin no session at its due times."""
        return await self._after(self.schedules.pause, caller, deployment_id)

    async def unpause(self, caller: Principal, deployment_id: str) -> Deployed:
        """Go on with the next due time."""
        return await self._after(self.schedules.resume, caller, deployment_id)

    async def archive(self, caller: Principal, deployment_id: str) -> Deployed:
        """Begin no session any more."""
        return await self._after(self.schedules.archive, caller, deployment_id)

    async def run(self, caller: Principal, deployment_id: str) -> DeploymentRun:
        """Begin a session now. Raises `SessionDelayed` where another server or time has to."""
        schedule = (await self.get(caller, deployment_id)).schedule
        due = await self.schedules.trigger(caller, deployment_id)
        if due.outcome in {"starting", "waiting"}:
            raise SessionDelayed
        return DeploymentRun(due, deployment_id, schedule.summary.graph_id)

    async def runs(
        self, caller: Principal, chosen: DeploymentRunFilter, page: PageRequest
    ) -> tuple[list[DeploymentRun], str | None]:
        """A page of the chosen due times, newest first, and the cursor of the next page."""
        async with self.schedules.database.read() as reader:
            found = await newest_deployment_runs(reader, caller.account_id, chosen, page)
        return page.cut(found, lambda each: _place(each.due))

    async def find_run(self, caller: Principal, run_id: str) -> DeploymentRun:
        """One due time; raises `DeploymentRunNotFound`."""
        found, _ = await self.runs(caller, DeploymentRunFilter(run_id=run_id), PageRequest(1))
        if not found:
            raise DeploymentRunNotFound
        return found[0]

    async def _after(
        self, act: Callable[[Principal, str], Awaitable[object]], caller: Principal, deployment_id: str
    ) -> Deployed:
        """A deployment after something was done to it."""
        # First: the other schedules of the account are none.
        await self.get(caller, deployment_id)
        await act(caller, deployment_id)
        return await self.get(caller, deployment_id)

    async def _deployed(self, schedule: Schedule, text: str) -> Deployed:
        if schedule.deployment is None:
            raise DeploymentNotFound
        return Deployed(schedule, schedule.deployment, await self.schedules.requests.codec.decode(text))


def _place(due: ScheduledRun) -> tuple[datetime, str]:
    return due.due_at, due.run_id
