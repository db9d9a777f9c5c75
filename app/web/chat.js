// The chat page.

import { ApiError, get } from "./api.js";
import { Composer } from "./chat/composer.js";
import { Conversation, newKey } from "./chat/conversation.js";
import { dollars } from "./chat/cost.js";
import { rendered } from "./chat/markdown.js";
import { Sidebar } from "./chat/sidebar.js";
import { Turn } from "./chat/transcript.js";
import { apiProblem, busyWith, runProblem } from "./chat/words.js";
import { html, useEffect, useLayoutEffect, useReducer, useRef, useState } from "./html.js";
import { startPage } from "./shell.js";

const PARAMETER = "conversation";
const LAST_GRAPH = "runtally.graph";
const NEAR_THE_END_PX = 80;
const SPOKEN_CHARS = 1000;

function ChatPage({ who }) {
  const [, draw] = useReducer((count) => count + 1, 0);
  const [graphs, setGraphs] = useState(null);
  const [graphId, setGraphId] = useState(null);
  const [sessions, setSessions] = useState({ items: [], nextCursor: null });
  const [problem, setProblem] = useState("");
  const [spoken, setSpoken] = useState("");
  const [drawer, setDrawer] = useState(false);
  const [asking, setAsking] = useState(null);
  const page = useRef({ conversation: null, scheduled: false });

  const fail = (error) => {
    if (!(error instanceof ApiError)) throw error;
    setProblem(apiProblem(error));
  };
  const changed = () => {
    if (page.current.scheduled) return;
    page.current.scheduled = true;
    // As often as the screen is drawn, however fast events come.
    requestAnimationFrame(() => {
      page.current.scheduled = false;
      draw();
    });
  };
  const listSessions = async () => setSessions(await get("v1/sessions"));
  const moreSessions = async () => {
    const next = await get(`v1/sessions?cursor=${encodeURIComponent(sessions.nextCursor)}`);
    setSessions({ ...next, items: [...sessions.items, ...next.items] });
  };
  const ended = ({ run }) => {
    setSpoken(run.error ? runProblem(run.error, run.finishReason) : `Answer: ${plain(run.answer)}`);
    listSessions().catch(fail);
  };
  const show = async (key) => {
    page.current.conversation?.close();
    const conversation = new Conversation(key ?? newKey(), { changed, ended });
    page.current.conversation = conversation;
    setProblem("");
    setSpoken("");
    setDrawer(false);
    draw();
    if (key === null) return;
    await conversation.load();
    const last = conversation.turns.findLast((turn) => turn.graphId)?.graphId;
    if (last) setGraphId(last);
  };
  const go = (key) => {
    history.pushState(null, "", key === null ? "./" : `?${PARAMETER}=${encodeURIComponent(key)}`);
    show(key);
  };

  useEffect(() => {
    const back = () => show(keyOfUrl());
    addEventListener("popstate", back);
    show(keyOfUrl());
    listSessions().catch(fail);
    get("v1/graphs").then(({ items }) => {
      setGraphs(items);
      const last = localStorage.getItem(LAST_GRAPH);
      setGraphId((chosen) => chosen ?? (items.find(({ id }) => id === last) ?? items[0])?.id ?? null);
    }, fail);
    return () => {
      removeEventListener("popstate", back);
      page.current.conversation.close();
    };
  }, []);

  const { conversation } = page.current;
  if (conversation === null) return html`<p class="waiting" role="status">Loading…</p>`;

  const send = async (text) => {
    setProblem("");
    const begins = conversation.turns.length === 0;
    try {
      await conversation.send(text, graphId);
    } catch (error) {
      fail(error);
      return false;
    }
    localStorage.setItem(LAST_GRAPH, graphId);
    if (begins) history.replaceState(null, "", `?${PARAMETER}=${conversation.key}`);
    listSessions().catch(fail);
    return true;
  };
  const mayWrite = who.may("runs:write");
  const actions = {
    decide: mayWrite && ((turn, tool, decision) => conversation.decide(turn.run, tool, decision)),
    unfold: (turn) => conversation.unfold(turn),
    again: mayWrite && ((turn) => send(turn.question)),
    fork: mayWrite && ((turn) => conversation.fork(turn).then((key) => (listSessions(), go(key))).catch(fail)),
  };
  const forget = async () => {
    setAsking(null);
    try {
      await conversation.delete();
      await listSessions();
      go(null);
    } catch (error) {
      fail(error);
    }
  };
  const closeDrawer = () => {
    setDrawer(false);
    document.querySelector(".drawer-button").focus();
  };
  const running = conversation.open.at(0)?.run;

  return html`
    <div class="chat">
      <${Sidebar}
        sessions=${sessions.items}
        current=${conversation.key}
        open=${go}
        more=${sessions.nextCursor && (() => moreSessions().catch(fail))}
        shown=${drawer}
        close=${closeDrawer}
      />
      ${drawer && html`<div class="backdrop" onClick=${closeDrawer}></div>`}
      <main class="talk" id="main" tabindex="-1">
        <${Head}
          conversation=${conversation}
          who=${who}
          openDrawer=${() => setDrawer(true)}
          drawer=${drawer}
          remove=${mayWrite && conversation.turns.length > 0 && (() => setAsking("delete"))}
        />
        <${Scroll} conversation=${conversation}>
          ${conversation.turns.length === 0 && html`<${Empty} conversation=${conversation} graphs=${graphs} graphId=${graphId} />`}
          ${conversation.turns.map(
            (turn, index) => html`
              <${Turn} key=${turn.runId ?? index} turn=${turn} busy=${Boolean(running)} actions=${actions} />
            `,
          )}
        <//>
        <div class="foot">
          <p class="busy" role="status">${running && html`<${Busy} run=${running} lost=${conversation.lost} />`}</p>
          ${problem && html`<p class="notice notice-bad foot-problem" role="alert">${problem}</p>`}
          ${mayWrite
            ? html`
                <${Composer}
                  conversation=${conversation.key}
                  graphs=${graphs}
                  graphId=${graphId}
                  chooseGraph=${setGraphId}
                  busy=${Boolean(running)}
                  stopping=${Boolean(running?.stopping)}
                  send=${send}
                  stop=${() => conversation.stop().catch(fail)}
                />
              `
            : html`<p class="notice foot-problem">Your API key may read conversations, but not write.</p>`}
        </div>
        <p class="visually-hidden" role="status">${spoken}</p>
      </main>
      ${asking === "delete" && html`<${ConfirmDelete} yes=${forget} no=${() => setAsking(null)} />`}
    </div>
  `;
}

