"""Faults of the chains of receipts and ledger."""

from tests.mutants.mutant import Mutant

_CHAIN = "app/billing/chain"
_ATTACKS = ("tests/integration/test_chain.py",)
_SUMS = ("tests/integration/test_chain_sums.py",)
_SEALING = ("tests/integration/test_chain_sealing.py",)

CHAIN = (
    Mutant(
        "the hash of a link is not checked",
        f"{_CHAIN}/verifier.py",
        "elif link_hash(chain.previous, content).hex() != hash_:",
        "elif False:",
        _ATTACKS,
    ),
    Mutant(
        "a chain may differ from what a root signed",
        f"{_CHAIN}/verifier.py",
        "if signed != hash_:",
        "if False:",
        _ATTACKS,
    ),
    Mutant(
        "sealed entries may be missing at the end",
        f"{_CHAIN}/verifier.py",
        "if chain.links < last:",
        "if False and chain.links < last:",
        _ATTACKS,
    ),
    Mutant(
        "any signature is accepted",
        f"{_CHAIN}/verifier.py",
        "except (InvalidSignature, KeyError, ValueError):\n            return False",
        "except (InvalidSignature, KeyError, ValueError):\n            return True",
        _ATTACKS,
    ),
    Mutant(
        "roots need not follow each other",
        f"{_CHAIN}/verifier.py",
        'if statement["number"] != self.root.number + 1:',
        "if False:",
        _ATTACKS,
    ),
    Mutant(
        "an account may be missing in a root",
        f"{_CHAIN}/verifier.py",
        "if (self._tree.root.hex(), len(self._tree)) != (self.root.tree, self.root.accounts):",
        "if False:",
        _ATTACKS,
    ),
    Mutant(
        "roots that were noted before may be gone",
        f"{_CHAIN}/verifier.py",
        "in filter(self.root.number.__lt__, self._noted_roots):",
        "in ():",
        _SEALING,
    ),
    Mutant(
        "a chain that was rewritten is sealed",
        f"{_CHAIN}/sealing.py",
        "for a, head in heads.items() if a not in kept",
        "for a, head in heads.items()",
        _SEALING,
    ),
    Mutant(
        "what was rewritten is forgotten",
        f"{_CHAIN}/sealing.py",
        "{**heads, **{account: known[account] for account in rewritten}}",
        "{**heads}",
        _SEALING,
    ),
    Mutant(
        "two servers seal at once",
        f"{_CHAIN}/sealing.py",
        "            await lock_sealing(tx)\n",
        "",
        _SEALING,
    ),
    Mutant(
        "a root of the future stops all roots",
        f"{_CHAIN}/sealing.py",
        "timedelta(0) <= now - newest.made_at < self._every",
        "now - newest.made_at < self._every",
        _SEALING,
    ),
    Mutant(
        "a changed row is exported as it was",
        f"{_CHAIN}/row_comparison.py",
        "if not any(changed_rows(row)):",
        "if row.link.content:",
    ),
    Mutant(
        "true is 1",
        f"{_CHAIN}/row_comparison.py",
        "if isinstance(one, bool) or isinstance(other, bool):\n        return one is other\n    ",
        "",
    ),
    Mutant(
        "a rotation loses the public key",
        f"{_CHAIN}/sealing_key.py",
        "cls(Ed25519PrivateKey.generate(), cls.read(path).public_keys)",
        "cls(Ed25519PrivateKey.generate(), {})",
    ),
    Mutant(
        "sums are read while they change",
        f"{_CHAIN}/sums/comparison.py",
        "async with database.snapshot() as reader:\n        recomputed",
        "async with database.transaction() as reader:\n        recomputed",
        _SUMS,
    ),
    Mutant(
        "a rollup may be missing",
        f"{_CHAIN}/sums/repository.py",
        "FROM recorded FULL JOIN recomputed",
        "FROM recorded LEFT JOIN recomputed",
        _SUMS,
    ),
    Mutant(
        "rollups after the last receipt are not compared",
        f"{_CHAIN}/sums/comparison.py",
        "        start = end\n",
        "        start = end and await find_slice_end(reader, account_id, end, most=0) and end\n",
        _SUMS,
    ),
    Mutant(
        "the spending of a month is not compared",
        f"{_CHAIN}/sums/comparison.py",
        'yield from _differences("its spent_by_month", stored, months)',
        "yield from ()",
        _SUMS,
    ),
)
