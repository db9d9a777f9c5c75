import stat
from pathlib import Path

import pytest

from app.executors.claude_agent.programs import write_program


def test_a_program_may_be_used_by_its_user_only(tmp_path: Path) -> None:
    program = write_program(tmp_path / "launcher", "#!/bin/sh\n")

    assert program.read_text(encoding="utf-8") == "#!/bin/sh\n"
    assert stat.S_IMODE(program.stat().st_mode) == 0o700


def test_an_existing_file_is_never_replaced(tmp_path: Path) -> None:
    existing = tmp_path / "launcher"
    existing.write_text("kept", encoding="utf-8")

    with pytest.raises(FileExistsError):
        write_program(existing, "other")
    assert existing.read_text(encoding="utf-8") == "kept"
