"""What a wheel has otherwise than a checkout: it is smaller, because its texts are one compressed archive."""

import io
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))
from app.http.api.guide.pages import OF_THE_CODE
from app.http.api.pages.joined import without_comments

# For texts smaller than xz by a fifteenth.
_TEXTS = "texts.tar.bz2"
_KINDS = (".md", ".LICENSE", ".yaml", ".example", ".ftl", ".css", ".js")
"""In this order: texts beside those that are like them take less, and it compresses 900 kB at a time."""
_ALSO = (".env.example", "app/http/openapi/examples.yaml")
"""With the documents; `app/platform/serialization/shipped.py` reads them."""
_OF_LIBRARIES = ("app/web/vendor/*.LICENSE", "app/web/vendor/README.md")
"""For people, as NOTICE says."""


class CompressedFiles(BuildHookInterface):
    """A client without a server is small then."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the archive in a directory of its own, from which the wheel takes it."""
        if version == "editable":
            return
        self._made = tempfile.TemporaryDirectory()
        archive = Path(self._made.name) / _TEXTS
        self._write_texts(archive)
        build_data["force_include"][str(archive)] = f"app/{_TEXTS}"

    def _write_texts(self, archive: Path) -> None:
        root = Path(self.root)
        documents = (root / "docs").rglob("*.md")
        pages = [each for each in documents if not each.relative_to(root).as_posix().startswith(OF_THE_CODE)]
        web = [path for kind in ("js", "css", "ftl") for path in (root / "app" / "web").rglob(f"*.{kind}")]
        licences = [path for pattern in _OF_LIBRARIES for path in root.glob(pattern)]
        files = [*pages, *web, *licences, *(root / each for each in _ALSO)]
        with tarfile.open(archive, "w:bz2") as texts:
            for path in sorted(files, key=lambda path: (_KINDS.index(path.suffix), path)):
                member = tarfile.TarInfo(path.relative_to(root).as_posix())
                content = self._content(path)
                member.size = len(content)
                texts.addfile(member, io.BytesIO(content))

    @staticmethod
    def _content(path: Path) -> bytes:
        is_own_script = path.suffix == ".js" and path.parent.name != "vendor"
        return without_comments(path.read_text("utf-8")).encode() if is_own_script else path.read_bytes()

    def finalize(self, version: str, _build_data: dict[str, Any], _artifact: str) -> None:
        """Remove that directory."""
        if version != "editable":
            self._made.cleanup()
