"""MemberOptions: what the supervisor gives a server process. Imports nothing of the server."""

import json
from dataclasses import asdict, dataclass, replace
from typing import ClassVar

MOST_PROCESSES = 32
"""The embedded PostgreSQL has connections for so many."""


@dataclass(frozen=True, slots=True)
class MemberOptions:
    """What a process gets from its supervisor, besides its environment."""

    SERVES: ClassVar[bytes] = b"\n"
    """What it sends when it serves."""

    name: str
    directory: str
    """Private, the same for all."""
    api: int
    """The descriptor of the listening socket."""
    scrapes: int | None
    """That of the metrics port."""
    accepted: int
    """That of the file of the `SharedListener`s."""
    is_terminal: bool
    """Whether log lines are shown on one."""

    @property
    def descriptors(self) -> list[int]:
        """What it inherits."""
        return [self.api, self.accepted, *(() if self.scrapes is None else (self.scrapes,))]

    def of(self, name: str) -> "MemberOptions":
        """Those of one process."""
        return replace(self, name=name)

    def to_json(self) -> str:
        """As an argument."""
        return json.dumps(asdict(self))
