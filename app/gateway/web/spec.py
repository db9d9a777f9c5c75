"""WebSpec: which of the provider's web tools the runs of a graph have."""

import re
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from app.platform.serialization.strict_yaml import StrictModel
from app.usage.records import WebTool

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_DOMAIN = re.compile(rf"(?=.{{4,253}}\Z)(?:{_LABEL}\.)+(?:[a-z]{{2,63}}|xn--{_LABEL})")
_DOMAIN_FORM = (
    "must be a host name such as example.com, which includes its subdomains: no scheme, user, port, path, "
    "wildcard or address, and international names in their xn-- form"
)


def _is_domain(name: str) -> str:
    if not _DOMAIN.fullmatch(name):
        raise ValueError(_DOMAIN_FORM)
    return name


Domains = Annotated[
    tuple[Annotated[str, AfterValidator(_is_domain)], ...],
    Field(max_length=100),
]
_Flag = Annotated[bool, Field(strict=True)]


class WebSpec(StrictModel):
    """What a graph says under `web`."""

    search: _Flag = False
    fetch: _Flag = False
    allowed_domains: Domains = ()
    """Only these; all if there are none."""
    blocked_domains: Domains = ()
    max_uses: Annotated[int, Field(ge=1, le=100, strict=True)] = 5
    """The most searches of a run, and the most pages it fetches."""
    subagents: _Flag = False
    """Whether subagents have the tools as well."""

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if not self.tools:
            raise ValueError("search or fetch must be true")
        if self.allowed_domains and self.blocked_domains:
            raise ValueError("allowed_domains and blocked_domains exclude each other")
        return self

    @property
    def tools(self) -> tuple[WebTool, ...]:
        """The tools that are switched on."""
        named: tuple[tuple[WebTool, bool], ...] = (("web_search", self.search), ("web_fetch", self.fetch))
        return tuple(tool for tool, is_on in named if is_on)
