"""What was looked at and how it is."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr

from app.settings import Settings

Status = Literal["ok", "warning", "error"]

_HIDDEN = "[hidden]"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    status: Status
    detail: str


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was looked at, in the order it was."""

    checks: Sequence[Check]

    @property
    def ok(self) -> bool:
        """Whether the server can be used as it is; a warning does not stop it."""
        return not any(check.status == "error" for check in self.checks)

    def as_json(self) -> dict[str, Any]:
        """The shape programs rely on."""
        return {"ok": self.ok, "checks": [asdict(check) for check in self.checks]}


def without_secrets(checks: Iterable[Check], settings: Settings) -> list[Check]:
    """The same without any secret of the settings: details may hold what others have said."""
    secrets = [secret for secret in _secrets(settings) if secret]
    return [Check(check.name, check.status, _redacted(check.detail, secrets)) for check in checks]


def _redacted(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, _HIDDEN)
    return text


def _secrets(settings: Settings) -> list[str]:
    values = dict(settings)
    found = [value.get_secret_value() for value in values.values() if isinstance(value, SecretStr)]
    found += [secret.get_secret_value() for secret in settings.mcp_secrets.values()]
    for value in values.values():
        if isinstance(value, str) and "://" in value:
            password = urlsplit(value).password or ""
            found += [password, unquote(password)]
    return found
