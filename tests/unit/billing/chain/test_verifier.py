import base64
import json
from hashlib import sha256
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from app.billing.chain.export import ProvingTree
from app.billing.chain.verifier import (
    AccountTree,
    ExportVerifier,
    key_id,
    leaf_hash,
    link_hash,
    node_hash,
    root_of_proof,
)

ACCOUNT = "01a203aa-f064-7478-9b0f-68e802b4d567"


def rfc_9162(leaves: list[bytes]) -> bytes:
    """The root of a tree as the RFC defines it."""
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return node_hash(rfc_9162(leaves[:split]), rfc_9162(leaves[split:]))


@given(st.lists(st.tuples(st.integers(0, 40), st.binary(min_size=32, max_size=32)), min_size=1, max_size=90))
def test_a_tree_is_that_of_the_rfc_in_whatever_order_leaves_are_replaced(
    puts: list[tuple[int, bytes]],
) -> None:
    tree, leaves = ProvingTree(), list[bytes]()
    for wanted, leaf in puts:
        index = min(wanted, len(leaves))
        leaves[index : index + 1] = [leaf]
        tree.put(index, leaf)

    assert tree.root == rfc_9162(leaves)
    for index, leaf in enumerate(leaves):
        assert root_of_proof(leaf, index, len(leaves), tree.proof(index)) == tree.root


@given(st.integers(2, 40), st.data())
def test_a_proof_holds_for_one_leaf_in_one_place_of_one_tree(size: int, data: st.DataObject) -> None:
    leaves = [sha256(bytes([number])).digest() for number in range(size)]
    tree = ProvingTree()
    for number, leaf in enumerate(leaves):
        tree.put(number, leaf)
    index = data.draw(st.integers(0, size - 1))
    other = data.draw(st.integers(-2, size + 2).filter(lambda place: place != index))
    proof = tree.proof(index)

    assert root_of_proof(leaves[index], other, size, proof) != tree.root
    assert root_of_proof(sha256(b"x").digest(), index, size, proof) != tree.root
    assert root_of_proof(leaves[index], index, size, [*proof, proof[0]]) is None
    assert root_of_proof(leaves[index], index, size, proof[1:]) != tree.root


def test_a_leaf_cannot_be_far_from_the_others() -> None:
    with pytest.raises(ValueError, match="leaf 1 of 0"):
        AccountTree().put(1, b"")


def test_the_format_is_the_documented_one() -> None:
    """Whatever changes these values makes every export of before worthless."""
    content = '{"entry":{"id":1,"note":"ß"},"receipt":null}'

    head = link_hash(link_hash(b"", ACCOUNT), content)

    assert head == sha256(sha256(ACCOUNT.encode()).digest() + content.encode()).digest()
    assert head.hex() == "3410fa82a5e9ea0879a29cca059a92b6b7c910ab3ef555f2024906dd8a3ba115"
    assert (
        leaf_hash(ACCOUNT, 1, head).hex()
        == "39e9dc4db2b353e9efa7286f70c489f7d3346927360ec76be2e4aad4ca1f0ed2"
    )


def link(position: int, content: str, hash_: str) -> dict[str, Any]:
    return {"type": "link", "position": position, "content": content, "hash": hash_}


def chain(count: int, *, credits_: int = 1, at: str = "2026-11-22T10:00:00+00:00") -> list[dict[str, Any]]:
    previous, links = link_hash(b"", ACCOUNT), []
    for position in range(1, count + 1):
        entry = {"id": position, "kind": "grant", "credits": credits_, "account_id": ACCOUNT}
        content = json.dumps({"entry": {**entry, "created_at": at}, "receipt": None})
        previous = link_hash(previous, content)
        links.append(link(position, content, previous.hex()))
    return links


