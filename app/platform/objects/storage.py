"""ObjectStorage: contents in a bucket or a directory; the only module that imports obstore."""

import asyncio
import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import structlog
from obstore.exceptions import BaseError
from obstore.store import LocalStore, from_url
from pydantic import SecretStr

from app.errors import Gone, OperatorError, Unavailable
from app.ids import AccountId
from app.platform.logs.dependency import QUIET_S, DependencyLog
from app.platform.metrics.objects import ObjectMetrics, ObjectOperation
from app.platform.network import SYSTEM, Network
from app.platform.serialization.cipher import Cipher, NotDecrypted

log = structlog.get_logger(__name__)

_FILE: Final = "file://"
_TIMEOUT: Final = timedelta(seconds=30)
_RETRIES: Final = 5
_PATIENCE: Final = timedelta(seconds=20)
"""For how long a request is repeated: the callers of ours wait for it."""
_REREADS_S: Final = (0.1, 0.3, 1.0, 2.0)
"""Pauses before what is missing or damaged is read again: some stores show it a little later."""


class ContentsUnavailable(Unavailable):
    """The storage of large contents is unavailable; try again later."""

    code = "storage_unavailable"


class ContentLost(Gone):
    """This content cannot be read any more."""

    code = "content_lost"


class ObjectsNotUsable(OperatorError):
    """RUNTALLY_OBJECTS cannot be used; the text says why, without a secret."""


class ObjectStorage:
    """Contents by account and SHA-256, encrypted if there is a key."""

    def __init__(
        self, url: str, key: SecretStr | None, network: Network, metrics: ObjectMetrics | None = None
    ) -> None:
        """Raises `ObjectsNotUsable` for a URL that nothing can be stored at."""
        self._cipher = None if key is None else Cipher(key)
        self._metrics = metrics or ObjectMetrics()
        self._log = DependencyLog("objects.unavailable", "objects.available", quiet_s=QUIET_S)
        try:
            if url.startswith(_FILE):
                directory = Path(url.removeprefix(_FILE))
                # No other user of the machine reads what is stored there.
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._store: Any = LocalStore(directory)
            else:
                # Its overloads are for the options of one kind of URL each.
                options: Any = {
                    "client_options": _client_options(network),
                    "retry_config": {"max_retries": _RETRIES, "retry_timeout": _PATIENCE},
                }
                self._store = from_url(url, **options)
        except (BaseError, ValueError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else type(error).__name__
            raise ObjectsNotUsable(
                f"RUNTALLY_OBJECTS cannot be used: {reason}; name another place, or correct the variables of "
                "the storage (docs/operations/storage.md)."
            ) from error

    async def put(self, account_id: AccountId, sha256: str, content: bytes) -> None:
        """Write a content; raises `ContentsUnavailable`."""
        path = self._path(account_id, sha256)
        if self._cipher is not None:
            content = await asyncio.to_thread(self._cipher.encrypt, content, purpose=path.encode())
        with self._request("put"):
            await self._store.put_async(path, content)
        self._metrics.passed("put", len(content))

    async def get(self, account_id: AccountId, sha256: str) -> bytes:
        """A content that was written, whole and unchanged; raises `ContentsUnavailable`, `ContentLost`."""
        path = self._path(account_id, sha256)
        for pause_s in (*_REREADS_S, None):
            try:
                with self._request("get"):
                    content = bytes(await (await self._store.get_async(path)).bytes_async())
                self._metrics.passed("get", len(content))
                if (plain := await asyncio.to_thread(self._checked, path, sha256, content)) is not None:
                    return plain
                problem: Exception = NotDecrypted("damaged, or encrypted with another key")
            except FileNotFoundError as error:
                problem = error
            if pause_s is not None:
                await asyncio.sleep(pause_s)
        log.error("objects.content_lost", path=path, reason=type(problem).__name__)
        self._metrics.failed("lost")
        raise ContentLost from problem

    async def is_lost(self, account_id: AccountId, sha256: str) -> bool:
        """Whether a content that was written is missing, as far as that can be found out."""
        try:
            with suppress(ContentsUnavailable), self._request("head"):
                await self._store.head_async(self._path(account_id, sha256))
        except FileNotFoundError:
            return True
        return False

    async def delete(self, account_id: AccountId, sha256: str) -> None:
        """Delete a content, if it is there; raises `ContentsUnavailable`."""
        with suppress(FileNotFoundError), self._request("delete"):
            await self._store.delete_async(self._path(account_id, sha256))

    def _path(self, account_id: AccountId, sha256: str) -> str:
        # The hash of a content that others know would tell them that an account has it.
        name = sha256 if self._cipher is None else self._cipher.name(f"{account_id}/{sha256}")
        return f"{account_id}/{name}"

    def _checked(self, path: str, sha256: str, content: bytes) -> bytes | None:
        if self._cipher is not None:
            try:
                content = self._cipher.decrypt(content, purpose=path.encode())
            except NotDecrypted:
                return None
        return content if hashlib.sha256(content).hexdigest() == sha256 else None

    @contextmanager
    def _request(self, operation: ObjectOperation) -> Iterator[None]:
        """Raises `ContentsUnavailable`, and `FileNotFoundError` if what is read or deleted is not there."""
        began = time.monotonic()
        try:
            yield
        except (BaseError, OSError) as error:
            # Nothing can be written where the bucket is not there.
            if isinstance(error, FileNotFoundError) and operation != "put":
                self._answered(operation, began)
                raise
            # Its text may have the URL with its query, and what the store answered.
            self._log.failed(type(error).__name__)
            self._metrics.failed("unavailable")
            raise ContentsUnavailable from error
        self._answered(operation, began)

    def _answered(self, operation: ObjectOperation, began: float) -> None:
        self._metrics.answered(operation, after_s=time.monotonic() - began)
        self._log.worked()


def _client_options(network: Network) -> dict[str, Any]:
    # Only an endpoint that an operator has named with http:// is reached without TLS.
    options: dict[str, Any] = {"timeout": _TIMEOUT, "allow_http": True}
    if (proxy := network.proxy) is not None:
        user = "".join(f"{quote(each, safe='')}:" for each in proxy.credentials or ()).removesuffix(":")
        options["proxy_url"] = f"{proxy.scheme}://{user}{'@' if user else ''}{proxy.address}"
        direct = network.no_proxy
        options["proxy_excludes"] = ",".join([*direct.names, *direct.endings, *map(str, direct.networks)])
    if network.authorities is not None and network.authorities != SYSTEM:
        options["root_certificate"] = network.authorities.read_bytes()
    return options
