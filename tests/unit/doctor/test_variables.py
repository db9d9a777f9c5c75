from typing import Any

from app.doctor.variables import check_variables
from app.platform.settings import Settings


def message(environ: dict[str, str], *file_variables: str, **settings: Any) -> list[str]:
    checks = check_variables(environ, file_variables, Settings.load(_env_file=None, **settings))
    return [check.detail for check in checks if check.status == "warning"]


def test_variables_with_an_effect_are_not_reported() -> None:
    environ = {"RUNTALLY_MARKUP": "2", "DATABASE_URL": "x", "RUNTALLY_API_KEY": "x", "PATH": "/bin"}

    assert message(environ, "RUNTALLY_TOOLS") == []


def test_a_misspelled_variable_is_reported_with_a_suggestion() -> None:
    (text,) = message({"RUNTALLY_MAX_CONCURENT_RUNS": "4"})
    (in_file,) = message({}, "DATABSE_URL")

    assert text.endswith("did you mean RUNTALLY_MAX_CONCURRENT_RUNS?")
    assert in_file == "DATABSE_URL in .env is not a setting; did you mean DATABASE_URL?"


def test_quotes_that_are_part_of_a_key_are_reported() -> None:
    (text,) = message(
        {"ANTHROPIC_API_KEY": '"sk-hunter2"', "PATH": '"/bin"', "RUNTALLY_MCP_TOKEN_KEY": "it's"}
    )

    assert text.startswith("ANTHROPIC_API_KEY: the quotes around it are part of the value")
    assert "hunter2" not in text


def test_an_unknown_variable_is_reported_without_a_suggestion() -> None:
    assert message({"RUNTALLY_XYZZY": "1"}) == ["RUNTALLY_XYZZY is not a setting"]


def test_what_is_cached_cannot_be_set() -> None:
    (text,) = message({"RUNTALLY_PROMPT_CACHING": "1"})
    (of_the_cli,) = message({"DISABLE_PROMPT_CACHING": "1"})

    assert "the CLI decides what is cached" in text
    assert message({"RUNTALLY_PROMPT_CACHE_TTL": "1h"}) == []
    assert of_the_cli.endswith("DISABLE_PROMPT_CACHING")


def test_variables_that_reach_neither_cli_nor_provider_are_reported() -> None:
    texts = message(
        {"CLAUDE_CODE_USE_BEDROCK": "1", "ANTHROPIC_AUTH_TOKEN": "secret", "https_proxy": "http://u:p@x"}
    )

    assert any("ANTHROPIC_AUTH_TOKEN, CLAUDE_CODE_USE_BEDROCK" in text for text in texts)
    assert any(text.endswith("HTTPS_PROXY") for text in texts)
    assert "secret" not in str(texts)
    assert "u:p" not in str(texts)


def test_settings_overridden_by_another_are_reported(tmp_path: Any) -> None:
    key = {"ANTHROPIC_API_KEY": "sk-x", "ANTHROPIC_BASE_URL": "http://elsewhere"}

    proxy = {"RUNTALLY_HTTPS_PROXY": "http://proxy:3128"}
    with_login = message({}, **key, **proxy, RUNTALLY_CLAUDE_AUTH="local_session")
    with_key = message({}, **key, RUNTALLY_CLAUDE_CONFIG_DIR=tmp_path)

    named = ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "RUNTALLY_HTTPS_PROXY"]
    assert [text.partition(" ")[0] for text in with_login] == named
    assert [text.partition(" ")[0] for text in with_key] == ["RUNTALLY_CLAUDE_CONFIG_DIR"]
