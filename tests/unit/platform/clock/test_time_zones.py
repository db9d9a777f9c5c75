"""The names of time zones are known before the first one is asked for."""

import subprocess
import sys

_WITHOUT_FILES = """
import resource

from app.errors import Invalid
from app.platform.clock.time_zones import require_time_zone

resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
require_time_zone("Europe/Berlin")
try:
    require_time_zone("Mars/Olympus")
except Invalid as error:
    print(error)
"""


def test_they_are_known_where_no_more_files_can_be_opened() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _WITHOUT_FILES], capture_output=True, text=True, check=False
    )

    assert (ended.returncode, "timeZone" in ended.stdout) == (0, True), ended.stderr
