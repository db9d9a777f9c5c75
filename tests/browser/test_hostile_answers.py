"""Answers that attack the page: none draws over it, runs, loads anything or holds it up."""

import json
import re
from typing import Any

import pytest
from playwright.async_api import FloatRect, expect

from app.simulator.script import Reply, Text, ToolUse, in_turn
from tests.browser.site import ASSISTANT, MAILER, Site
from tests.browser.test_chat_page import ended, send
from tests.e2e.office import MAIL, office

pytestmark = pytest.mark.asyncio(loop_scope="session")

MAX_TASK_MS = 100
"""Of the processor, in one piece, before the page reacts to a key: 40 where nothing else uses its caches."""

XSS = r"""
<img src=x onerror="hacked=1"><svg/onload=hacked=1><svg><script>hacked=1</script></svg>
<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=hacked=1&gt;">
<iframe srcdoc="<script>parent.hacked=1</script>"></iframe>
<form action=/v1/runs><input name=attributes></form>
<a href="javascript:hacked=1" id=location>x</a><div class="notice" style="position:fixed;inset:0">over</div>
[a](javascript:hacked=1) [b](JaVaScRiPt:hacked=1)
[c](data:text/html;base64,PHNjcmlwdD5oYWNrZWQ9MTwvc2NyaXB0Pg==)
[d](vbscript:hacked=1) [e](&#106;avascript:hacked=1) <javascript:hacked=1> [f](//evil.example.org/x)
![g](https://evil.example.org/g.png) ![h](data:image/svg+xml;base64,PHN2Zy8+) ![i](x" onerror="hacked=1)
![j](data:image/png;base64,AAAA"onerror="hacked=1) [k](https://example.org/"onclick="hacked=1)

```"><img/src=x/onerror=hacked=1>
code
```

```js class=notice
"</span><img src=x onerror=hacked=1>"
```
"""

SHAPES = {"svg", "defs", "marker", "g", "rect", "circle", "ellipse", "line", "polyline", "polygon", "path"}
SHAPES |= {"text", "tspan"}
UNSAFE = {"href", "xlink:href", "src", "style", "class", "onload", "onerror", "onclick"}

CARD = """
<details class="tool" data-state="waits" open><summary>send mail</summary>
<button class="button button-primary">Allow</button></details>

> **send mail** needs your consent
>
> [Allow](#allow) [Deny](#deny)

- [ ] Allow
"""

FORMULAS = [
    r"$\href{javascript:hacked=1}{x}$",
    r"$\url{javascript:hacked=1}$",
    r"$\includegraphics[width=9em]{https://evil.example.org/x.png}$",
    r"$\htmlClass{notice}{x}\htmlStyle{position:fixed}{y}\htmlId{main}{z}\htmlData{a=b}{c}$",
    r"$\def\a{xxxxxxxxxx}\def\b{\a\a\a\a}\def\c{\b\b\b\b}\c\c\c$",
    r"$\newcommand{\a}[1]{#1#1}\a{\a{\a{\a{x}}}}$",
    r"$\rule{9999em}{9999em}$",
    r"$\kern-999em\raisebox{99em}{\colorbox{white}{Allow}}$",
    "$" + "{" * 400 + "}" * 400 + "$",
    "$" + r"\frac{1}{" * 90 + "}" * 90 + "$",
    r"$\begin{array}{" + "c" * 500 + r"}1\end{array}$",
    r"$\unicode$ $\left( $ $$\frac{1}$$",
    r"$\text{\char" + '"202e cba}$',
]


