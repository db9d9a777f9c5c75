import re

import pytest

from app.http.api.pages.files import WEB, sent_text
from app.http.api.pages.joined import UnknownModuleForm, joined_script, joined_sheet

_ONE = """// About it.

import { t } from "../words.js";

/** What it does. */
export function one() {
  new Worker(new URL("./worker.js", import.meta.url));
  return import("../vendor/late.js").then(t);
}
"""
_PAGE = """import { one } from "./parts/one.js";
import {
  two,
  all as every,
} from "./two.js";

import lib from "./vendor/lib.js";
one(two, every, lib);
"""
_TWO = """export { one as all } from "./parts/one.js";
export * from "./parts/three.js";
export const two = 2;
"""
_PAGES = {
    "page.js": _PAGE,
    "parts/one.js": _ONE,
    "two.js": _TWO,
    "parts/three.js": "export class Three {}\nexport async function four() {}\n",
    "vendor/lib.js": 'import{a as b}from"./small.js";var c=b;export default function(){return c}',
    "vendor/small.js": "var x=1;export{x as a};\n",
}
_JOINED = """import * as module_0 from "./words.js";
const module_1 = (() => {

const { t: t } = module_0;

function one() {
  new Worker(new URL("./worker.js", new URL("./parts/one.js", import.meta.url)));
  return import("./vendor/late.js").then(t);
}

return { one };
})();
const module_2 = (() => {
class Three {}
async function four() {}

return { Three, four };
})();
const module_3 = (() => {


const two = 2;

return { all: module_1.one, ...module_2, two };
})();
const module_4 = (() => {
var x=1;
return { a: x };
})();
const module_5 = (() => {
const { a: b } = module_4;var c=b;const module_default = function(){return c}
return { default: module_default };
})();
const { one: one } = module_1;
const { two: two, all: every } = module_3;

const { default: lib } = module_5;
one(two, every, lib);
"""
_NATIVE = re.compile(r'^import .* from "\./(.+)";$', re.MULTILINE)
_FUNCTION = re.compile(r"^const module_\d+ = \(\(\) => \{\n(.+?)\n\}\)\(\);$", re.MULTILINE | re.DOTALL)
_UNKNOWN = [
    "export let count = 0;",
    "export default 3;",
    'import "./parts/three.js";',
    'export * as three from "./parts/three.js";',
]


def test_each_module_becomes_one_function_in_the_order_of_imports() -> None:
    assert joined_script("page.js", _PAGES.__getitem__, apart={"words.js"}) == _JOINED


@pytest.mark.parametrize("line", _UNKNOWN)
def test_what_cannot_be_joined_is_refused(line: str) -> None:
    modules = {**_PAGES, "two.js": f"{line}\n"}

    with pytest.raises(UnknownModuleForm, match=f"two.js: {re.escape(line)}"):
        joined_script("page.js", modules.__getitem__, apart={"words.js"})


@pytest.mark.parametrize("line", [each for each in _UNKNOWN if "default" not in each])
def test_the_script_itself_may_not_hide_an_import_either(line: str) -> None:
    with pytest.raises(UnknownModuleForm, match=f"words.js: {re.escape(line)}"):
        joined_script("words.js", {**_PAGES, "words.js": f"{line}\n"}.__getitem__, apart=set())


def test_a_sheet_has_those_that_it_imports_before_it_and_each_once() -> None:
    sheets = {
        "page.css": '/* A page. */\n\n@import "./base.css";\n@import "./parts.css";\n\np { color: red }\n',
        "parts.css": '@import "./base.css";\nb { top: 0 }\n',
        "base.css": "a { top: 1px }\n",
    }

    joined = joined_sheet("page.css", sheets.__getitem__)

    assert joined == "a { top: 1px }\nb { top: 0 }\n/* A page. */\n\n\np { color: red }\n"


@pytest.mark.parametrize("page", sorted(path.name for path in WEB.glob("*.html")))
def test_a_page_names_each_script_that_it_loads_and_has_each_module_once(page: str) -> None:
    html = (WEB / page).read_text(encoding="utf-8")
    named = {name: sent_text(name) or "" for name in re.findall(r'src="[^"]*assets/([\w-]+\.js)"', html)}

    imported = {each for text in named.values() for each in _NATIVE.findall(text)}
    assert imported <= set(named)
    # One that is in two scripts would be there twice, with two states.
    modules = [body for text in named.values() for body in _FUNCTION.findall(text)]
    assert len(modules) == len(set(modules))
