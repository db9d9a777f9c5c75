from pathlib import Path

import pytest

from app.executors.claude_agent.process.environment import Login, login_environment
from app.executors.claude_agent.process.provider_variables import chooses_provider

RUN = Path("/somewhere/run-1")
NAMED = [
    *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS"),
    *("ANTHROPIC_MODEL", "ANTHROPIC_SMALL_FAST_MODEL", "ANTHROPIC_VERTEX_PROJECT_ID", "CLOUD_ML_REGION"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"),
    *("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_BEARER_TOKEN_BEDROCK"),
    *("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"),
    *("CLAUDE_CODE_SKIP_BEDROCK_AUTH", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_OAUTH_REFRESH_TOKEN"),
    *("CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR", "CLAUDE_CODE_EXTRA_BODY", "CLAUDE_CODE_SUBAGENT_MODEL"),
    *("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "all_proxy", "NODE_EXTRA_CA_CERTS"),
]


@pytest.mark.parametrize("name", NAMED)
def test_what_would_choose_a_provider_is_known(name: str) -> None:
    assert chooses_provider(name)


@pytest.mark.parametrize("name", ["PATH", "HOME", "LANG", "NO_PROXY", "CLAUDE_CONFIG_DIR", "DISABLE_COMPACT"])
def test_what_does_not_is_let_through(name: str) -> None:
    assert not chooses_provider(name)


def test_a_login_in_the_users_home_is_looked_for_where_it_always_is() -> None:
    login = Login(None, Path("/home/user"))
    environment = login_environment(login, directory=RUN)

    assert environment["HOME"] == "/home/user"
    assert "CLAUDE_CONFIG_DIR" not in environment
    assert login.config == Path("/home/user/.claude")


def test_a_login_in_a_named_directory_brings_nothing_else_of_a_home() -> None:
    login = Login.of(Path("/srv/login"))
    environment = login_environment(login, directory=RUN)

    assert environment["HOME"] == str(RUN / "home")
    assert environment["CLAUDE_CONFIG_DIR"] == "/srv/login" == str(login.config)


def test_no_login_environment_names_a_provider() -> None:
    for login in (Login(None, Path("/home/user")), Login.of(Path("/srv/login"))):
        environment = login_environment(login, directory=RUN)
        assert [name for name in environment if chooses_provider(name)] == []
