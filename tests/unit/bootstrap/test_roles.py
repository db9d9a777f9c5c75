import pytest

from app.bootstrap.roles import Role
from app.platform.settings import Settings, SettingsError

DATABASE = {"DATABASE_URL": "postgresql://runtally@db/runtally"}
RELAY = {"REDIS_URL": "redis://relay"}


@pytest.mark.parametrize("role", [Role.API, Role.WORKER])
@pytest.mark.parametrize(
    ("given", "missing"),
    [({}, "DATABASE_URL and REDIS_URL"), (DATABASE, "REDIS_URL"), (RELAY, "DATABASE_URL")],
)
def test_processes_that_work_together_need_what_they_share(
    role: Role, given: dict[str, str], missing: str
) -> None:
    settings = Settings.load(_env_file=None, **given)

    with pytest.raises(SettingsError, match=f"runtally {role.value}` needs {missing}:"):
        role.require_settings(settings)
    Role.SERVE.require_settings(settings)


@pytest.mark.parametrize("role", list(Role))
def test_with_both_every_role_starts(role: Role) -> None:
    role.require_settings(Settings.load(_env_file=None, **DATABASE, **RELAY))
