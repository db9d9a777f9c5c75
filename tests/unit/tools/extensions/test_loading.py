from pathlib import Path

import pytest

from app.tools.extensions.loading import ExtensionInvalid, Extensions
from tests.unit.tools.calling import CONTEXT
from tests.unit.tools.extensions.packages import install
from tests.unit.tools.extensions.test_hooks import a_call

SAMPLES = "tests.unit.tools.extensions.samples"


async def test_an_installed_package_brings_hooks_and_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, hooks={"audit": f"{SAMPLES}:Audit"}, credentials={"v": f"{SAMPLES}:vault"})
    extensions = Extensions.load()

    assert extensions.names == ["hooks 'audit'", "credentials"]
    assert await extensions.hooks.before_tool(CONTEXT, a_call()) == "Not office__send."
    token = await extensions.credentials(CONTEXT, "office__send").get("mail")
    assert token.get_secret_value() == "r1/office__send/mail-A1b2C3d4"


def test_without_packages_there_is_nothing() -> None:
    assert list(Extensions.load().names) == []


@pytest.mark.parametrize(
    ("group", "value", "fault"),
    [
        ("hooks", "no.such.module:Audit", "cannot be loaded: ModuleNotFoundError: No module named 'no'"),
        ("hooks", f"{SAMPLES}:Missing", "cannot be loaded: AttributeError"),
        ("hooks", f"{SAMPLES}:NoHooks", "is not a class derived from runtally.Hooks"),
        ("hooks", f"{SAMPLES}:vault", "is not a class derived from runtally.Hooks"),
        ("hooks", f"{SAMPLES}:NeedsMore", "cannot be created: TypeError"),
        ("hooks", f"{SAMPLES}:NotAsync", "has a method before_tool that is not async"),
        ("credentials", f"{SAMPLES}:not_async", "is not an async function"),
    ],
)
def test_what_cannot_be_used_is_named_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str, value: str, fault: str
) -> None:
    install(tmp_path, monkeypatch, **{group: {"broken": value}})

    with pytest.raises(ExtensionInvalid) as caught:
        Extensions.load()

    expected = f"The entry point 'broken' of the group runtally.{group} ({value}) {fault}"
    assert str(caught.value).startswith(expected)


def test_a_second_provider_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, monkeypatch, credentials={"a": f"{SAMPLES}:vault", "b": f"{SAMPLES}:vault"})

    with pytest.raises(ExtensionInvalid, match=r"'b' .* is a second one besides 'a'"):
        Extensions.load()
