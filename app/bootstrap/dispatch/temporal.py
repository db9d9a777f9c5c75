"""Opens the connection to Temporal, whose client is an extra."""

from typing import TYPE_CHECKING

from app.errors import OperatorError
from app.platform.settings import Settings

if TYPE_CHECKING:
    from app.platform.temporal.connection import TemporalConnection

_CLIENT_PACKAGE = "temporalio"


class TemporalClientMissing(OperatorError):
    """TEMPORAL_ADDRESS is set, and the client of Temporal is not installed."""


async def open_temporal(settings: Settings, identity: str) -> "TemporalConnection | None":
    """Connect to the operator's Temporal, if there is one; `identity` is what Temporal shows.

    Raises `TemporalClientMissing`, `TemporalUnavailable`.
    """
    if settings.temporal_address is None:
        return None
    try:
        from app.platform.temporal.connection import TemporalConfig, connect
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != _CLIENT_PACKAGE:
            raise
        message = "TEMPORAL_ADDRESS needs the client of Temporal: pip install 'runtally[temporal]'"
        raise TemporalClientMissing(message) from None
    key = settings.temporal_api_key
    config = TemporalConfig(
        settings.temporal_address,
        settings.temporal_namespace,
        tls=settings.temporal_tls or key is not None,
        api_key=None if key is None else key.get_secret_value(),
        network=settings.network,
    )
    return await connect(config, identity=identity)
