"""ProviderProfiles: the user profiles at the provider that accounts are reported under."""

from collections.abc import Mapping

from app.auth.accounts import Accounts
from app.ids import AccountId
from app.platform.background import forever

REFRESH_S = 15.0


class ProviderProfiles:
    """Keeps them in memory: they are needed for each call of a model."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._profiles: Mapping[AccountId, str] = {}

    def find(self, account_id: AccountId) -> str | None:
        """The profile of an account; None if it has none, or until the first refresh."""
        return self._profiles.get(account_id)

    async def refresh(self) -> None:
        found = await self._accounts.find_provider_profiles()
        self._profiles = {account_id: profile for profile, account_id in found.items()}

    async def watch(self) -> None:
        """Refresh until cancelled: a change reaches every server within seconds."""
        await forever(self.refresh, REFRESH_S, name="provider_profiles", first_after_s=REFRESH_S)
