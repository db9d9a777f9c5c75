// The chat page.

import { Composer } from "./chat/composer.js";
import { Busy, ConfirmDelete, Empty, Head, Scroll } from "./chat/frame.js";
import { Sidebar } from "./chat/sidebar.js";
import { addressOf, useConversation, useGraphs, useProblem, useSessions } from "./chat/state.js";
import { Turn } from "./chat/transcript.js";
import { html, useState } from "./html.js";
import { startPage } from "./shell.js";

function ChatPage({ who }) {
  const trouble = useProblem();
  const graphs = useGraphs(trouble.fail);
  const sessions = useSessions(trouble.fail);
  const drawer = useDrawer();
  const { conversation, spoken, go } = useConversation({
    ended: sessions.list,
    shown: ({ turns }) => {
      const last = turns.findLast((turn) => turn.graphId);
      if (last) graphs.chooseGraph(last.graphId);
    },
  });
  if (conversation === null) return html`<p class="waiting" role="status">Loading…</p>`;

  const open = (key) => {
    trouble.forgive();
    drawer.hide();
    go(key);
  };
  const actions = actionsOn(conversation, { who, graphs, sessions, trouble, open });
  return html`
    <div class="chat">
      <${Sidebar}
        sessions=${sessions.sessions}
        more=${sessions.more}
        current=${conversation.key}
        open=${open}
        shown=${drawer.shown}
        close=${drawer.close}
      />
      ${drawer.shown && html`<div class="backdrop" onClick=${drawer.close}></div>`}
      <${Talk} ...${{ conversation, graphs, drawer, actions, spoken }} problem=${trouble.problem} />
    </div>
  `;
}

function Talk({ conversation, graphs, drawer, actions, problem, spoken }) {
  const [asking, setAsking] = useState(false);
  const { turns } = conversation;
  const running = conversation.open.at(0)?.run;
  const forget = () => {
    setAsking(false);
    actions.remove();
  };
  return html`
    <main class="talk" id="main" tabindex="-1">
      <${Head}
        conversation=${conversation}
        drawer=${drawer}
        remove=${actions.remove && turns.length > 0 && (() => setAsking(true))}
      />
      <${Scroll} conversation=${conversation}>
        ${turns.length === 0 && html`<${Empty} conversation=${conversation} ...${graphs} />`}
        ${turns.map(
          (turn, index) => html`
            <${Turn} key=${turn.runId ?? index} turn=${turn} busy=${Boolean(running)} actions=${actions} />
          `,
        )}
      <//>
      <div class="foot">
        <p class="busy" role="status">${running && html`<${Busy} run=${running} lost=${conversation.lost} />`}</p>
        ${problem && html`<p class="notice notice-bad foot-problem" role="alert">${problem}</p>`}
        ${actions.send
          ? html`<${Composer} conversation=${conversation.key} graphs=${graphs} actions=${actions} running=${running} />`
          : html`<p class="notice foot-problem">Your API key may read conversations, but not write.</p>`}
      </div>
      <p class="visually-hidden" role="status">${spoken}</p>
      ${asking && html`<${ConfirmDelete} yes=${forget} no=${() => setAsking(false)} />`}
    </main>
  `;
}

/** What can be done with a conversation; null stands for what the key may not. */
function actionsOn(conversation, { who, graphs, sessions, trouble, open }) {
  const unfold = (turn) => conversation.unfold(turn);
  const decide = who.may("runs:approve")
    ? (turn, tool, decision) => conversation.decide(turn.run, tool, decision)
    : null;
  if (!who.may("runs:write")) return { unfold, send: null, again: null, stop: null, decide, fork: null, remove: null };
  const send = async (text) => {
    trouble.forgive();
    const begins = conversation.turns.length === 0;
    try {
      await conversation.send(text, graphs.graphId);
    } catch (error) {
      trouble.fail(error);
      return false;
    }
    graphs.keepGraph();
    if (begins) history.replaceState(null, "", addressOf(conversation.key));
    sessions.list();
    return true;
  };
  const fork = async (turn) => {
    const key = await conversation.fork(turn);
    sessions.list();
    open(key);
  };
  const remove = async () => {
    await conversation.delete();
    sessions.list();
    open(null);
  };
  return {
    unfold,
    send,
    again: (turn) => send(turn.question),
    stop: () => conversation.stop().catch(trouble.fail),
    decide,
    fork: (turn) => fork(turn).catch(trouble.fail),
    remove: () => remove().catch(trouble.fail),
  };
}

/** On a narrow screen the conversations lie over the page, while they are shown. */
function useDrawer() {
  const [shown, setShown] = useState(false);
  const close = () => {
    setShown(false);
    document.querySelector(".drawer-button").focus();
  };
  return { shown, open: () => setShown(true), hide: () => setShown(false), close };
}

startPage({ name: "chat", Page: ChatPage });
