"""Checks an export of Runtally's hash chains. Needs nothing but this file, Python and `cryptography`.

    python verifier.py export.jsonl --key public.pem

Prints what was changed, removed, added or moved; exits with 1 if there is anything. Format: docs/CHAIN.md.
"""

import argparse
import base64
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

EXPORT_FORMAT = "runtally-chain-1"
ROOT_FORMAT = "runtally-root-1"
NO_ROOT = "0" * 64  # what the first root has as its predecessor
PublicKeys: TypeAlias = Mapping[str, Ed25519PublicKey]

_PEM = re.compile(rb"-----BEGIN PUBLIC KEY-----.*?-----END PUBLIC KEY-----", re.DOTALL)
_NEVER = datetime(1, 1, 1, tzinfo=UTC)
_STAGES = {"export": 0, "root": 1, "leaf": 1, "account": 2, "link": 2, "unchained": 2, "end": 3}
_GRACE = timedelta(hours=1)  # longer than a transaction that was open while a root was made


def link_hash(previous: bytes, content: str) -> bytes:
    """The hash of a link; `previous` of an account's first link is the hash of the account's id."""
    return hashlib.sha256(previous + content.encode()).digest()


def leaf_hash(account_id: str, position: int, head: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + f"{account_id} {position} {head.hex()}".encode()).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def key_id(key: Ed25519PublicKey) -> str:
    return hashlib.sha256(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).hexdigest()[:16]


def read_public_keys(pem: bytes) -> PublicKeys:
    """The public keys in a PEM file, by id; raises `ValueError` for a key that is not Ed25519."""
    keys = [load_pem_public_key(block) for block in _PEM.findall(pem)]
    if not all(isinstance(key, Ed25519PublicKey) for key in keys):
        message = "not an Ed25519 public key"
        raise ValueError(message)
    return {key_id(key): key for key in keys if isinstance(key, Ed25519PublicKey)}


def is_signed(text: str, key: Any, signature: str, keys: PublicKeys) -> bool:
    """Whether the key with this id has signed a text; `signature` is base64."""
    try:
        keys[key].verify(base64.b64decode(signature, validate=True), text.encode())
    except (InvalidSignature, KeyError, ValueError):
        return False
    return True


class AccountTree:
    """A Merkle tree (RFC 9162) whose leaves can be replaced: one leaf for each account."""

    def __init__(self) -> None:
        self._levels: list[list[bytes]] = [[]]

    def __len__(self) -> int:
        return len(self._levels[0])

    @property
    def root(self) -> bytes:
        return self._levels[-1][0] if len(self) else hashlib.sha256().digest()

    def put(self, index: int, leaf: bytes) -> None:
        """Set a leaf; the index is that of an existing one, or the next."""
        if not 0 <= index <= len(self):
            message = f"leaf {index} of {len(self)}"
            raise ValueError(message)
        level = 0
        self._set(level, index, leaf)
        while len(self._levels[level]) > 1:
            index //= 2
            pair = self._levels[level][2 * index : 2 * index + 2]
            level += 1
            self._set(level, index, node_hash(*pair) if len(pair) > 1 else pair[0])

    def _set(self, level: int, index: int, value: bytes) -> None:
        if level == len(self._levels):
            self._levels.append([])
        self._levels[level][index : index + 1] = [value]


def root_of_proof(leaf: bytes, index: int, size: int, proof: Iterable[bytes]) -> bytes | None:
    """The root's hash that follows from a leaf and its siblings (RFC 9162, 2.1.3.2); None if impossible."""
    last = size - 1
    if not 0 <= index <= last:
        return None
    for sibling in proof:
        if last == 0:
            return None
        if index & 1 or index == last:
            leaf = node_hash(sibling, leaf)
            while index and not index & 1:
                index, last = index >> 1, last >> 1
        else:
            leaf = node_hash(leaf, sibling)
        index, last = index >> 1, last >> 1
    return leaf if last == 0 else None


