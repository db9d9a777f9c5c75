"""Host names that commands may reach, as a graph names them and as a command asks for them; pure."""

import re
from typing import Annotated, Final, NamedTuple

from pydantic import AfterValidator

from app.platform.network import is_host_name

_FORM: Final = re.compile(r"(?P<host>[a-z0-9_.-]{1,253})(:(?P<port>[1-9][0-9]{0,4}))?")
_HTTPS: Final = 443
_MAX_PORT: Final = 65_535


class Target(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        """As a graph names it: without the usual port."""
        return self.host if self.port == _HTTPS else f"{self.host}:{self.port}"

    @classmethod
    def read(cls, text: str) -> "Target":
        """Read `host` or `host:port`; raises `ValueError` for anything else, also for addresses."""
        found = _FORM.fullmatch(text.lower())
        if found is None or not is_host_name(found["host"]) or found["host"].endswith("."):
            raise ValueError(
                "must be host names, with a port if it is not 443: pypi.org, git.example.com:8443"
            )
        port = int(found["port"] or _HTTPS)
        if port > _MAX_PORT:
            raise ValueError(f"must have ports up to {_MAX_PORT}")
        return cls(found["host"], port)


EgressHost = Annotated[str, AfterValidator(lambda text: str(Target.read(text)))]
"""A host, or host and port, in the one form in which it is compared."""
