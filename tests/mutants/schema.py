"""Faults planted in which releases can use which schema."""

from tests.mutants.mutant import Mutant

_NEWER = ("tests/integration/test_newer_schemas.py",)
_COMPATIBILITY = "app/platform/schema/compatibility.py"
_ENVIRONMENT = "migrations/env.py"

SCHEMA = (
    Mutant(
        "a contracted schema is used",
        _COMPATIBILITY,
        "if required is None or required not in known:",
        "if required is None:",
        _NEWER,
    ),
    Mutant(
        "a schema of which nothing is recorded is used",
        _COMPATIBILITY,
        "if required is None or required not in known:",
        "if required is not None and required not in known:",
        _NEWER,
    ),
    Mutant(
        "a release migrates a newer schema",
        "app/platform/schema/repository.py",
        "if current is not None and current not in _known(scripts):",
        "if False:",
        _NEWER,
    ),
    Mutant(
        "a migration that declares nothing is an expansion",
        _ENVIRONMENT,
        '"compatibility", "contract") != "expand":',
        '"compatibility", "expand") != "expand":',
        _NEWER,
    ),
    Mutant(
        "later contractions are not recorded",
        _ENVIRONMENT,
        'context.script.walk_revisions("base", revision):',
        'list(context.script.walk_revisions("base", revision))[-1:]:',
        _NEWER,
    ),
)