DIAGRAMS = [
    'graph TD\nA["<img src=x onerror=hacked=1>"] --> B["<script>hacked=1</script>"]',
    'graph TD\nA --> B\nclick A "javascript:hacked=1"\nclick B call hacked() "x"\nclick A href "https://evil.org"',
    "graph TD\nA --> B\nstyle A fill:url(//evil.org/x#a)\nclassDef c fill:url(//evil.org)\nclass A c",
    "%%{init: {'securityLevel': 'loose', 'themeCSS': '@import url(//evil.org/x)'}}%%\ngraph TD\nA-->B",
    "---\nconfig:\n  securityLevel: loose\n  htmlLabels: true\n---\ngraph TD\nA-->B",
    'graph TD\nA["#lt;/text#gt;#lt;script#gt;hacked=1#lt;/script#gt; &#60;a href=x&#62; ]]> --> <!--"] --> B',
    'graph TD\nA["\ue03c\ue073script \ufffe\u0001 \u202e"] -->|"</svg><script>hacked=1</script>"| B',
    'graph TD\nsubgraph x ["\'/><image href=https://evil.org/x.png />"]\nA\nend',
    'stateDiagram-v2\nstate "<svg onload=hacked=1>" as A\nA --> B : <foreignObject><b>x</b></foreignObject>',
    "sequenceDiagram\nA<script>->>B</script>: <img src=https://evil.org/x>\nlink A: x @ https://evil.org",
    "sequenceDiagram\nparticipant A as <a href='javascript:hacked=1'>x</a>\nA->>A: &lt;img src=x&gt;",
    'classDiagram\nclass A {\n+String <script>hacked=1</script>\n+go(</text><script>) x\n}\nlink A "https://evil.org"',
    'erDiagram\nA ||--o{ B : "<image xlink:href=https://evil.org/x>"\nA {\nx<script> y "</svg>"\n}',
    "graph TD\n" + " & ".join(f"a{number}" for number in range(140)) + " --> b",
    "graph TD\n" + "subgraph x\n" * 500,
    "graph TD\n" + "\n".join(f"n{number}-->n{number + 1}" for number in range(600)),
    "graph TD\nA[" + "x" * 9_900 + "]",
    "sequenceDiagram\n" + "-" * 9_000,
    "classDiagram\nclass A {\n" + "x( " * 3_000 + "\n}",
]


PIECES = [
    "*a* ",
    "- `a` [b](https://example.org) $x$\n",
    "> ",
    "```js\nlet a = 'b'; // c\n```\n\n$\\frac{1}{2}$\n\n```mermaid\ngraph LR\nA-->B[Some words]\n```\n\n",
]


async def test_no_markup_of_an_answer_becomes_a_part_of_the_page(site: Site) -> None:
    requested: list[str] = []
    site.model.script = in_turn(Reply([Text(XSS)]), Reply([Text(CARD)]))
    async with site.visit(await site.key()) as page:
        page.on("request", lambda request: requested.append(request.url))
        await send(page, "Do harm", graph=ASSISTANT)
        await ended(page)
        await send(page, "Ask me")
        await ended(page, answers=2)
        found = await page.evaluate(_FOREIGN)
        links = [await link.get_attribute("href") for link in await page.locator(".prose a[href]").all()]
        fields = await page.locator(".prose").get_by_role("button", name="Allow").count()

    assert found == {"elements": [], "attributes": [], "classes": [], "hacked": False}
    assert all((link or "").startswith(("https://", "mailto:")) for link in links), links
    assert fields == 0
    assert [url for url in requested if not url.startswith(site.world.url)] == []


async def test_no_formula_draws_over_the_page(site: Site) -> None:
    requested: list[str] = []
    site.model.script = in_turn(Reply([Text("\n\n".join([*FORMULAS, "And $x^2$."]))]))
    async with site.visit(await site.key()) as page:
        page.on("request", lambda request: requested.append(request.url))
        await send(page, "Calculate", graph=ASSISTANT)
        await ended(page)
        await expect(page.locator(".formula math").last).to_contain_text("x2")
        await expect(page.locator("code.formula").first).to_be_visible()
        outside = await page.evaluate(_OUTSIDE)
        foreign = await page.locator(".prose a[href^=j], .prose img, .prose .notice, .prose #main").count()
        undefined = await page.locator("code.formula").all_text_contents()
        assert "\u202e" not in (await page.locator(".column").text_content() or "")
        assert await page.evaluate("'hacked' in window") is False

    assert outside == []
    assert foreign == 0
    assert [text for text in undefined if "def" in text or "newcommand" in text] != []
    assert [url for url in requested if not url.startswith(site.world.url)] == []


async def test_no_diagram_runs_or_loads_anything(site: Site) -> None:
    requested: list[str] = []
    # Nothing where a line is not mermaid's; the last ones are too large, or no diagrams.
    drawn = [1] * 9 + [0] + [1] * 3 + [0] * 6
    async with site.visit() as page:
        page.on("request", lambda request: requested.append(request.url))
        pictures = await page.evaluate(_PICTURES, DIAGRAMS)
        assert await page.evaluate("'hacked' in window") is False

    assert [len(found) for found in pictures] == drawn
    shown = [picture for found in pictures for picture in found]
    assert [picture for picture in shown if not picture["isWhole"]] == []
    assert {name for picture in shown for name in picture["elements"]} <= SHAPES
    assert {name for picture in shown for name in picture["attributes"]} & UNSAFE == set()
    assert "</text><script>hacked=1</script> <a href=x> ]]> --> <!--" in shown[5]["text"]
    assert [url for url in requested if not url.startswith((site.world.url, "data:image/svg+xml,"))] == []


