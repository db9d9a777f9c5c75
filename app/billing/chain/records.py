"""Links, roots and leaves of the chains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class ChainHead:
    """The link of an account at a position, usually its newest."""

    position: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class ChainLeaf:
    """The entry of an account in a root."""

    account_id: UUID
    leaf_index: int
    """Its place in the tree, in the order in which accounts were first sealed."""
    position: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class RootLeaf(ChainLeaf):
    """A leaf that is not in the root before."""

    root_number: int


@dataclass(frozen=True, slots=True)
class ChainRoot:
    """A signed statement about all chains."""

    number: int
    statement: str
    signature: bytes
    made_at: datetime


@dataclass(frozen=True, slots=True)
class ChainLink:
    """A ledger entry, with its receipt, in the chain of its account."""

    account_id: UUID
    position: int
    content: str
    hash: bytes


@dataclass(frozen=True, slots=True)
class LinkedRow:
    """A link and the rows it was made from, as JSON; None if a row is gone."""

    link: ChainLink
    entry: str | None
    receipt: str | None
    end_user_hash: str | None = None
    """Of the end user on the receipt, as a link names it."""


@dataclass(frozen=True, slots=True)
class RootPage:
    """Some roots, and the leaves that they changed, by the root's number."""

    roots: Sequence[ChainRoot]
    leaves: Mapping[int, Sequence[RootLeaf]]
