"""`runtally chain` and `runtally verify`: work on the database, also while a server uses it."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console

from app.auth.accounts import Accounts
from app.billing.chain.export import all_records
from app.billing.chain.sealing import root_hash, seal_status
from app.billing.chain.sealing_key import SealingKey, SealingKeyError
from app.billing.chain.service import AccountChains
from app.billing.chain.verification import verify
from app.billing.chain.verifier import PublicKeys, read_public_keys
from app.billing.statements.verification import wrong_statements
from app.bootstrap.storage import attach_database, open_sealer, open_witness
from app.cli.terminal import print_words, working
from app.errors import Invalid
from app.platform.settings import Settings

_COVERED = (
    "checked: ledger entries and receipts, their chains, roots, statements, sums (balances, months, rollups)",
    "not checked: names, keys and limits of accounts, runs, prices, counts of calls",
)
"""Names the tables of docs/CHAIN.md."""

_MOST_SHOWN = 1000


def make_key(console: Console, path: Path, *, rotate: bool) -> None:
    """Write a new private key to a file and print its public key."""
    key = SealingKey.rotate(path) if rotate else SealingKey.create(path)
    console.print(f"Key {key.id} is in {path}. Set RUNTALLY_SEALING_KEY_FILE={path}.", style="dim")
    console.print("".join(key.public_pems.values()), end="", markup=False, soft_wrap=True)


def show_public_keys(settings: Settings, console: Console) -> None:
    """Print the public keys of all roots, for those who verify exports."""
    console.print("".join(_key(settings).public_pems.values()), end="", markup=False, soft_wrap=True)


async def seal(settings: Settings, console: Console, *, as_json: bool = False) -> None:
    """Sign a root now and print its hash."""
    _key(settings)
    with working("Reading all chains…"):
        async with attach_database(settings) as database:
            root = await open_sealer(settings, database).seal()
            status = await seal_status(database)
    newest = root or status.newest
    if as_json:
        found = (
            None
            if newest is None
            else {
                "number": newest.number,
                "madeAt": newest.made_at.isoformat(),
                "hash": root_hash(newest.statement),
            }
        )
        console.print_json(data={"root": found, "unsealed": status.unsealed})
        return
    if newest is not None:
        console.print(f"Root {newest.number} of {newest.made_at:%Y-%m-%d %H:%M:%S} UTC")
        console.print(root_hash(newest.statement), soft_wrap=True)
    console.print(f"Entries that no root covers: {status.unsealed}")


async def export_chain(settings: Settings, output: TextIO, account: str | None) -> None:
    # A terminal shows the export itself.
    with nullcontext() if output.isatty() else working("Writing the chains…"):
        async with attach_database(settings) as database:
            if account is None:
                records = all_records(database)
            else:
                found = await Accounts(database).find_by_name(account)
                records = AccountChains(database).records(found.id)
            async for record in records:
                output.write(json.dumps(record, ensure_ascii=False) + "\n")


async def verify_database(
    settings: Settings, console: Console, *, keys: list[Path], earlier: list[Path], as_json: bool = False
) -> bool:
    """Check chains and statements and print what was found; returns whether all is as it was written."""
    trusted, exports = _trusted(settings, keys), _read_exports(earlier)
    with working("Reading all chains…"):
        async with attach_database(settings) as database:
            heads = open_witness(settings).heads
            found = await verify(database, trusted, earlier=exports, remembered=heads)
            findings = [*found.findings, *await wrong_statements(database, trusted)]
    if as_json:
        console.print_json(data={"ok": not findings, "summary": found.summary, "findings": findings})
        return not findings
    for line in (*found.summary, *_COVERED):
        print_words(console, line)
    for finding in findings[:_MOST_SHOWN]:
        print_words(console, finding, style="red")
    console.print(f"{len(findings)} findings")
    return not findings


def _key(settings: Settings) -> SealingKey:
    if settings.sealing_key_file is None:
        raise SealingKeyError("RUNTALLY_SEALING_KEY_FILE is not set; `runtally chain keygen` makes a key.")
    return SealingKey.read(settings.sealing_key_file)


def _trusted(settings: Settings, paths: list[Path]) -> PublicKeys:
    if not paths:
        return (
            {}
            if settings.sealing_key_file is None
            else SealingKey.read(settings.sealing_key_file).public_keys
        )
    found: PublicKeys = {}
    for path in paths:
        try:
            found = {**found, **read_public_keys(path.read_bytes())}
        except (OSError, ValueError) as error:
            raise Invalid.field("--key", f"{path} has no Ed25519 public key in PEM") from error
    return found


def _read_exports(paths: list[Path]) -> list[list[Any]]:
    found: list[list[Any]] = []
    for path in paths:
        try:
            with path.open(encoding="utf-8") as lines:
                records = [json.loads(line) for line in lines]
            is_export = bool(records) and records[0]["type"] == "export"
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise Invalid.field("--earlier", f"{path} is not an export") from error
        if not is_export:
            raise Invalid.field("--earlier", f"{path} is not an export")
        found.append(records)
    return found
