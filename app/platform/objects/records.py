"""The data of contents outside the database."""

from typing import NamedTuple

from app.ids import AccountId


class StoredObject(NamedTuple):
    """The key of a content."""

    account_id: AccountId
    sha256: str