@given(st.integers(1, 8), st.data())
def test_no_order_of_links_but_theirs_is_accepted(count: int, data: st.DataObject) -> None:
    links = chain(count)
    shuffled = data.draw(st.lists(st.sampled_from(links), max_size=10))
    verifier = ExportVerifier({})
    header = {"type": "export", "format": "runtally-chain-1", "complete": False, "accounts": [ACCOUNT]}
    for record in (header, {"type": "account", "account_id": ACCOUNT}, *shuffled):
        verifier.read(record)
    verifier.read({"type": "end", "links": len(shuffled)})
    verifier.finish()

    # Without a root nobody knows how many there are.
    assert (verifier.findings == []) == (shuffled == links[: len(shuffled)])


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=3))
def test_records_that_are_none_are_findings(value: object) -> None:
    verifier = ExportVerifier({})
    for record in (
        value,
        {"type": value},
        *({"type": name, "number": value} for name in ("root", "leaf", "end")),
    ):
        verifier.read(record)
    for name in ("account", "link", "export", "unchained"):
        verifier.read({"type": name, "account_id": value, "position": value, "content": value, "hash": value})

    verifier.finish()

    assert verifier.findings


HEADER: dict[str, Any] = {
    "type": "export",
    "format": "runtally-chain-1",
    "complete": False,
    "accounts": [ACCOUNT],
}
BEGIN = {"type": "account", "account_id": ACCOUNT}
END: dict[str, Any] = {"type": "end", "links": 3}


def sealed(key: Ed25519PrivateKey, links: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A root that covers these links alone, and its leaf."""
    position, head = len(links), str(links[-1]["hash"])
    leaf = leaf_hash(ACCOUNT, position, bytes.fromhex(head))
    statement = {"format": "runtally-root-1", "number": 1, "previous": "0" * 64, "accounts": 1, "links": 3}
    made = {"made_at": "2026-11-22T10:30:00+00:00", "tree": leaf.hex(), "key": key_id(key.public_key())}
    text = json.dumps({**statement, **made})
    signature = base64.b64encode(key.sign(text.encode())).decode()
    return [
        {"type": "root", "statement": text, "signature": signature},
        {"type": "leaf", "account_id": ACCOUNT, "index": 0, "position": position, "hash": head, "proof": []},
    ]


def findings(
    key: Ed25519PrivateKey, records: list[dict[str, Any]], *earlier: list[dict[str, Any]]
) -> list[str]:
    verifier = ExportVerifier({key_id(key.public_key()): key.public_key()})
    for export in earlier:
        verifier.note(export)
    for record in records:
        verifier.read(record)
    verifier.finish()
    return verifier.findings


def test_an_export_is_in_one_order_only() -> None:
    """A root after the links would not be compared with them."""
    key, true, false = Ed25519PrivateKey.generate(), chain(3), chain(3, credits_=2)
    roots, end = sealed(key, true), END

    assert findings(key, [HEADER, *roots, BEGIN, *true, end]) == []
    assert findings(key, [HEADER, *roots, BEGIN, *false, end])
    for forged in (
        [HEADER, BEGIN, *false, *roots, end],
        [HEADER, BEGIN, *false, end, *roots],
        [BEGIN, *false, HEADER, *roots, end],
        [HEADER, *roots, BEGIN, *true, end, HEADER],
        [HEADER, *roots, BEGIN, *true, end, end],
    ):
        assert any("is not in its place" in finding for finding in findings(key, forged))
    another = {"type": "account", "account_id": ACCOUNT.upper()}
    assert findings(key, [HEADER, *roots, BEGIN, *true, another, end]) == [
        f"account {ACCOUNT.upper()}: is none of the accounts that the export names"
    ]


def test_what_an_earlier_export_had_must_still_be_there() -> None:
    """Even if the forger leaves out that the account was ever sealed."""
    key, true = Ed25519PrivateKey.generate(), chain(3)
    roots, end = sealed(key, true), END
    before = [HEADER, *roots, BEGIN, *true, end]
    forged = [HEADER, roots[0], BEGIN, *chain(3, credits_=2, at="2026-11-22T10:20:00+00:00"), end]
    shorter = [HEADER, roots[0], BEGIN, *chain(2), {"type": "end", "links": 2}]
    longer = [HEADER, *roots, BEGIN, *chain(4), {"type": "end", "links": 4}]

    assert findings(key, longer, before) == []
    assert findings(key, forged) == []
    assert any("position 3 (grant 3): not as it was noted" in each for each in findings(key, forged, before))
    assert f"account {ACCOUNT}: positions 3 to 3, which were noted before, are missing" in findings(
        key, shorter, before
    )
