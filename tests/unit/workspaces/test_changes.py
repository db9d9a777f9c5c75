from app.workspaces.changes import MAX_TEXT_BYTES, ChangeReport


def difference(before: bytes, after: bytes) -> str | None:
    report = ChangeReport()
    report.changed("a", before, after)
    (change,) = report.result().files
    return change.diff


def test_a_change_in_a_long_text_has_its_line_numbers_and_is_cheap() -> None:
    lines = [b"%d" % (number % 100) for number in range(20_000)]
    changed = [*lines[:10_000], b"@@ -1 +1 @@", *lines[10_001:]]

    diff = difference(b"\n".join(lines) + b"\n", b"\n".join(changed) + b"\n")

    assert diff is not None
    assert diff.splitlines()[2:] == [
        "@@ -9998,7 +9998,7 @@",
        *(" 97", " 98", " 99", "-0", "+@@ -1 +1 @@", " 1", " 2", " 3"),
    ]


def test_texts_that_differ_in_too_many_lines_are_only_named() -> None:
    one, other = (b"\n".join(b"%d" % (number % step) for number in range(420)) for step in (7, 11))

    assert difference(one, other) is None


def test_lines_without_an_end_and_contents_that_are_no_text() -> None:
    assert difference(b"a\n", b"a") == ("--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file")
    for content in (b"a\0", b"\xff", b"x" * (MAX_TEXT_BYTES + 1)):
        assert difference(b"a", content) is None


def test_a_report_is_bounded() -> None:
    report = ChangeReport()
    for number in range(300):
        report.created(f"{number:03}", b"x" * 1_000)

    changes = report.result()

    assert (len(changes.files), changes.more) == (200, 100)
    assert sum(len(change.path) + len(change.diff or "") for change in changes.files) <= 64 * 1024
    assert changes.files[0].diff is not None
    assert changes.files[-1].diff is None


def test_work_for_differences_is_bounded_for_all_files_together() -> None:
    report = ChangeReport()
    one, other = (b"\n".join(b"%d" % (number % step) for number in range(390)) for step in (7, 11))
    for number in range(12):
        report.changed(f"{number}", one, other)

    assert [change.diff is None for change in report.result().files] == [False] * 10 + [True] * 2
