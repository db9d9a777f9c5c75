"""Memory of a sandbox's commands, counted in a tree like /proc."""

import os
from pathlib import Path

from app.executors.claude_agent.sandbox.kernel_memory import socket_bytes, temporary_bytes

KB, MB = 2**10, 2**20
SERVER, COMMAND, CHILD, OTHER = 1, 10, 11, 12


def a_process(processes: Path, pid: int, *, sockets: int = 0, tcp: int = 0, like: int | None = None) -> Path:
    """A process with its own namespaces, or in those of another one."""
    process = processes / str(pid)
    (process / "ns").mkdir(parents=True)
    (process / "net").mkdir()
    for kind in ("mnt", "net"):
        if like is None:
            (process / "ns" / kind).touch()
        else:
            os.link(processes / str(like) / "ns" / kind, process / "ns" / kind)
    statistics = f"sockets: used {sockets}\nTCP: inuse {tcp} orphan 0\nUDP: inuse 1\n"
    (process / "net" / "sockstat").write_text(statistics, encoding="ascii")
    (process / "mountinfo").touch()
    return process


def mount(process: Path, name: str, *, system: str) -> Path:
    """A mount point that the process sees; returns the directory behind it."""
    place = process / "root" / name
    place.mkdir(parents=True)
    with (process / "mountinfo").open("a", encoding="utf-8") as file:
        file.write(f"30 25 0:27 / /{name} rw,nosuid shared:5 - {system} {system} rw,size=1024k\n")
    return place


def test_sockets_of_each_network_are_counted_once(tmp_path: Path) -> None:
    a_process(tmp_path, SERVER, sockets=100, tcp=50)
    a_process(tmp_path, COMMAND, sockets=3, tcp=2)
    a_process(tmp_path, CHILD, sockets=3, tcp=2, like=COMMAND)
    a_process(tmp_path, OTHER, sockets=1)

    counted = socket_bytes(tmp_path, [SERVER, COMMAND, CHILD, OTHER], besides=SERVER)

    assert counted == (3 + 1) * 256 * KB + 2 * 4 * MB


def test_a_process_that_has_ended_holds_no_sockets(tmp_path: Path) -> None:
    a_process(tmp_path, SERVER)
    a_process(tmp_path, COMMAND, sockets=5)
    (a_process(tmp_path, CHILD, sockets=7) / "net" / "sockstat").unlink()

    assert socket_bytes(tmp_path, [COMMAND, CHILD, OTHER], besides=SERVER) == 5 * 256 * KB


def test_files_in_memory_are_counted_once_for_all_that_see_them(tmp_path: Path) -> None:
    first = a_process(tmp_path, COMMAND)
    (mount(first, "tmp", system="tmpfs") / "file").write_bytes(b"x" * 8 * MB)
    one = temporary_bytes(tmp_path, [COMMAND], besides=())

    mount(first, "dev/shm", system="tmpfs")
    a_process(tmp_path, CHILD, like=COMMAND)
    mount(a_process(tmp_path, OTHER), "tmp", system="tmpfs")
    all_of_them = temporary_bytes(tmp_path, [COMMAND, CHILD, OTHER], besides=())

    assert one > 8 * MB
    assert all_of_them < 1.5 * one


def test_files_on_disk_and_on_excluded_devices_are_not_counted(tmp_path: Path) -> None:
    process = a_process(tmp_path, COMMAND)
    mount(process, "work", system="ext4")
    on_disk = temporary_bytes(tmp_path, [COMMAND], besides=())
    excluded = mount(process, "tmp", system="tmpfs").stat().st_dev

    assert on_disk == 0
    assert temporary_bytes(tmp_path, [COMMAND], besides={excluded}) == 0
    assert temporary_bytes(tmp_path, [COMMAND], besides=()) > 0


def test_a_process_that_has_ended_and_a_mount_that_is_gone_hold_no_files(tmp_path: Path) -> None:
    mount(a_process(tmp_path, COMMAND), "tmp", system="tmpfs").rmdir()
    (a_process(tmp_path, CHILD) / "mountinfo").unlink()

    assert temporary_bytes(tmp_path, [COMMAND, CHILD, OTHER], besides=()) == 0