function Head({ conversation, openDrawer, drawer, remove }) {
  const title = conversation.title ?? (conversation.turns.length ? conversation.key : "New conversation");
  useEffect(() => {
    document.title = `${title} – Runtally`;
  }, [title]);
  return html`
    <header class="talk-head">
      <button
        type="button"
        class="button button-plain drawer-button"
        aria-expanded=${drawer ? "true" : "false"}
        aria-controls="conversations"
        onClick=${openDrawer}
      >
        <span aria-hidden="true">☰</span><span class="visually-hidden">Conversations</span>
      </button>
      <h1>${title}</h1>
      ${conversation.costUsd !== null &&
      html`<p class="cost" title="$${conversation.costUsd}">Cost <strong>${dollars(conversation.costUsd)}</strong></p>`}
      ${remove && html`<button type="button" class="button button-plain button-small" onClick=${remove}>Delete</button>`}
    </header>
  `;
}

function Scroll({ conversation, children }) {
  const place = useRef(null);
  const stuck = useRef(true);
  const [below, setBelow] = useState(false);
  const toTheEnd = () => {
    place.current.scrollTop = place.current.scrollHeight;
  };
  useLayoutEffect(() => {
    stuck.current = true;
  }, [conversation, conversation.turns.length]);
  useLayoutEffect(() => {
    if (stuck.current) toTheEnd();
  });
  const onScroll = () => {
    const { scrollHeight, scrollTop, clientHeight } = place.current;
    stuck.current = scrollHeight - scrollTop - clientHeight < NEAR_THE_END_PX;
    setBelow(!stuck.current);
  };
  return html`
    <div class="scroll-frame">
      <section class="scroll" ref=${place} onScroll=${onScroll} tabindex="0" aria-label="Conversation">
        <div class="column">${children}</div>
      </section>
      ${below &&
      html`<button type="button" class="button button-small to-the-end" onClick=${toTheEnd}>Go to the end ↓</button>`}
    </div>
  `;
}

function Empty({ conversation, graphs, graphId }) {
  if (conversation.loading) return html`<p class="waiting" role="status">Loading…</p>`;
  if (conversation.problem) return html`<p class="notice notice-bad" role="alert">${conversation.problem}</p>`;
  if (graphs?.length === 0) return html`<p class="notice notice-warn">This server has no graphs to talk to.</p>`;
  const graph = graphs?.find(({ id }) => id === graphId);
  if (!graph) return null;
  const uses = [...graph.tools, ...graph.nativeTools];
  return html`
    <div class="empty">
      <h2>${graph.id}</h2>
      <p>${graph.description}</p>
      ${uses.length > 0 &&
      html`<p class="hint">May use ${uses.map((tool) => html`<code class="scope">${tool}</code> `)}</p>`}
    </div>
  `;
}

function Busy({ run, lost }) {
  const step = run.inStep ? run.step + 1 : run.step;
  const steps = run.stepBudget ? `Step ${Math.min(step, run.stepBudget)} of ${run.stepBudget}` : `Step ${step}`;
  return html`
    <span class="pulse" aria-hidden="true"></span>
    <span>${lost ? "The connection is lost. Trying again…" : busyWith(run)}</span>
    ${run.started && !lost && html`<span class="muted" aria-hidden="true">${steps}</span>`}
  `;
}

function ConfirmDelete({ yes, no }) {
  const dialog = useRef(null);
  useEffect(() => dialog.current.showModal(), []);
  return html`
    <dialog ref=${dialog} class="card" onClose=${no} aria-labelledby="delete-title">
      <h2 id="delete-title">Delete this conversation?</h2>
      <p>What was said in it is removed for good. Its receipts stay.</p>
      <div class="row">
        <button type="button" class="button button-bad" onClick=${yes}>Delete</button>
        <button type="button" class="button" onClick=${no}>Keep it</button>
      </div>
    </dialog>
  `;
}

function plain(markdown) {
  const start = markdown.slice(0, SPOKEN_CHARS);
  return rendered(start)?.textContent ?? start;
}

function keyOfUrl() {
  return new URLSearchParams(location.search).get(PARAMETER);
}

startPage({ name: "chat", Page: ChatPage });
