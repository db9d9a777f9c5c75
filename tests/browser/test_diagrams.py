"""Diagrams of mermaid: pictures of them in answers, and code where there is none."""

from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from app.simulator.script import Reply, Text, in_turn
from tests.browser.site import ASSISTANT, PHONE, Site, accessibility_problems, looks_well, resize, screenshot
from tests.browser.test_chat_answers import WIDE, copies_of
from tests.browser.test_chat_page import ended, send
from tests.e2e.stories import a_client

pytestmark = pytest.mark.asyncio(loop_scope="session")

FLOWCHART = """flowchart TD
    A[User asks] --> B{Budget left?}
    B -->|yes| C["Run (the graph)"]
    B -- no --> D[Refuse<br/>the run]
    C --> A
    subgraph receipts [One receipt each]
      C & D ==> E[(PostgreSQL)]
    end
    style A fill:#f9f
"""
STATES = """stateDiagram-v2
    [*] --> Queued
    Queued --> Running: a place is free
    state Running {
      [*] --> Model
      Model --> Tool
      Tool --> Model
    }
    Running --> Waiting: needs consent
    Running --> Waiting: has a question
    Running --> [*]
"""
SEQUENCE = """sequenceDiagram
    autonumber
    actor C as Client
    participant S as Server
    C->>+S: POST /v1/runs with a message that is longer than usual
    alt has credit
      S-->>C: 202 Accepted
    else none
      S-->>-C: 402
    end
    Note over C,S: Events follow
    S->>S: writes a receipt
"""
CLASSES = """classDiagram
    class Executor {
      <<interface>>
      +run(request: Request) Events
      -List~str~ tools
    }
    Executor <|.. Loop
    Sdk --|> Executor
    Loop "1" --> "*" Tool : calls
"""
ENTITIES = """erDiagram
    ACCOUNT ||--o{ RECEIPT : pays
    ACCOUNT {
        uuid id PK "of the account"
        text name
    }
    RECEIPT }o--|| RUN : "belongs to"
"""
DECISIONS = """flowchart TD
A[User request] --> B{Authenticated?}
B -->|no| C[401]
B -->|yes| D{Budget left?}
D -->|no| E[402 payment required]
D -->|yes| F[Queue the run]
F --> G[Worker takes it]
G --> H[Model call]
H --> I{Tool call?}
I -->|yes| J[Run tool]
J --> H
I -->|no| K[Write receipt]
K --> L[Done]
"""
GROUPS = """flowchart LR
subgraph Client
  UI[Chat page] --> API[api.js]
end
subgraph Server
  R[Routes] --> Q[(Queue)]
end
Client -->|HTTPS| Server
Server --> DB
"""
LEFT = """gantt
    title Later
"""
DRAWN = (FLOWCHART, STATES, SEQUENCE, CLASSES, ENTITIES)


def fenced(*sources: str) -> str:
    return "\n\n".join(f"```mermaid\n{source}\n```" for source in sources)


async def loaded(page: Page, count: int) -> None:
    """Wait until so many pictures are shown, and have been decoded."""
    pictures = page.locator(".diagram img")
    await expect(pictures).to_have_count(count)
    for picture in await pictures.all():
        await picture.evaluate("picture => picture.decode()")


@pytest.mark.long
async def test_diagrams_are_pictures_with_their_source(site: Site) -> None:
    answer = fenced(*DRAWN, LEFT, "graph TD\n  A --x B", "graph TD\n" + "A-->B\n" * 2_000)
    site.model.script = in_turn(Reply([Text(answer)]))
    async with site.visit(await site.key(), size=WIDE) as page:
        await copies_of(page)
        await send(page, "Draw what you know", graph=ASSISTANT)
        await ended(page)
        await loaded(page, 5)
        first = page.get_by_role("img", name="Diagram: One receipt each, User asks")
        await expect(page.get_by_text("This diagram stays code: it has something")).to_have_count(1)
        await expect(page.get_by_text("This diagram stays code: it is too large.")).to_have_count(1)
        await expect(page.locator("pre:visible")).to_have_count(3)
        await page.get_by_role("button", name="Copy this code").first.click()
        assert await page.evaluate("window.copied") == f"{FLOWCHART}\n"
        await screenshot(page, "diagrams")
        await page.locator(".code", has_text="sequenceDiagram").scroll_into_view_if_needed()
        await screenshot(page, "diagrams-more")

        source = page.get_by_role("button", name="Show the source of this diagram").first
        await source.click()
        await expect(source).to_have_attribute("aria-pressed", "true")
        await expect(page.locator("code", has_text="B -->|yes| C")).to_be_visible()
        await expect(first).to_be_hidden()
        await source.click()
        await expect(first).to_be_visible()

        light = await first.get_attribute("src")
        await page.emulate_media(color_scheme="dark")
        await expect(first).not_to_have_attribute("src", light or "")
        await page.get_by_role("button", name="Enlarge").first.click()
        dialog = page.get_by_role("dialog", name="Diagram: One receipt each")
        await expect(dialog.get_by_role("img")).to_be_visible()
        await screenshot(page, "diagrams-large-dark")
        assert await accessibility_problems(page) == []
        await dialog.get_by_role("button", name="Close").click()
        await expect(dialog).to_have_count(0)
        await page.reload()
        for size, dark in ((WIDE, True), (PHONE, False), (PHONE, True)):
            await resize(page, size, dark=dark)
            await loaded(page, 5)
            await looks_well(page, "diagrams", (size, dark))


