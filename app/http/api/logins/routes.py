"""Logins of programs that wait for a person, who enters the code that the program shows."""

from typing import Annotated, TypeAlias

from fastapi import APIRouter, Depends, Path, Request

from app.auth.device_logins.service import USER_CODE
from app.http.admission.checks import CheckedRoute, small_body
from app.http.admission.limits import request_limits
from app.http.api.logins.schemas import LoginDecision, LoginResponse
from app.http.dependencies import ActorDep, ExternalCaller, ServicesDep

router = APIRouter(route_class=CheckedRoute, prefix="/v1/logins", tags=["browsers"])


async def _counted(request: Request, caller: ExternalCaller) -> None:
    """Codes are short, so they may not be guessed."""
    request_limits(request).count_code(caller)


router.dependencies.append(Depends(_counted))
UserCode: TypeAlias = Annotated[str, Path(alias="userCode", pattern=USER_CODE)]


@router.get("/{userCode}", summary="Look up a login")
async def get_login(user_code: UserCode, services: ServicesDep, _caller: ExternalCaller) -> LoginResponse:
    """A login of [Claude Code](docs/api/anthropic.md) that waits for a decision."""
    return LoginResponse.built_from(await services.device_logins.find(user_code))


@router.post("/{userCode}", dependencies=[small_body], status_code=204, summary="Approve or deny a login")
async def decide_login(
    user_code: UserCode, body: LoginDecision, services: ServicesDep, caller: ExternalCaller, actor: ActorDep
) -> None:
    """Sign the program in for the caller, with at most their rights; it may only call the model."""
    if body.decision == "allow":
        await services.device_logins.approve(user_code, caller, by=actor)
    else:
        await services.device_logins.deny(user_code)
