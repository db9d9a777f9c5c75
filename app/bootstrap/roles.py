"""Role: which part of the service a process provides."""

from enum import Enum

from app.platform.settings import Settings, SettingsError


class Role(Enum):
    """What a process does. Processes of all roles share one database and one relay."""

    SERVE = "serve"
    """Everything."""
    API = "api"
    """The API: accepts runs, streams their events, executes none. No CLI, no gateway, no provider key."""
    WORKER = "worker"
    """Executes runs; of the API it serves health and metrics only."""

    @property
    def executes_runs(self) -> bool:
        """Whether it has places for runs."""
        return self is not Role.API

    def require_settings(self, settings: Settings) -> None:
        """Raise `SettingsError` unless this process can work with others."""
        if self is Role.SERVE:
            return
        needed = {"DATABASE_URL": settings.database_url, "REDIS_URL": settings.redis_url}
        if missing := [name for name, value in needed.items() if value is None]:
            raise SettingsError(
                f"`runtally {self.value}` needs {' and '.join(missing)}: other processes use the same "
                "database and relay. `runtally serve` alone needs neither."
            )
