"""New migrations declare whether the release before can work with their schema, and an expansion is one."""

import json
import subprocess
from io import StringIO
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

from alembic import op
from alembic.config import Config
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from app.platform.schema.repository import head
from tests.architecture.tree import BIN, ROOT

LAST_UNDECLARED = "c4a90e62d185"
"""The newest migration from before decision 0061."""

BREAKING = {
    "adding-not-nullable-field",
    "adding-required-field",
    "ban-drop-column",
    "ban-drop-default",
    "ban-drop-function",
    "ban-drop-not-null",
    "ban-drop-table",
    "changing-column-type",
    "constraint-missing-not-valid",
    "disallowed-unique-constraint",
    "renaming-column",
    "renaming-table",
}
"""Rules of squawk for what the statements of the release before could fail at."""

UNBOUNDED = {"require-lock-timeout"}


def scripts() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", str(ROOT / "migrations"))
    return ScriptDirectory.from_config(config)


DECLARING: dict[str, ModuleType] = {}
for _script in scripts().walk_revisions():
    if _script.revision == LAST_UNDECLARED:
        break
    DECLARING[_script.revision] = _script.module


def test_the_newest_migration_is_the_last_file() -> None:
    assert scripts().get_current_head() == head()


def sql_of(migration: ModuleType) -> str:
    """What a migration executes; one that reads the database must be a contraction."""
    output = StringIO()
    options = {"as_sql": True, "output_buffer": output}
    context = MigrationContext.configure(dialect_name="postgresql", opts=options)
    with Operations.context(context):
        migration.upgrade()
    return output.getvalue()


def broken_rules(migration: ModuleType, directory: Path) -> set[str]:
    """The rules that a migration must keep, and does not."""
    file = directory / "migration.sql"
    file.write_text(sql_of(migration))
    command: list[str | Path] = [BIN / "squawk", "--assume-in-transaction", "--reporter", "json", str(file)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode in {0, 1}, found.stderr
    rules: set[str] = {violation["rule_name"] for violation in json.loads(found.stdout)}
    assert "syntax-error" not in rules
    return rules & (BREAKING | UNBOUNDED if migration.compatibility == "expand" else UNBOUNDED)


BOUNDED = "SET LOCAL lock_timeout = '5s'"


def a_migration(compatibility: str, *statements: str) -> ModuleType:
    def upgrade() -> None:
        for statement in statements:
            op.execute(statement)

    return cast("ModuleType", SimpleNamespace(compatibility=compatibility, upgrade=upgrade))


def test_every_new_migration_declares_what_it_is() -> None:
    declared: dict[str, Any] = {
        revision: getattr(module, "compatibility", None) for revision, module in DECLARING.items()
    }

    assert {each: kind for each, kind in declared.items() if kind not in ("expand", "contract")} == {}
    assert 'compatibility: str = "expand"' in (ROOT / "migrations" / "script.py.mako").read_text()


def test_an_expansion_takes_nothing_away_and_waits_for_no_lock(tmp_path: Path) -> None:
    broken = {revision: broken_rules(module, tmp_path) for revision, module in DECLARING.items()}

    assert {revision: rules for revision, rules in broken.items() if rules} == {}


def test_what_an_expansion_may_and_may_not_do(tmp_path: Path) -> None:
    harmless = (
        BOUNDED,
        "CREATE TABLE invoices (id uuid PRIMARY KEY)",
        "CREATE INDEX ix_invoices_id ON invoices (id)",
        "ALTER TABLE invoices ADD CONSTRAINT ck CHECK (id IS NOT NULL)",
        "ALTER TABLE runs ADD COLUMN region text",
        "ALTER TABLE runs ADD COLUMN tier text NOT NULL DEFAULT 'usual'",
    )
    breaking = {
        "ALTER TABLE runs ADD COLUMN region text NOT NULL": "adding-required-field",
        "ALTER TABLE runs DROP COLUMN status": "ban-drop-column",
        "ALTER TABLE runs RENAME COLUMN status TO state": "renaming-column",
        "ALTER TABLE runs RENAME TO executions": "renaming-table",
        "ALTER TABLE runs ALTER COLUMN attempt TYPE bigint": "changing-column-type",
        "ALTER TABLE runs ALTER COLUMN status SET NOT NULL": "adding-not-nullable-field",
        "ALTER TABLE runs ADD CONSTRAINT ck CHECK (attempt < 9)": "constraint-missing-not-valid",
        "DROP TABLE runs": "ban-drop-table",
    }

    assert broken_rules(a_migration("expand", *harmless), tmp_path) == set()
    for statement, rule in breaking.items():
        assert broken_rules(a_migration("expand", BOUNDED, statement), tmp_path) == {rule}
        assert broken_rules(a_migration("contract", BOUNDED, statement), tmp_path) == set()
    for kind in ("expand", "contract"):
        unbounded = a_migration(kind, "ALTER TABLE runs ADD COLUMN region text")
        assert broken_rules(unbounded, tmp_path) == UNBOUNDED
