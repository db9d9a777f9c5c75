"""Checks whether the issuers of tokens and of persons can be reached, and say what is needed of them."""

from app.auth.oidc.service import ENDPOINTS
from app.auth.tokens.answers import FAILURES, named_url, why
from app.auth.tokens.issuer_keys import IssuerKeys
from app.doctor.report import Check
from app.platform.issuers.persons import OidcProvider
from app.platform.issuers.tokens import Issuer
from app.platform.settings import Settings

_NAME = "issuers"


async def check_issuers(settings: Settings) -> list[Check]:
    """One check for each issuer: its configuration and keys are fetched as the server does."""
    persons = [] if settings.oidc is None else [settings.oidc]
    async with IssuerKeys(settings.network) as keys:
        return [await _of(each, keys) for each in (*settings.jwt_issuers, *persons)]


async def _of(issuer: Issuer, keys: IssuerKeys) -> Check:
    whose = "persons" if isinstance(issuer, OidcProvider) else "tokens"
    if (reason := await _problem(issuer, keys)) is not None:
        return Check(_NAME, "error", f"{issuer.issuer}: no {whose} are accepted: {reason}")
    return Check(_NAME, "ok", f"{issuer.issuer} gives its keys, for {whose}")


async def _problem(issuer: Issuer, keys: IssuerKeys) -> str | None:
    reason = await keys.fetch(issuer)
    if reason is not None or not isinstance(issuer, OidcProvider):
        return reason
    try:
        configuration = await keys.configuration(issuer)
        for name in ENDPOINTS:
            named_url(configuration, name, issuer)
    except FAILURES as error:
        return why(error)
    return None