@dataclass(slots=True)
class AccountState:
    """How far an account's chain has been read."""

    account_id: str
    previous: bytes
    links: int = 0
    cost_usd: Decimal = Decimal(0)
    credits: Counter[str] = field(default_factory=Counter)  # by kind of entry


@dataclass(frozen=True, slots=True)
class RootState:
    """A root."""

    number: int = 0
    hash: str = NO_ROOT
    accounts: int = 0
    tree: str = ""
    made_at: datetime = _NEVER


class ExportVerifier:
    """Reads the records of an export in order; `findings` lists what is wrong."""

    def __init__(self, keys: PublicKeys) -> None:
        self.findings: list[str] = []
        self.root = RootState()
        self.chains: dict[str, AccountState] = {}
        self.sealed: dict[str, int] = {}  # how many links of each account the newest root covers
        self._keys = keys
        self._noted_roots: dict[int, str] = {}
        self._noted_links: dict[str, dict[int, str]] = {}
        self._leaves: dict[str, dict[int, tuple[str, int]]] = {}
        """By account and position: the hash of the link, and the first root that signs it."""
        self._in_newest_root: set[str] | None = None
        self._tree = AccountTree()
        self._indexes: dict[str, int] = {}
        self._wanted: list[str] | None = None
        self._complete = False
        self._links = self._stage = 0
        self._chain: AccountState | None = None

    def note(self, records: Iterable[Any]) -> None:
        """Remember an export of before: its roots and links must still be there."""
        links: dict[int, str] = {}
        for record in records:
            match record:
                case {"type": "root", "statement": str(text)}:
                    self._noted_roots[json.loads(text)["number"]] = hashlib.sha256(text.encode()).hexdigest()
                case {"type": "account", "account_id": str(account)}:
                    links = self._noted_links.setdefault(account, {})
                case {"type": "link", "position": int(position), "hash": str(hash_)}:
                    links[position] = hash_

    def read(self, record: Any) -> None:
        try:
            stage = _STAGES[record["type"]]
            if stage < self._stage:
                # Links that come before the roots would not be compared with them.
                self._find("export", f"a record of type {record['type']} is not in its place")
            self._stage = max(self._stage, stage + (stage in {0, 3}))
            getattr(self, f"_read_{record['type']}")(record)
        except (LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
            place = "export" if self._chain is None else f"account {self._chain.account_id}"
            self._find(place, f"a record cannot be read ({type(error).__name__}): {ascii(record)[:80]}")

    def finish(self) -> None:
        """Check what must be there at the end."""
        self._end_root()
        self._end_account()
        if self._wanted is None or self._stage <= _STAGES["end"]:
            self._find("export", "its beginning or its end is missing")
        for account_id in {*(self._wanted or ()), *self._leaves} - self.chains.keys():
            self._find(f"account {account_id}", "its chain is missing")
        for number in filter(self.root.number.__lt__, self._noted_roots):
            self._find(f"root {number}", "is missing")

    def _find(self, place: str, problem: str) -> None:
        self.findings.append(f"{place}: {problem}")

    def _read_export(self, record: Mapping[str, Any]) -> None:
        if record["format"] != EXPORT_FORMAT:
            self._find("export", "its format is not known to this program")
        self._complete = record["complete"] is True
        self._wanted = [str(account) for account in record["accounts"]]

    def _read_root(self, record: Mapping[str, Any]) -> None:
        self._end_root()
        text = str(record["statement"])
        statement = json.loads(text)
        place = f"root {statement['number']}"
        found = hashlib.sha256(text.encode()).hexdigest()
        if statement["number"] != self.root.number + 1:
            self._find(place, f"root {self.root.number + 1} should be here")
        elif statement["previous"] != self.root.hash:
            self._find(place, f"does not follow root {self.root.number} as it is here")
        key, signature = statement.get("key"), record["signature"]
        if statement["format"] != ROOT_FORMAT or not is_signed(text, key, signature, self._keys):
            self._find(place, "its signature is not that of a trusted key")
        if self._noted_roots.get(statement["number"], found) != found:
            self._find(place, "is another than the one that was noted before")
        made_at = datetime.fromisoformat(statement["made_at"])
        number, accounts = int(statement["number"]), int(statement["accounts"])
        self.root = RootState(number, found, accounts, statement["tree"], made_at)
        self._in_newest_root = set()

    def _read_leaf(self, record: Mapping[str, Any]) -> None:
        account_id, index, position = record["account_id"], int(record["index"]), int(record["position"])
        place = f"root {self.root.number}, account {account_id}"
        leaf = leaf_hash(account_id, position, bytes.fromhex(record["hash"]))
        if self._complete:
            if self._indexes.setdefault(account_id, index) != index:
                self._find(place, "its place in the tree has changed")
            self._tree.put(index, leaf)
        else:
            proof = [bytes.fromhex(sibling) for sibling in record["proof"]]
            root = root_of_proof(leaf, index, self.root.accounts, proof)
            if root is None or root.hex() != self.root.tree:
                self._find(place, "the root does not contain it")
        if position < self.sealed.get(account_id, 0):
            self._find(place, "covers less than an earlier root")
        self.sealed[account_id] = position
        if self._in_newest_root is None:
            self._find(place, "a leaf without a root")
        else:
            self._in_newest_root.add(account_id)
        known = self._leaves.setdefault(account_id, {})
        hash_, root_number = known.setdefault(position, (record["hash"], self.root.number))
        if hash_ != record["hash"]:
            self._find(place, f"contradicts root {root_number}")

    def _end_root(self) -> None:
        """Check the leaves of the root that was read last."""
        newest, self._in_newest_root = self._in_newest_root, None
        if newest is None:
            return
        if self._complete:
            if (self._tree.root.hex(), len(self._tree)) != (self.root.tree, self.root.accounts):
                self._find(f"root {self.root.number}", "its leaves were changed, added or removed")
        else:
            for account_id in self._leaves.keys() - newest:
                self._find(f"root {self.root.number}, account {account_id}", "its leaf is missing")

    def _read_account(self, record: Mapping[str, Any]) -> None:
        self._end_root()
        self._end_account()
        account_id = str(record["account_id"])
        if account_id in self.chains:
            self._find(f"account {account_id}", "occurs twice")
        if account_id not in (self._wanted or ()):
            self._find(f"account {account_id}", "is none of the accounts that the export names")
        self._chain = self.chains[account_id] = AccountState(account_id, link_hash(b"", account_id))

    def _read_link(self, record: Mapping[str, Any]) -> None:
        chain = self._chain
        if chain is None:
            self._find("export", "a link without an account")
            return
        position, content, hash_ = int(record["position"]), str(record["content"]), str(record["hash"])
        place = f"account {chain.account_id}, position {position}{_named(content)}"
        problems = _problems_of_link(chain, position, content, hash_=hash_)
        for problem in (*problems, *self._problems_of_seal(chain, position, hash_)):
            self._find(place, problem)
        chain.previous, chain.links = bytes.fromhex(hash_), position
        self._links += 1
        # Last: content that was changed may be unreadable.
        for problem in self._add(chain, content):
            self._find(place, problem)

    def _problems_of_seal(self, chain: AccountState, position: int, hash_: str) -> Iterator[str]:
        leaves = self._leaves.get(chain.account_id, {})
        signed, root = leaves.get(position, (hash_, 0))
        if signed != hash_:
            first = max((each for each in leaves if each < position), default=0) + 1
            yield f"not as root {root} signed it: a change in {first} to {position}, with new hashes"
        if self._noted_links.get(chain.account_id, {}).get(position, hash_) != hash_:
            yield f"not as it was noted before: a change in 1 to {position}, with new hashes"

    def _add(self, chain: AccountState, content: str) -> Iterator[str]:
        values = json.loads(content, parse_float=Decimal)
        entry, receipt = values["entry"], values["receipt"]
        if entry["account_id"] != chain.account_id:
            yield "belongs to another account"
        chain.credits[str(entry["kind"])] += int(entry["credits"])
        if receipt is not None:
            chain.cost_usd += Decimal(receipt["cost_usd"])
            if entry["credits"] != -receipt["charged_credits"]:
                yield "the debit is not the charge of its receipt"
        written_at = datetime.fromisoformat(entry["created_at"])
        if chain.links > self.sealed.get(chain.account_id, 0) and written_at + _GRACE < self.root.made_at:
            yield f"was written before root {self.root.number}, which does not cover it"

    def _read_unchained(self, record: Mapping[str, Any]) -> None:
        if self._chain is not None:
            self._find(f"account {self._chain.account_id}, {record['name']}", "is in no chain")

    def _end_account(self) -> None:
        chain, self._chain = self._chain, None
        if chain is not None:
            noted = max(self._noted_links.get(chain.account_id, ()), default=0)
            sealed = self.sealed.get(chain.account_id, 0)
            for last, why in ((sealed, "are sealed"), (noted, "were noted before")):
                if chain.links < last:
                    missing = f"positions {chain.links + 1} to {last}"
                    self._find(f"account {chain.account_id}", f"{missing}, which {why}, are missing")

    def _read_end(self, record: Mapping[str, Any]) -> None:
        self._end_root()
        self._end_account()
        if record["links"] != self._links:
            self._find("export", "its number of links is not the stated one")


def _problems_of_link(chain: AccountState, position: int, content: str, *, hash_: str) -> Iterator[str]:
    expected = chain.links + 1
    if position > expected:
        yield f"positions {expected} to {position - 1} are missing before it"
    elif position < expected:
        yield "is not in order"
    elif link_hash(chain.previous, content).hex() != hash_:
        yield "its content, its hash or its predecessor was changed"


def _named(content: str) -> str:
    """What a link is about, for people."""
    try:
        values = json.loads(content)
        receipt = values["receipt"]
        about = ascii(f"{values['entry']['kind']} {values['entry']['id']}")[1:-1]
        return f" ({about})" if receipt is None else f" ({about}, receipt {receipt['source_reference']!a})"
    except (LookupError, TypeError, ValueError, RecursionError):
        return ""


def summary(verifier: ExportVerifier) -> Iterator[str]:
    root = verifier.root
    yield f"newest root: {root.number} of {root.made_at}, hash {root.hash}" if root.number else "no roots"
    for account_id, chain in verifier.chains.items():
        unsealed = max(0, chain.links - verifier.sealed.get(account_id, 0))
        yield f"account {account_id}: {chain.links} entries, {unsealed} of them not yet sealed"
        yield f"  {chain.cost_usd} USD cost, {-chain.credits['debit']} credits spent"


def _records(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                yield json.loads(line)
            except (ValueError, RecursionError):
                yield line


def main() -> int:
    """Check the export named on the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("export", type=Path)
    parser.add_argument("--key", type=Path, action="append", required=True, help="public keys, PEM")
    parser.add_argument("--earlier", type=Path, action="append", default=[], help="exports of before")
    given = parser.parse_args()
    verifier = ExportVerifier(read_public_keys(b"\n".join(path.read_bytes() for path in given.key)))
    for path in given.earlier:
        verifier.note(_records(path))
    for record in _records(given.export):
        verifier.read(record)
    verifier.finish()
    for line in (*summary(verifier), *verifier.findings[:200], f"{len(verifier.findings)} findings"):
        sys.stdout.write(f"{line}\n")
    return 1 if verifier.findings else 0


if __name__ == "__main__":
    raise SystemExit(main())
