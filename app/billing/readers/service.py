"""SqlReaders: roles that read the billing views, of one account or of all, and nothing else."""

import hashlib
import hmac
import re
import secrets
from base64 import b64encode

from app.billing.readers.repository import create_role, grant_views, is_reader, role_exists, set_account
from app.errors import Invalid
from app.ids import AccountId
from app.platform.audit.records import Actor, Change
from app.platform.audit.repository import record_change
from app.platform.db import Database

_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")
_ITERATIONS = 4096
"""As many as PostgreSQL uses."""


class SqlReaders:
    """Creates roles, and gives them another password or account."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def set_role(self, role: str, account_id: AccountId | None, *, by: Actor) -> str:
        """Let a role read an account, or all of them with None; returns its new password.

        Raises `Invalid` for a name that is none, and for a role that was not made here.
        """
        if not _NAME.fullmatch(role):
            raise Invalid.field(
                "role", "must be 1 to 63 of a-z, 0-9 and _, begin with no digit, and not with pg_"
            )
        password = secrets.token_urlsafe(32)
        async with self._database.transaction() as tx:
            if not await role_exists(tx, role):
                await create_role(tx, role)
            elif not await is_reader(tx, role):
                raise Invalid.field("role", "must not be a role that exists, unless sql-role has made it")
            await grant_views(tx, role, _verifier(password))
            await set_account(tx, role, account_id)
            if account_id is not None:
                await record_change(tx, by, Change(account_id, "sql_role.set", role))
        return password


def _verifier(password: str) -> str:
    """What PostgreSQL stores of a password, so that no log of statements has the password."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _ITERATIONS)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    keys = (b64encode(part).decode() for part in (stored, hmac.digest(salted, b"Server Key", "sha256")))
    return f"SCRAM-SHA-256${_ITERATIONS}:{b64encode(salt).decode()}${':'.join(keys)}"
