"""Which folders are skills, and which stop the server."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from app.tools.skills.library import MAX_FILE_BYTES, MAX_FILES, SkillInvalid, SkillLibrary

HEAD = "---\nname: report\ndescription: Writes\n  reports.\nallowed-tools: Bash\n---\n"


def a_skill(directory: Path, text: str = f"{HEAD}Say hello.", name: str = "report") -> Path:
    folder = directory / name
    folder.mkdir()
    (folder / "SKILL.md").write_text(text)
    return folder


def test_a_folder_is_read_with_all_its_files_but_hidden_ones(tmp_path: Path) -> None:
    folder = a_skill(tmp_path)
    (folder / "scripts").mkdir()
    (folder / "scripts" / "run.sh").write_text("echo hi")
    (folder / "scripts" / "run.sh").chmod(0o755)
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("secret")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "README.md").write_text("about")

    (skill,) = SkillLibrary.load(tmp_path).named(["report"])

    assert (skill.name, skill.description, skill.instructions) == ("report", "Writes reports.", "Say hello.")
    assert {path: file.is_executable for path, file in skill.files.items()} == {
        "SKILL.md": False,
        "scripts/run.sh": True,
    }
    assert list(SkillLibrary.load(tmp_path).skills) == ["report"]
    assert SkillLibrary.load(None).skills == {}


def test_the_hash_is_that_of_paths_and_contents(tmp_path: Path) -> None:
    folder = a_skill(tmp_path)

    def sha256() -> str:
        return SkillLibrary.load(tmp_path).skills["report"].sha256

    hashes = [sha256()]
    (folder / ".cache").write_text("x")
    assert sha256() == hashes[0]
    (folder / "a").write_text("bc")
    hashes.append(sha256())
    (folder / "a").rename(folder / "ab")
    (folder / "ab").write_text("c")
    hashes.append(sha256())
    assert len({*hashes}) == 3


def a_link(folder: Path) -> None:
    (folder / "passwd").symlink_to("/etc/passwd")


def a_linked_folder(folder: Path) -> None:
    (folder / "etc").symlink_to("/etc")


def a_second_name(folder: Path) -> None:
    (folder.parent / ".secret").write_text("secret")
    os.link(folder.parent / ".secret", folder / "copy")


def a_pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


def many_files(folder: Path) -> None:
    for number in range(10_000):
        (folder / str(number)).touch()


def many_folders(folder: Path) -> None:
    for number in range(MAX_FILES + 1):
        (folder / str(number)).mkdir()


def a_large_file(folder: Path) -> None:
    os.truncate(os.open(folder / "large", os.O_CREAT | os.O_RDWR), MAX_FILE_BYTES + 1)


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (a_link, "passwd: is a link, or cannot be read"),
        (a_linked_folder, "etc: is a link, or cannot be read"),
        (a_second_name, "copy: must be a file with a single name, and no link"),
        (a_pipe, "pipe: must be a file with a single name, and no link"),
        (many_files, "has more than 200 files and 8 MiB, the most a skill may have"),
        (many_folders, "has more than 200 files and 8 MiB, the most a skill may have"),
        (a_large_file, "large: is larger than 1 MiB"),
        (lambda folder: (folder / "SKILL.md").unlink(), "has no SKILL.md"),
        (lambda folder: folder.rename(folder.parent / "other"), "must be the folder's name"),
    ],
)
def test_a_skill_that_cannot_be_what_it_seems_is_refused(
    tmp_path: Path, spoil: Callable[[Path], object], problem: str
) -> None:
    spoil(a_skill(tmp_path))
    with pytest.raises(SkillInvalid, match="in RUNTALLY_SKILLS_DIR: ") as refused:
        SkillLibrary.load(tmp_path)
    assert problem in str(refused.value)
    assert str(tmp_path) not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Say hello.", "has no front matter: it begins with a line ---"),
        ("---\nname: report\nSay hello.", "has no second line ---"),
        ("---\nname: report\n---\nx", "description: must be a text of up to 1024 characters"),
        (f"---\nname: report\ndescription: {'x' * 1025}\n---\nx", "description: must be a text"),
        ("---\ndescription: d\n---\nx", "name: must be the folder's name"),
        ("---\n- name\n---\nx", "front matter: must be keys and values"),
    ],
)
def test_instructions_have_a_name_and_a_description(tmp_path: Path, text: str, problem: str) -> None:
    a_skill(tmp_path, text)
    with pytest.raises(SkillInvalid) as refused:
        SkillLibrary.load(tmp_path)
    assert str(refused.value).startswith("skill report in RUNTALLY_SKILLS_DIR: SKILL.md: ")
    assert problem in str(refused.value)


def test_a_linked_skill_is_none(tmp_path: Path) -> None:
    a_skill(tmp_path).rename(tmp_path / ".report")
    (tmp_path / "report").symlink_to(tmp_path / ".report")
    with pytest.raises(SkillInvalid, match="must be a folder, and no link"):
        SkillLibrary.load(tmp_path)
