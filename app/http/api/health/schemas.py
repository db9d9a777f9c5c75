"""JSON of health and readiness."""

from typing import Annotated, Literal

from pydantic import Field

from app.billing.receipts.delivery import DeliveryState
from app.http.response_model import ResponseModel
from app.platform.postgres.notifications import NotificationState


def _is_empty(values: list[str]) -> bool:
    return not values


class Health(ResponseModel):
    """Health of the server."""

    status: str


class Liveness(Health):
    """Health of the server, and which release it is."""

    version: str


class Readiness(Health):
    """Readiness of the server, of the model provider, and of the delivery of receipts.

    `status` is `ok`, or `degraded`: it takes runs, and another field says what does not work.
    """

    provider: Literal["ok", "refusing", "unusable", "unknown"]
    """`ok`: it accepted our key or login at the last request; `refusing`: it refuses calls of some model for
    the reasons in `refusals`."""

    refusals: Annotated[list[str], Field(exclude_if=_is_empty)]
    """The provider's codes, without those that are about a request; left out if there are none."""

    receipts: DeliveryState
    """`ok`; or `delayed`: they wait in the journal for the database; `refused`: the database refuses some;
    `damaged`: files of the journal were damaged and are kept."""

    chain: Literal["signed", "unsigned", "rewritten"]
    """Whether roots of the receipts' hash chains are signed; `rewritten`: a chain was altered."""

    database: Literal["ok", "failing"]
    """`failing`: within the last minute statements failed or were refused that have to work."""

    read_database: Literal["ok", "unavailable"]
    """`unavailable`: lists and reports are read from the primary, because DATABASE_READ_URL cannot be used;
    `ok` also without it."""

    notifications: NotificationState
    """Whether those of runs that wait arrive: `ok`; `polled`: a connection pooler passes none on, and runs
    are found within a second; `unavailable`: none arrive, for another reason; `unused`: it executes none."""

    relay: Literal["ok", "unavailable"]
    """Whether readers of other servers get the events of this one now: messages that this one sends through
    the relay arrive; `ok` also for a single server."""

    relay_problem: str | None = None
    """Why it is `unavailable`."""

    dispatcher: Literal["ok", "unavailable"]
    """Whether queued runs are started now: `unavailable` while Temporal is, if the server uses it."""