async def test_a_shared_conversation_has_its_diagrams(site: Site) -> None:
    site.model.script = in_turn(Reply([Text(fenced(FLOWCHART))]))
    key = await site.key()
    async with site.visit(key) as page, a_client(site.world.url, key.secret) as http:
        await send(page, "Draw it", graph=ASSISTANT)
        await ended(page)
        (conversation,) = (await http.get("/v1/sessions")).json()["items"]
        share = (await http.post(f"/v1/sessions/{conversation['stateKey']}/shares", json={})).json()
        await page.goto(share["url"])
        await loaded(page, 1)
        await screenshot(page, "diagrams-shared")
        assert await accessibility_problems(page) == []


OUTCOMES = [
    ("graph LR; A-->B; B-->C[Text; here]", "diagram-unreadable"),
    ('graph LR; A-->B; B-->C["Text; here"]', "A, B, Text; here"),
    ("graph TD\nA --> B\nB[Later (it says)]", "diagram-unreadable"),
    ("graph\nA-->B\nB[Later]", "A, Later"),
    ("graph TD\nA -. maybe .-> B\nB==>|sure|A\nA---C", "A, B, C, maybe, sure"),
    ("graph TD\nA-->|one|B\nA-->|two|B", "A, B, one / two"),
    ("graph TD\nA --o B", "diagram-unreadable"),
    ("graph TD\nsubgraph one\nA", "diagram-unreadable"),
    ('graph TD\nstart["A #quot;b#quot; &lt;c&gt; <b>d</b>"] --> 終わり', 'A "b" <c> d, 終わり'),
    ("---\ntitle: T\n---\n%%{init: {'theme':'dark'}}%%\ngraph TD\nA:::big-->B\nclick A \"x\"", "A, B"),
    ("graph TD\n__proto__ --> constructor --> toString", "__proto__, constructor, toString"),
    ("stateDiagram-v2\n[*] --> A : go\nA : Awake\nnote right of A\nx\nend note", "diagram-unreadable"),
    ("stateDiagram\n[*] --> A : go\nA : Awake\nA --> A : again", "go, Awake, again"),
    (
        'sequenceDiagram\nAnn Lee->>B: hi: "there"; all\nactivate B\nB--)Ann Lee: ',
        'hi: "there"; all, Ann Lee, B',
    ),
    ("sequenceDiagram\nbox Team\nA->>B: hi\nend", "diagram-unreadable"),
    ("sequenceDiagram\nloop x\nA->>B: hi", "diagram-unreadable"),
    ('classDiagram\nA <-- B\nnote "x"', "diagram-unreadable"),
    ("classDiagram\ndirection LR\nA <-- B : uses\nA : +go(x: int)$ void", "B, A, uses, go(x: int), void"),
    ("erDiagram\nA }o..|{ B : x\nA {\nint id PK, FK\n}\nC", "A, B, x, int, id, C"),
    ("erDiagram\nA ||--|| B : x\nA ||--|| B : x", "diagram-unreadable"),
    (
        "graph TD\n" + " & ".join("abcdefghijklmnopqrs") + " --> " + " & ".join("ABCDEFGHIJKLMNOPQRS"),
        "diagram-too-large",
    ),
    ("graph TD\n" + "\n".join(f"a{number}" for number in range(200)), "diagram-too-large"),
    ("graph TD\n" + "".join(f"subgraph s{number}\n" for number in range(90)), "diagram-too-large"),
    (f"graph TD\nA[{'x' * 2_000}]", "diagram-too-large"),
    ("graph TD\n" + "\n" * 600 + "A", "diagram-too-large"),
    ('pie\n"a": 1', None),
    ("mindmap\n  root", None),
    ("", None),
]
"""Sources, and the words of their pictures, or why there is none."""


