import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from app.billing.chain.sealing_key import SealingKey, SealingKeyError
from app.billing.chain.verifier import read_public_keys


def test_a_key_is_read_as_it_was_written_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "sealing.pem"

    made = SealingKey.create(path)
    read = SealingKey.read(path)

    assert read.id == made.id
    assert read.sign("x") == made.sign("x")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    read.public_keys[read.id].verify(made.sign("x"), b"x")


def test_a_file_is_never_overwritten_without_being_told(tmp_path: Path) -> None:
    made = SealingKey.create(tmp_path / "sealing.pem")

    with pytest.raises(SealingKeyError, match="--rotate"):
        SealingKey.create(tmp_path / "sealing.pem")

    assert SealingKey.read(tmp_path / "sealing.pem").id == made.id


def test_a_rotated_file_has_all_public_keys_and_one_private_key(tmp_path: Path) -> None:
    path = tmp_path / "sealing.pem"
    ids = [SealingKey.create(path).id, SealingKey.rotate(path).id, SealingKey.rotate(path).id]

    assert list(SealingKey.read(path).public_keys) == ids[::-1]
    assert path.read_text().count("PRIVATE KEY") == 2
    assert list(read_public_keys("".join(SealingKey.read(path).public_pems.values()).encode())) == ids[::-1]


def a_key_of_another_kind() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "has no private key"),
        ("-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n", "has no private key"),
        (a_key_of_another_kind(), "is not Ed25519"),
    ],
)
def test_a_wrong_file_is_named_and_not_shown(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "sealing.pem"
    path.write_text(content)

    with pytest.raises(SealingKeyError, match=problem) as raised:
        SealingKey.read(path)

    assert "RUNTALLY_SEALING_KEY_FILE" in str(raised.value)
    assert "c2Vjcm" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SealingKeyError, match=r"none\.pem cannot be read: No such file"):
        SealingKey.read(tmp_path / "none.pem")
    with pytest.raises(SealingKeyError, match="cannot be written"):
        SealingKey.create(tmp_path / "nowhere" / "sealing.pem")
