"""The chain over HTTP and on the command line."""

import asyncio
import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from app.billing.chain.sealing_key import SealingKey, SealingKeyError
from app.billing.chain.verifier import read_public_keys
from app.billing.credit.ledger import CreditLedger
from app.cli import chain
from app.doctor.chain import check_chain
from app.errors import Invalid
from app.platform.db import Database
from app.platform.settings import Settings
from app.simulator.script import in_turn
from app.usage.records import TokenUsage
from tests.e2e.stories import World, WorldOf, a_request
from tests.factories import an_account, scripted
from tests.integration.chain_books import attacker, checked
from tests.scripted import WriteMessage


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    SealingKey.create(tmp_path / "sealing.pem")
    return tmp_path / "sealing.pem"


@pytest.fixture
def settings(database_url: str, tmp_path: Path, key_file: Path) -> Settings:
    return Settings.load(
        DATABASE_URL=database_url, RUNTALLY_DATA_DIR=tmp_path, RUNTALLY_SEALING_KEY_FILE=key_file
    )


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=1000)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


async def charged(world_of: WorldOf, **settings: object) -> World:
    """A world in which a run was charged, and another account was."""
    executors = scripted(WriteMessage("hi", TokenUsage(input_tokens=1000, output_tokens=100)))
    world = await world_of(in_turn(), executors=executors, **settings)
    assert (await world.http.post("/v1/runs/wait", json=a_request())).json()["ok"]
    other = await an_account(world.services.database, "globex")
    await world.services.ledger.grant(other.account_id, 10)
    return world


async def test_an_account_exports_its_own_chain_and_verifies_it(world_of: WorldOf, key_file: Path) -> None:
    world = await charged(world_of, RUNTALLY_SEALING_KEY_FILE=key_file)
    assert await world.services.chain.seal() is not None

    response = await world.http.get("/v1/chain")
    keys = (await world.http.get("/v1/chain/keys")).json()["items"]
    roots = (await world.http.get("/v1/chain/roots")).json()["items"]

    assert response.headers["content-type"].startswith("text/jsonl")
    assert 'filename="chain.jsonl"' in response.headers["content-disposition"]
    records = [json.loads(line) for line in response.text.splitlines()]
    key = SealingKey.read(key_file)
    assert checked(records, key) == []
    assert read_public_keys(keys[0]["pem"].encode()).keys() == key.public_keys.keys() == {keys[0]["id"]}
    assert [record["type"] for record in records] == ["export", "root", "leaf", "account", "link", "end"]
    assert roots[0]["statement"] == records[1]["statement"]
    assert json.loads(roots[0]["statement"])["accounts"] == 2
    assert (await world.http.get("/readyz")).json()["chain"] == "signed"


async def test_roots_are_listed_in_pages(world_of: WorldOf, key_file: Path) -> None:
    world = await charged(world_of, RUNTALLY_SEALING_KEY_FILE=key_file)
    account = await world.services.accounts.find_by_name("globex")
    for _ in range(3):
        await world.services.ledger.grant(account.id, 10)
        assert await world.services.chain.seal() is not None

    first = (await world.http.get("/v1/chain/roots", params={"limit": 2})).json()
    second = (
        await world.http.get("/v1/chain/roots", params={"limit": 2, "cursor": first["nextCursor"]})
    ).json()
    wrong = [
        (await world.http.get("/v1/chain/roots", params={"cursor": cursor})).status_code
        for cursor in ("", "-1", "x", "9" * 40, "\u0665")
    ]

    numbers = [[item["number"] for item in page["items"]] for page in (first, second)]
    assert len(numbers[0]) == 2
    assert sorted(numbers[0] + numbers[1], reverse=True) == numbers[0] + numbers[1]
    assert numbers[1][-1] == 1
    assert second["nextCursor"] is None
    assert wrong == [422] * 5


async def test_without_a_key_the_export_has_no_roots_and_the_server_says_so(world_of: WorldOf) -> None:
    world = await charged(world_of)

    records = [json.loads(line) for line in (await world.http.get("/v1/chain")).text.splitlines()]

    assert [record["type"] for record in records] == ["export", "account", "link", "end"]
    assert (await world.http.get("/v1/chain/keys")).json()["items"] == []
    assert (await world.http.get("/readyz")).json()["chain"] == "unsigned"


async def test_commands_seal_export_and_verify(
    database: Database, database_url: str, settings: Settings, console: Console, tmp_path: Path
) -> None:
    owner = await an_account(database)
    await CreditLedger(database).grant(owner.account_id, 10)

    await chain.seal(settings, console)
    for account in ("acme", None):
        output = io.StringIO()
        await chain.export_chain(settings, output, account)
        assert (
            checked([json.loads(line) for line in output.getvalue().splitlines()], chain._key(settings)) == []
        )
    chain.show_public_keys(settings, console)
    assert "-----BEGIN PUBLIC KEY-----" in printed(console)
    assert "PRIVATE" not in printed(console)
    (tmp_path / "public.pem").write_text(printed(console))
    (tmp_path / "earlier.jsonl").write_text(output.getvalue())
    given = {"keys": [tmp_path / "public.pem"], "earlier": [tmp_path / "earlier.jsonl"]}
    assert await chain.verify_database(settings, console, as_json=False, **given)

    async with attacker(database_url) as connection:
        await connection.execute("UPDATE credit_ledger SET credits = 99")
    assert not await chain.verify_database(settings, console, as_json=False, **given)
    assert "credits of the entry 1 was 10 and is now 99" in printed(console)


async def test_wrong_files_are_refused(settings: Settings, console: Console, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="--key"):
        await chain.verify_database(settings, console, keys=[tmp_path / "none"], earlier=[])
    (tmp_path / "export").write_text("[1]\n{}")
    with pytest.raises(Invalid, match="--earlier"):
        await chain.verify_database(settings, console, keys=[], earlier=[tmp_path / "export"])
    without = Settings.load(DATABASE_URL=settings.database_url, RUNTALLY_DATA_DIR=tmp_path)
    with pytest.raises(SealingKeyError, match="chain keygen"):
        await chain.seal(without, console)


def test_keygen_prints_the_public_key_alone(console: Console, tmp_path: Path) -> None:
    chain.make_key(console, tmp_path / "new.pem", rotate=False)
    chain.make_key(console, tmp_path / "new.pem", rotate=True)

    assert "PRIVATE" not in printed(console)
    assert printed(console).count("BEGIN PUBLIC KEY") == 3


async def test_the_doctor_tells_how_far_chains_are_sealed(
    database: Database, database_url: str, settings: Settings, console: Console, key_file: Path
) -> None:
    owner = await an_account(database)
    await CreditLedger(database).grant(owner.account_id, 10)
    await chain.seal(settings, console)
    await CreditLedger(database).grant(owner.account_id, 10)
    unset = settings.model_copy(update={"sealing_key_file": None})

    sealed = await check_chain(settings, database)
    without = await check_chain(unset, database)
    async with attacker(database_url) as connection:
        await connection.execute("UPDATE chain_roots SET made_at = now() - interval '3 days'")
    late = await check_chain(settings, database)
    await asyncio.to_thread(key_file.chmod, 0o644)
    readable = await check_chain(settings, database)

    assert sealed.status == "ok"
    assert "root 1 of 20" in sealed.detail
    assert sealed.detail.endswith("1 entries are not sealed yet")
    assert [each.status for each in (without, late, readable)] == ["warning"] * 3
    assert "chmod 600" in readable.detail
