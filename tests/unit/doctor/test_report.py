from app.doctor.report import Check, Report, without_secrets
from app.platform.settings import Settings


def test_warnings_do_not_make_it_unusable() -> None:
    fine, errors = Check("a", "warning", "x"), Check("b", "error", "y")

    assert Report([fine]).ok
    assert not Report([fine, errors]).ok


def test_the_json_has_the_documented_fields() -> None:
    assert Report([Check("a", "ok", "x")]).as_json() == {
        "ok": True,
        "checks": [{"name": "a", "status": "ok", "detail": "x"}],
    }


def test_details_from_other_programs_contain_no_secrets() -> None:
    settings = Settings.load(
        _env_file=None,
        DATABASE_URL="postgresql://me:p%40ss-w0rd!@db/x",
        REDIS_URL="redis://:Redis-secret@r",
        ANTHROPIC_API_KEY="sk-ant-" + "a" * 20,
        RUNTALLY_BOOTSTRAP_KEY="rt_" + "b" * 20,
    )
    text = f"p%40ss-w0rd! p@ss-w0rd! Redis-secret sk-ant-{'a' * 20} rt_{'b' * 20}"

    (check,) = without_secrets([Check("a", "error", f"{text} but this")], settings)

    assert check.detail == "[hidden] " * 5 + "but this"


def test_a_secret_that_is_a_common_word_is_hidden_in_urls_only() -> None:
    settings = Settings.load(
        _env_file=None,
        DATABASE_URL="postgresql://runtally:runtally@db/runtally",
        REDIS_URL="redis://:redis@r",
    )
    text = "/var/lib/runtally is writable; redis://:redis@r and postgresql://runtally:runtally@db/runtally"

    (check,) = without_secrets([Check("a", "ok", text)], settings)

    assert check.detail == (
        "/var/lib/runtally is writable; redis://:[hidden]@r and postgresql://runtally:[hidden]@db/runtally"
    )
