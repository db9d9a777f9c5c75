"""The report of `runtally doctor`."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr

from app.platform.logs.secrets import without_secrets as hidden_in
from app.platform.settings import Settings

Status = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    name: str
    status: Status
    detail: str


@dataclass(frozen=True, slots=True)
class Report:
    """All checks, in the order they were made."""

    checks: Sequence[Check]

    @property
    def ok(self) -> bool:
        """Whether the server can be started; warnings do not count."""
        return not any(check.status == "error" for check in self.checks)

    def as_json(self) -> dict[str, Any]:
        return {"ok": self.ok, "checks": [asdict(check) for check in self.checks]}


def without_secrets(checks: Iterable[Check], settings: Settings) -> list[Check]:
    """The checks without secrets of the settings, which details from other programs may contain."""
    secrets = _secrets(settings)
    return [Check(check.name, check.status, hidden_in(check.detail, secrets)) for check in checks]


def _secrets(settings: Settings) -> list[str]:
    values = dict(settings)
    found = [value.get_secret_value() for value in values.values() if isinstance(value, SecretStr)]
    found += [secret.get_secret_value() for secret in settings.mcp_secrets.values()]
    urls = [value for value in values.values() if isinstance(value, str)] + found
    for url in filter(lambda text: "://" in text, urls):
        password = urlsplit(url).password or ""
        found += [password, unquote(password)]
    return found