async def test_a_command_reads_as_it_is(site: Site) -> None:
    hidden = "echo safe\u202e ;/ fr- mr"
    entities = hidden.replace("\u202e", "&#x202e;&#8294;")
    answer = f"{hidden}\n\n{entities} $x\u202e$\n\n```sh\n{hidden}\u2066x\u2069\n```"
    site.model.script = in_turn(Reply([Text(answer)]))
    async with site.visit(await site.key()) as page:
        await send(page, f"Run {hidden}", graph=ASSISTANT)
        await ended(page)
        shown = await page.locator(".column").text_content()

    assert shown is not None
    assert shown.count("echo safe ;/ fr- mr") == 4
    assert not any(char in shown for char in "\u202e\u2066\u2069")


async def test_arguments_read_as_they_are(site: Site) -> None:
    mail = {"to": "bob@example.org", "text": "pay\u202e 1 - 2\u200f 3 - 4"}
    site.model.script = in_turn(Reply([ToolUse(MAIL, mail)]), Reply([Text("Done.")]))
    async with site.visit(await site.key()) as page:
        await send(page, "Write to Bob", graph=MAILER)
        written = r'"text": "pay\u202e 1 - 2\u200f 3 - 4"'
        await expect(page.get_by_role("group", name="Arguments")).to_contain_text(written)
        await page.get_by_role("button", name="Change the arguments").click()
        await expect(page.get_by_role("textbox", name="to", exact=True)).to_have_value(mail["to"])
        await expect(page.get_by_role("textbox", name="text", exact=True)).to_have_count(0)
        await page.get_by_role("button", name="As JSON").click()
        await expect(page.get_by_role("textbox", name="Arguments")).to_have_value(
            re.compile(re.escape(written))
        )
        await page.get_by_role("button", name="Allow", exact=True).click()
        await ended(page)

    assert office().sent == [(mail["to"], mail["text"])]


async def test_no_letter_draws_over_what_is_beside_its_answer(site: Site) -> None:
    site.model.script = in_turn(Reply([Text("High letters")]))
    async with site.visit(await site.key()) as page:
        await send(page, "A question", graph=ASSISTANT)
        await ended(page)
        answer = await page.locator(".prose").bounding_box()
        assert answer is not None
        above = FloatRect(x=answer["x"], y=answer["y"] - 60, width=100, height=50)
        before = await page.screenshot(clip=above)
        # As high as with accents in fonts that this machine may not have.
        await page.locator(".prose p").evaluate(_HIGH)
        assert await page.screenshot(clip=above) == before


@pytest.mark.long
async def test_no_streamed_answer_holds_the_page_up(site: Site) -> None:
    longest = {}
    async with site.visit() as page:
        await page.evaluate(_STREAM, ["a $x$ `b`\n\n```js\nlet\n```\n\n", 20_000])
        browser = page.context.browser
        assert browser is not None
        for piece in PIECES:
            await browser.start_tracing(page=page, categories=["toplevel", "devtools.timeline"])
            await page.evaluate(_STREAM, [piece, 1_000_000])
            longest[piece] = longest_task_ms(json.loads(await browser.stop_tracing())["traceEvents"])

    assert max(longest.values()) < MAX_TASK_MS, longest


def longest_task_ms(events: list[dict[str, Any]]) -> float:
    """The longest time of the processor that the page's main thread has needed in one piece."""
    names = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events
        if event["name"] == "thread_name"
    }
    tasks = [
        event.get("tdur", 0)
        for event in events
        if event["name"] in {"RunTask", "ThreadControllerImpl::RunTask"}
        and names.get((event["pid"], event["tid"])) == "CrRendererMain"
    ]
    return float(max(tasks)) / 1000


