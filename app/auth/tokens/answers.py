"""What issuers answer: a JSON object that is read, or the reason why it cannot be used."""

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2

from app.platform.hops import reason_of
from app.platform.issuers.tokens import Issuer
from app.platform.outgoing import HttpSender

_MAX_BYTES: Final = 262_144


class Unusable(Exception):
    """An answer that is not what it must be; the text is for the operator."""


class Away(Unusable):
    """The issuer says that it does not work now."""


FAILURES: Final = (Unusable, httpx2.HTTPError, httpx2.InvalidURL, ValueError, TimeoutError)
"""What reading an answer raises."""


def why(error: Exception) -> str:
    """The reason of such a failure, for the operator."""
    return str(error) if isinstance(error, Unusable) else reason_of(error)


def named_url(configuration: Mapping[str, Any], name: str, issuer: Issuer) -> str:
    """An address in an issuer's OpenID configuration; raises `Unusable`, `ValueError`."""
    url = configuration.get(name)
    if not isinstance(url, str):
        raise Unusable(f"the OpenID configuration has no {name}")
    named, own = urlsplit(url), urlsplit(issuer.issuer)
    # An address that the operator has not named, and that may be one of this network.
    if named.scheme != "https" and named[:2] != own[:2]:
        raise Unusable(f"the OpenID configuration has a {name} without https")
    return url


class IssuerReader(HttpSender):
    """Sends requests to issuers."""

    async def _read(self, request: httpx2.Request) -> dict[str, Any]:
        request.headers.update({"accept": "application/json", "user-agent": "runtally"})
        response = await self._fetch(request, max_bytes=_MAX_BYTES)
        if not response.is_success:
            kind = Away if response.is_server_error else Unusable
            raise kind(f"the answer has status {response.status_code}")
        try:
            content = json.loads(response.content)
        except (ValueError, RecursionError) as error:
            raise Unusable("the answer is not JSON") from error
        if not isinstance(content, dict):
            raise Unusable("the answer is not a JSON object")
        return content
