"""McpLogins: logins at external MCP servers, shared by all processes; and the tokens they give."""

import asyncio
import time
from dataclasses import replace
from datetime import timedelta

import anyio
import structlog
from mcp.shared.auth import OAuthToken
from pydantic import SecretStr

from app.errors import Unavailable
from app.platform.background import run_to_completion
from app.platform.db import Database, StatementFailed
from app.platform.network import Network
from app.tools.mcp.oauth import repository
from app.tools.mcp.oauth.endpoints import OAuthFailed, OAuthHttp
from app.tools.mcp.oauth.records import LoginKey, McpLogin, StoredLogin
from app.tools.mcp.oauth.sealing import LoginUnreadable, Sealer
from app.tools.mcp.oauth.token_source import MARGIN_S, client_authentication

log = structlog.get_logger(__name__)

_CLAIM = timedelta(seconds=15)
"""How long a process alone may renew a login: longer than a request for a token may take."""
_POLL_S = 0.2
"""How often the others look for what it has renewed."""


class McpLogins:
    """Keeps logins encrypted in the database."""

    def __init__(self, database: Database, key: SecretStr) -> None:
        self._database = database
        self._sealer = Sealer(key)
        self._unsaved: dict[LoginKey, StoredLogin] = {}
        """Logins that were renewed and could not be written, with the version that they replace."""

    async def load(self, key: LoginKey) -> StoredLogin:
        """The login; raises `OAuthFailed` if there is none that can be used."""
        if (unsaved := self._unsaved.get(key)) is not None:
            await self.renew(key, unsaved.login, version=unsaved.version)
        try:
            async with self._database.read() as reader:
                stored = await repository.sealed_login(reader, key)
        except (Unavailable, StatementFailed) as error:
            raise OAuthFailed("the login cannot be read from the database") from error
        if stored is None:
            raise OAuthFailed(f"there is no login: use {login_command(key)}")
        sealed, version = stored
        try:
            return StoredLogin(self._sealer.unseal(key, sealed), version)
        except LoginUnreadable as error:
            message = f"RUNTALLY_MCP_TOKEN_KEY is not the key of the stored login: use {login_command(key)}"
            raise OAuthFailed(message) from error

    async def save(self, key: LoginKey, login: McpLogin) -> None:
        """Keep a new login; raises what `Database.write` raises."""
        async with self._database.write() as tx:
            await repository.set_login(tx, key, self._sealer.seal(key, login))

    async def claim(self, key: LoginKey, *, version: int) -> bool:
        """Whether this process alone may renew the login now; raises `OAuthFailed`."""
        try:
            async with self._database.write() as tx:
                return await repository.claim_refresh(tx, key, version=version, claim=_CLAIM)
        except (Unavailable, StatementFailed) as error:
            raise OAuthFailed("the renewed login could not be written to the database") from error

    async def release(self, key: LoginKey, *, version: int) -> None:
        """Let another process renew the login."""
        try:
            async with self._database.write() as tx:
                await repository.release_refresh(tx, key, version=version)
        except (Unavailable, StatementFailed) as error:
            # The claim ends by itself.
            log.warning("mcp_server.login_not_released", server=key.server, reason=str(error))

    async def renew(self, key: LoginKey, login: McpLogin, *, version: int) -> None:
        """Keep a login that was renewed; what cannot be written is kept here until the next `load`."""
        self._unsaved[key] = StoredLogin(login, version)
        try:
            async with self._database.write() as tx:
                await repository.renew_login(tx, key, self._sealer.seal(key, login), version=version)
        except (Unavailable, StatementFailed) as error:
            log.error("mcp_server.login_not_saved", server=key.server, reason=str(error))  # noqa: TRY400
        else:
            del self._unsaved[key]


class LoginGrant:
    """Tokens of an operator's login; implements `TokenGrant`."""

    def __init__(self, logins: McpLogins, key: LoginKey, server_url: str, *, network: Network) -> None:
        self._logins = logins
        self._network = network
        self._key = key
        self._server_url = server_url

    async def request(self, *, refused: str | None) -> OAuthToken:
        """See `TokenGrant`: the stored access token while it is valid, otherwise a new one."""
        waits_until = asyncio.get_running_loop().time() + _CLAIM.total_seconds()
        while True:
            stored = await self._logins.load(self._key)
            if stored.login.url != self._server_url:
                raise OAuthFailed(f"the login is for another URL: use {login_command(self._key)}")
            if (token := _usable(stored.login, refused)) is not None:
                return token
            # The refresh ends the stored refresh token: if the new one were not kept, neither could be used.
            # The scope holds off the cancellations that anyio repeats as long as they have no effect.
            with anyio.CancelScope(shield=True):
                renewed = await run_to_completion(self._renew(stored))
            if renewed is not None:
                return renewed
            if asyncio.get_running_loop().time() > waits_until:
                raise OAuthFailed("another process renews the login and does not finish")
            await asyncio.sleep(_POLL_S)

    async def _renew(self, stored: StoredLogin) -> OAuthToken | None:
        """A new token; None if another process renews the login."""
        if stored.login.refresh_token is None:
            raise OAuthFailed(f"the login has ended: use {login_command(self._key)}")
        if not await self._logins.claim(self._key, version=stored.version):
            return None
        try:
            return await self._refresh(stored, stored.login.refresh_token)
        except OAuthFailed:
            await self._logins.release(self._key, version=stored.version)
            raise

    async def _refresh(self, stored: StoredLogin, refresh_token: str) -> OAuthToken:
        login = stored.login
        form = {
            "grant_type": "refresh_token",
            "refresh_token": refresh_token,
            "resource": login.resource,
        }
        more, headers = client_authentication(
            login.client_id,
            login.client_secret if login.client_auth else None,
            in_body=login.client_auth == "client_secret_post",
        )
        async with OAuthHttp(self._server_url, self._network) as http:
            token = await http.token(login.token_url, form | more, headers)
        renewed = replace(
            login,
            access_token=token.access_token,
            refresh_token=token.refresh_token or refresh_token,
            expires_at=expiry_of(token),
        )
        await self._logins.renew(self._key, renewed, version=stored.version)
        return token


def login_command(key: LoginKey) -> str:
    """The command that an operator uses to log in."""
    return f"runtally mcp login {key.graph} {key.server}"


def expiry_of(token: OAuthToken) -> float | None:
    """When a token that was just issued ends, in seconds since 1970."""
    return None if token.expires_in is None else time.time() + token.expires_in


def _usable(login: McpLogin, refused: str | None) -> OAuthToken | None:
    if login.access_token == refused:
        return None
    if login.expires_at is None:
        return OAuthToken(access_token=login.access_token)
    left = login.expires_at - time.time()
    if left <= MARGIN_S:
        return None
    return OAuthToken(access_token=login.access_token, expires_in=int(left))