@pytest.mark.parametrize(("path", "most"), [("/", 150_000), ("/console", 250_000), ("/billing", 250_000)])
async def test_the_first_load_is_small(site: Site, path: str, most: int) -> None:
    async with site.visit(await site.key(), path=path) as page:
        await expect(page.locator(".page h1, #message").first).to_be_visible()
        await page.wait_for_load_state("networkidle")
        loaded = await page.evaluate(_LOADED)

    assert sum(loaded.values()) <= most
    assert [
        name
        for name in loaded
        if any(part in name for part in ("vendor/katex", "vendor/highlight", "vendor/mermaid", "diagrams/"))
        or ("vendor/uplot" in name and path != "/billing")
    ] == []


_HIGH = """(it) => {
  it.style.textShadow = Array.from({ length: 200 }, (_, index) => `0 -${index}px red`).join();
}"""

# A text of a megabyte, as it arrives: small pieces while it is formatted.
_STREAM = """async ([piece, size]) => {
  const { html, render } = await import("/assets/html.js");
  const { Prose } = await import("/assets/chat/text.js");
  const place = document.createElement("div");
  document.body.append(place);
  const whole = piece.repeat(size / piece.length);
  const draw = (end, open) => render(html`<${Prose} text=${whole.slice(0, end)} open=${open} />`, place);
  for (let end = 0; end < whole.length; end += end < 120_000 ? 4_000 : 100_000) {
    draw(end, true);
    await new Promise(requestAnimationFrame);
  }
  draw(whole.length, false);
  for (let frames = 0; frames < 40; frames += 1) await new Promise(requestAnimationFrame);
  place.remove();
}"""

_FOREIGN = """() => {
  const ours = ".code, .code-bar, .code-bar *, .table, .table > .button, .block, .plain, .more, .more *";
  const all = [...document.querySelectorAll(".prose *")].filter((node) => !node.matches(ours));
  const allowed = new Set("A BLOCKQUOTE BR CODE DEL EM H3 H4 H5 H6 HR LI OL P PRE STRONG SPAN UL".split(" "));
  const names = new Set(["href", "target", "rel", "class", "tabindex", "start"]);
  const classes = /^(|code-wrapped|language-[\\w+#.-]+|formula.*|hljs-.*)$/;
  return {
    elements: all.map((node) => node.nodeName).filter((name) => !allowed.has(name)),
    attributes: all.flatMap((node) => node.getAttributeNames()).filter((name) => !names.has(name)),
    classes: all.map((node) => node.className).filter((name) => !classes.test(name)),
    hacked: "hacked" in window,
  };
}"""

# What each answer has of pictures, once nothing is drawn any more.
_PICTURES = """async (sources) => {
  const { html, render } = await import("/assets/html.js");
  const { Prose } = await import("/assets/chat/text.js");
  const { drawDiagram } = await import("/assets/chat/diagrams/diagram.js");
  const found = [];
  for (const source of sources) {
    const place = document.createElement("div");
    document.body.append(place);
    render(html`<${Prose} text=${"```text\\n" + source + "\\n```"} />`, place);
    await drawDiagram(place.querySelector("pre"));
    found.push(await Promise.all([...place.querySelectorAll("img")].map(async (picture) => {
      await picture.decode();
      const markup = decodeURIComponent(picture.src.replace("data:image/svg+xml,", ""));
      const file = new DOMParser().parseFromString(markup, "image/svg+xml");
      const all = [...file.querySelectorAll("*")];
      return {
        isWhole: picture.naturalWidth > 0 && !file.querySelector("parsererror"),
        elements: all.map((node) => node.nodeName),
        attributes: all.flatMap((node) => node.getAttributeNames()),
        text: file.documentElement.textContent,
      };
    })));
    render(null, place);
  }
  return found;
}"""

# What is drawn of a formula outside of its answer: clipped parts are not hit.
_OUTSIDE = """() => {
  const found = [];
  for (let x = 2; x < innerWidth; x += 40)
    for (let y = 2; y < innerHeight; y += 20) {
      const hit = document.elementFromPoint(x, y)?.closest(".formula");
      const place = hit?.closest(".column").getBoundingClientRect();
      if (place && (x < place.left || x > place.right)) found.push([x, y]);
    }
  return found;
}"""

_LOADED = """() => Object.fromEntries([...performance.getEntriesByType("navigation"),
  ...performance.getEntriesByType("resource").filter(({ name }) => name.includes("/assets/"))]
  .map(({ name, encodedBodySize }) => [name, encodedBodySize]))"""
