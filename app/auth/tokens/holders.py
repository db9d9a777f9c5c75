"""KeyHolders: the keys that accounts have for issuers, which nothing but what the issuers sign opens."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from app.auth.accounts import AccountNotFound, Accounts
from app.auth.keys import hash_key
from app.auth.tokens.checks import TokenRefused
from app.requests.principal import Principal, Scope


@dataclass(frozen=True, slots=True)
class KeyHolders:
    """Finds the holders of such keys. A revoked one is not replaced."""

    accounts: Accounts
    _made: set[str] = field(default_factory=set)
    """Of the keys that are known to exist."""

    async def find(self, account: str, text: str, *, scopes: Sequence[Scope], name: str) -> Principal:
        """The holder of an account's key for this text, which is made when it is needed.

        The text must begin otherwise than keys do. Raises `TokenRefused` if there is no such account, and
        what `Accounts.find_holder` does.
        """
        try:
            found = await self.accounts.find_by_name(account)
        except AccountNotFound as error:
            raise TokenRefused.because("its account does not exist") from error
        secret = f"{text}\n{found.id}"
        if secret not in self._made:
            await self.accounts.ensure_key(secret, account=account, scopes=scopes, name=name)
            self._made.add(secret)
        return await self.accounts.find_holder(hash_key(secret))
