"""Identifiers that are used in several packages."""

from typing import NamedTuple, NewType
from uuid import UUID

import uuid_utils

AccountId = NewType("AccountId", UUID)
ApiKeyId = NewType("ApiKeyId", UUID)
RunId = NewType("RunId", str)
MessageId = NewType("MessageId", str)

RUN_ID_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9._:-]{0,127}$"
"""No slash: `source_reference` joins run id, attempt and message id with one.

It may begin with `_`, as ids made by assistant-ui do."""

RESERVED_RUN_IDS = frozenset({"preview", "stream", "wait"})
"""Names of routes beside `/v1/runs/{runId}`: a run with such an id could not be looked up."""

STATE_KEY_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9._:@-]{0,199}$"
"""Needs no escaping in paths."""


class RunKey(NamedTuple):
    """The key of a run.

    Run ids are chosen by clients and therefore unique per account only: no account can occupy or probe
    for another account's ids.
    """

    account_id: AccountId
    run_id: RunId


def new_uuid() -> UUID:
    """A UUIDv7, generated here because PostgreSQL before 18 cannot."""
    return UUID(bytes=uuid_utils.uuid7().bytes)
