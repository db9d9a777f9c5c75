"""CodeExchange: gets the token of a person for the code that their browser brings."""

import asyncio
import base64
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

import httpx2

from app.auth.oidc.attempt import Attempt
from app.auth.tokens.answers import IssuerReader, Unusable, named_url
from app.platform.issuers.persons import OidcProvider
from app.platform.network import DIRECT, Network

REDEEMING: Final = "token_endpoint"
_TIMEOUT_S: Final = 10.0


class CodeExchange(IssuerReader):
    """Calls the token endpoint of an issuer."""

    def __init__(self, network: Network = DIRECT) -> None:
        super().__init__(httpx2.Timeout(_TIMEOUT_S), network=network)

    async def redeem(
        self, provider: OidcProvider, configuration: Mapping[str, Any], code: str, attempt: Attempt
    ) -> str:
        """The token (JWT) of a person, which is not checked yet; raises one of `FAILURES`."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": provider.redirect_url,
            "code_verifier": attempt.verifier,
        }
        headers = {"content-type": "application/x-www-form-urlencoded"}
        pair = provider.audience, provider.client_secret.get_secret_value()
        known = configuration.get("token_endpoint_auth_methods_supported")
        # What an issuer understands that does not say (OpenID Connect Discovery 1.0, 3).
        if not isinstance(known, list) or "client_secret_basic" in known:
            encoded = ":".join(map(quote_plus, pair)).encode()
            headers["authorization"] = f"Basic {base64.b64encode(encoded).decode('ascii')}"
        else:
            form |= {"client_id": pair[0], "client_secret": pair[1]}
        url = named_url(configuration, REDEEMING, provider)
        request = httpx2.Request("POST", url, headers=headers, content=urlencode(form).encode())
        async with asyncio.timeout(_TIMEOUT_S):
            token = (await self._read(request)).get("id_token")
        if not isinstance(token, str):
            raise Unusable("the answer has no id_token")
        return token
