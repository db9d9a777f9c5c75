"""The locks: hashed, without addresses, and what pyproject.toml asks for."""

import json
import re

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.tree import ROOT, pyproject

LOCKS = ["requirements.lock", "requirements-runtime.lock", "requirements-build.lock"]

_PIN = re.compile(r"(?P<name>[a-z0-9._-]+)==(?P<version>[^ ;]+)( ; [^\\]+)? \\")
_HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")


def locked(lock: str) -> dict[str, set[str]]:
    """The versions a lock pins of each distribution."""
    versions: dict[str, set[str]] = {}
    for pin in _PIN.finditer((ROOT / lock).read_text(encoding="utf-8")):
        versions.setdefault(canonicalize_name(pin["name"]), set()).add(pin["version"])
    return versions


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_holds_pins_and_hashes_and_no_address(lock: str) -> None:
    lines = (ROOT / lock).read_text(encoding="utf-8").splitlines()
    assert lines
    odd = [line for line in lines if not (_PIN.fullmatch(line) or _HASH.fullmatch(line))]

    assert odd == []


@pytest.mark.parametrize("directory", ["clients", "conformance", "frontends"])
def test_a_lock_of_the_tests_own_packages_holds_hashes_and_no_address(directory: str) -> None:
    text = (ROOT / "tests" / directory / "package-lock.json").read_text(encoding="utf-8")
    installed = {name: entry for name, entry in json.loads(text)["packages"].items() if name}

    assert "://" not in text
    assert installed
    assert [name for name, entry in installed.items() if "integrity" not in entry] == []


def requirements() -> dict[str, list[str]]:
    """What each lock must satisfy."""
    project, groups = pyproject()["project"], pyproject()["dependency-groups"]
    needed = project["dependencies"] + project["optional-dependencies"]["server"]
    assert groups["dev"][0] == {"include-group": "build"}
    return dict(
        zip(LOCKS, [needed + groups["build"] + groups["dev"][1:], needed, groups["build"]], strict=True)
    )


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_satisfies_the_requirements(lock: str) -> None:
    pinned = locked(lock)

    for requirement in map(Requirement, requirements()[lock]):
        versions = pinned[canonicalize_name(requirement.name)]
        assert all(requirement.specifier.contains(version) for version in versions), requirement


def test_the_image_gets_the_versions_that_were_tested() -> None:
    everything, runtime, build = (locked(lock) for lock in LOCKS)

    assert {**runtime, **build}.items() <= everything.items()
    # The extra `telemetry`: an image can send traces without being built again.
    assert "opentelemetry-sdk" in runtime
    assert "pytest" in everything.keys() - runtime.keys()
