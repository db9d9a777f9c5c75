"""The ids of responses and of their items: each names its run, and where in the run its response begins."""

import re
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from app.runs.commands.service import RunNotFound

Kind: TypeAlias = Literal["resp", "msg", "rs", "fc", "fco", "mcpr", "mcpa"]

_ID: Final = re.compile(
    rf"({'|'.join(get_args(Kind))})_([A-Za-z0-9._:-]{{1,128}})(?:~([0-9]{{1,9}})(?:\.(.{{1,200}}))?)?"
)


class ResponseName(NamedTuple):
    """A response: what a run has answered after a position, up to its end or to where it waits."""

    run_id: str
    after: int = 0

    @classmethod
    def of(cls, known: str) -> "ResponseName | None":
        found = _ID.fullmatch(known)
        return None if found is None else cls(found[2], int(found[3] or 0))

    @classmethod
    def named(cls, known: str) -> "ResponseName":
        """The same; raises `RunNotFound`."""
        if (name := cls.of(known)) is None:
            raise RunNotFound
        return name

    def id_of(self, kind: Kind, item: str | int | None = None) -> str:
        if item is not None:
            return f"{kind}_{self.run_id}~{self.after}.{item}"
        return f"{kind}_{self.run_id}" + (f"~{self.after}" if self.after else "")


def request_of(known: str) -> tuple[str, str] | None:
    """The run and the request that an item asks a person about; None for other ids."""
    found = _ID.fullmatch(known)
    return None if found is None or found[1] != "mcpr" or found[4] is None else (found[2], found[4])
