"""A script or style sheet of the pages with all that it imports, in one file: a page needs few requests.

The files stay modules, without a build step. Each imported module becomes a function whose result is what it
exports. The functions stand in the order of the imports and run once; none sees the names of another, just
as in a browser. That is all there is to it because imports have no circles, and because no module changes the
value of a name that it exports: `export let` is refused.
"""

import re
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from posixpath import dirname, join, normpath, relpath
from typing import Final

_SHEET: Final = re.compile(r'^@import "(?P<path>\./[^"]+|\.\./[^"]+)";\n', re.MULTILINE)
_IMPORT: Final = re.compile(
    r'^import\s*(?P<names>[\w$*{][^"\';]*?)\s*from\s*"(?P<path>\.[^"]+)";?', re.MULTILINE
)
_REEXPORT: Final = re.compile(r'^export (?P<names>\*|\{[^}]*\}) from "(?P<path>\.[^"]+)";$', re.MULTILINE)
_DECLARED: Final = re.compile(
    r"^export (?P<declaration>(?:async )?function\*?|class|const) (?P<name>[\w$]+)", re.MULTILINE
)
_LISTED: Final = re.compile(r"(?:^|(?<=[;}\n]))export\s*\{(?P<names>[^}]*)\};?\s*\Z")
_DEFAULT: Final = re.compile(r"(?:^|(?<=[;}\n]))export default (?=function\b|class\b)")
_LEFT: Final = re.compile(r"^(?:import|export)\b(?!\().*", re.MULTILINE)
_KEPT_IMPORT: Final = re.compile(
    r"""^(?:import\b(?!\()|export\b[^;(=]*\bfrom\b|export let\b).*""", re.MULTILINE
)
"""What is refused in the module that is the script itself: it exports as before."""
_OWN_URL: Final = re.compile(r"\bimport\.meta\.url\b")
_LATER: Final = re.compile(r'(?<![@\w{])\bimport\("(?P<path>\.[^"]+)"\)(?!\.[A-Z])')
_COMMENT: Final = re.compile(r"^[ \t]*(?://.*|/\*\*(?:[^*]|\*(?!/))*\*/)\n", re.MULTILINE)

Read = Callable[[str], str]
"""Gives the text of a file by its path."""


class UnknownModuleForm(ValueError):
    """A script has an import or export that `joined` does not know."""


def without_comments(script: str) -> str:
    """A script of our own without its comments on lines of their own; a wheel has it so, too."""
    return _COMMENT.sub("", script)


def joined_sheet(path: str, read: Read) -> str:
    """The style sheet with those that it imports before it, each once."""
    found: dict[str, str] = {}
    _add_sheet(path, read, found)
    return "".join(found.values())


def _add_sheet(path: str, read: Read, found: dict[str, str]) -> None:
    text = read(path)
    for match in _SHEET.finditer(text):
        if (imported := _resolved(path, match["path"])) not in found:
            _add_sheet(imported, read, found)
    found[path] = _SHEET.sub("", text)


def joined_script(path: str, read: Read, *, apart: AbstractSet[str]) -> str:
    """The script with the modules that it imports; those that are `apart` stay imports."""
    return _Script(path, read, apart).text()


class _Script:
    """Puts one script together."""

    def __init__(self, path: str, read: Read, apart: AbstractSet[str]) -> None:
        self._path = path
        self._read = read
        self._apart = apart
        self._names: dict[str, str] = {}
        self._imports: list[str] = []
        self._functions: list[str] = []

    def text(self) -> str:
        """The whole script, which exports what its own module does."""
        body = _IMPORT.sub(self._binding(self._path), self._source(self._path))
        _refuse(self._path, _KEPT_IMPORT, body)
        body = self._with_urls(self._path, body)
        return "\n".join([*self._imports, *self._functions, body])

    def _source(self, path: str) -> str:
        text = self._read(path)
        return text if path.startswith("vendor/") else without_comments(text)

    def _name(self, path: str) -> str:
        """The name of a module's exports; the module is added if it is not there yet."""
        if path not in self._names:
            if path in self._apart:
                self._names[path] = name = f"module_{len(self._names)}"
                self._imports.append(f'import * as {name} from "./{relpath(path, dirname(self._path))}";')
            else:
                body = self._module(path)
                self._names[path] = name = f"module_{len(self._names)}"
                self._functions.append(f"const {name} = (() => {{\n{body}\n}})();")
        return self._names[path]

    def _module(self, path: str) -> str:
        """The body of a module's function."""
        exports: list[str] = []

        def reexported(match: re.Match[str]) -> str:
            name = self._name(_resolved(path, match["path"]))
            names = match["names"]
            exports.extend(
                [f"...{name}"] if names == "*" else (f"{to}: {name}.{of}" for of, to in _pairs(names))
            )
            return ""

        def declared(match: re.Match[str]) -> str:
            exports.append(match["name"])
            return f"{match['declaration']} {match['name']}"

        def listed(match: re.Match[str]) -> str:
            exports.extend(f"{to}: {of}" for of, to in _pairs(match["names"]))
            return ""

        def default(_match: re.Match[str]) -> str:
            exports.append("default: module_default")
            return "const module_default = "

        text = self._source(path)
        for form, put in (
            (_IMPORT, self._binding(path)),
            (_REEXPORT, reexported),
            (_DECLARED, declared),
            (_LISTED, listed),
            (_DEFAULT, default),
        ):
            text = form.sub(put, text)
        _refuse(path, _LEFT, text)
        return f"{self._with_urls(path, text)}\nreturn {{ {', '.join(exports)} }};"

    def _binding(self, path: str) -> Callable[[re.Match[str]], str]:
        """What an import becomes: constants with the values of the imported names."""

        def bound(match: re.Match[str]) -> str:
            name, names = self._name(_resolved(path, match["path"])), match["names"]
            if not names.startswith("{"):
                names = f"{{ default as {names} }}"
            return f"const {{ {', '.join(f'{of}: {to}' for of, to in _pairs(names))} }} = {name};"

        return bound

    def _with_urls(self, path: str, text: str) -> str:
        """The text with URLs that are relative to the script instead of its module."""
        base = dirname(self._path)
        text = _LATER.sub(lambda match: f'import("./{relpath(_resolved(path, match["path"]), base)}")', text)
        return _OWN_URL.sub(f'new URL("./{relpath(path, base)}", import.meta.url)', text)


def _refuse(path: str, unknown: re.Pattern[str], text: str) -> None:
    if found := unknown.search(text):
        raise UnknownModuleForm(f"{path}: {found[0]}")


def _pairs(names: str) -> Iterator[tuple[str, str]]:
    """The names of `{ a, b as c }`: what each is called there, and here."""
    for each in names.strip("{} \n").split(","):
        if each.strip():
            of, _, to = each.strip().partition(" as ")
            yield of, to or of


def _resolved(path: str, imported: str) -> str:
    return normpath(join(dirname(path), imported))