async def test_a_diagram_is_drawn_whole_or_not_at_all(blank: Page) -> None:
    drawn: Any = await blank.evaluate(_DRAWN, [source.strip() for source, _ in OUTCOMES])

    assert drawn == [outcome for _, outcome in OUTCOMES]


async def test_edges_end_at_the_side_they_come_from_and_leave_groups_at_their_border(blank: Page) -> None:
    hidden: Any = await blank.evaluate(_HIDDEN_ENDS, DECISIONS)
    client, server = await blank.evaluate(_STARTS, GROUPS)

    assert hidden == 0
    assert client["x"] == pytest.approx(client["right"])
    assert server["x"] == pytest.approx(server["right"])


async def test_work_on_an_answer_has_a_time_limit_and_the_next_is_done(site: Site) -> None:
    async def worker(route: Route) -> None:
        await route.fulfill(content_type="text/javascript", body=_WORKER)

    async with site.visit(path="/healthz") as page:
        await page.route("**/assets/slow_worker.js", worker)
        answers: Any = await page.evaluate(_LIMITED)

    assert answers == ["null", "b", "undefined", "c"]


@pytest.mark.parametrize("body", [None, "self.onmessage = () => { throw 1 };"])
async def test_what_cannot_be_drawn_now_is_not_called_too_large(site: Site, body: str | None) -> None:
    async def worker(route: Route) -> None:
        await (route.fulfill(content_type="text/javascript", body=body) if body else route.abort())

    async with site.visit() as page:
        await page.route("**/assets/chat/diagrams/worker.js", worker)
        said: Any = await page.evaluate(_SAID)

    assert said == "This diagram stays code: it could not be drawn."


_DRAWN = """async (sources) => {
  const { drawing } = await import("/assets/chat/diagrams/drawing.js");
  const outcome = async (source) => {
    try {
      return (await drawing(source))?.words.join(", ") ?? null;
    } catch (error) {
      return error.problem ?? String(error);
    }
  };
  return Promise.all(sources.map(outcome));
}"""
_SHAPES = """
  const { drawing } = await import("/assets/chat/diagrams/drawing.js");
  const { svg } = await drawing(source);
  const file = new DOMParser().parseFromString(svg, "image/svg+xml");
  const number = (node, name) => Number(node.getAttribute(name));
  const boxes = (kind) => [...file.querySelectorAll(`rect[fill="var(--_${kind}-fill)"]`)].map((node) => ({
    left: number(node, "x"),
    right: number(node, "x") + number(node, "width"),
    top: number(node, "y"),
    bottom: number(node, "y") + number(node, "height"),
  }));
  const edges = [...file.querySelectorAll('polyline[fill="none"]')].map((node) =>
    node.getAttribute("points").split(" ").map((pair) => pair.split(",").map(Number)),
  );
"""
_HIDDEN_ENDS = (
    "async (source) => {"
    + _SHAPES
    + """
  const isIn = ([x, y]) => boxes("node").some(({ left, right, top, bottom }) =>
    x > left - 1 && x < right + 1 && y > top - 1 && y < bottom + 1);
  return edges.filter((points) => points.length > 2 && isIn(points.at(-2))).length;
}"""
)
_STARTS = (
    "async (source) => {"
    + _SHAPES
    + """
  return boxes("group").map(({ right }, index) => ({ right, x: edges.at(index - 2)[0][0] }));
}"""
)
_WORKER = """self.onmessage = ({ data }) => {
  self.postMessage("started");
  while (data === "slow");
  if (data === "fails") throw new Error(data);
  self.postMessage(data);
};"""
_LIMITED = """async () => {
  const { withTimeLimit } = await import("/assets/chat/answers/time_limit.js");
  const ask = withTimeLimit(new URL("/assets/slow_worker.js", location.href), 200);
  return (await Promise.all(["slow", "b", "fails", "c"].map(ask))).map(String);
}"""
_SAID = """async () => {
  const { drawDiagram } = await import("/assets/chat/diagrams/diagram.js");
  const pre = document.createElement("pre");
  pre.textContent = "graph TD; A-->B";
  document.body.append(pre);
  await drawDiagram(pre);
  return pre.previousElementSibling.textContent;
}"""
