// The chat page.

/** @import { Actions, Attached, Conversation, Turn as ConversationTurn } from "./chat/conversation.js" */
/** @import { Attachments } from "./chat/composer/attachments.js" */
/** @import { Choices } from "./chat/composer/choices.js" */
/** @import { Graphs, Problem } from "./chat/hooks.js" */
/** @import { Drawer } from "./chat/layout.js" */
/** @import { Listed, Sessions } from "./conversations/sessions.js" */
/** @import { Session } from "./shell.js" */

import { nameOf } from "./chat/agents/describing.js";
import { FirstScreen, Skeleton } from "./chat/agents/first_screen.js";
import { alternativesAfter } from "./chat/answers/branches.js";
import { useAttachments, useDrop } from "./chat/composer/attachments.js";
import { useRunChoices } from "./chat/composer/choices.js";
import { Composer } from "./chat/composer/composer.js";
import { useDraft } from "./chat/composer/drafts.js";
import { keyOfUrl, linkTo, useConversation, useGraphs, useProblem } from "./chat/hooks.js";
import { Busy, ConfirmDelete, Head, Scroll } from "./chat/layout.js";
import { Sidebar } from "./chat/sidebar.js";
import { Turn } from "./chat/transcript.js";
import { ApiError, apiPath, remove } from "./api.js";
import { useSessions } from "./conversations/sessions.js";
import { html, useState } from "./html.js";
import { answer, decide } from "./runs/answers.js";
import { resultOf } from "./runs/evidence.js";
import { startPage } from "./shell.js";

const TITLE_MS = 5000;

/** @param {{who: Session}} props */
function ChatPage({ who }) {
  const errors = useProblem();
  const graphs = useGraphs(errors.fail);
  const choices = useRunChoices(graphs.graphId, !isOwnOnly(who));
  const sessions = useSessions(errors.fail);
  const drawer = useDrawer();
  const { conversation, announcement, go } = useConversation({
    onRunEnd: ({ turns }) => {
      sessions.list();
      // A model may find a title once the first question is answered.
      if (turns.length === 1) setTimeout(sessions.list, TITLE_MS);
    },
    onLoad: ({ turns }) => {
      const last = turns.findLast((turn) => turn.graphId);
      if (last) graphs.chooseGraph(last.graphId);
    },
  });
  const attachments = useAttachments(conversation?.key ?? "");
  if (conversation === null) return html`<div class="column"><${Skeleton} /></div>`;

  const open = (/** @type {string | null} */ key) => {
    errors.clear();
    drawer.hide();
    go(key);
  };
  const listed = sessions.groups.flatMap(({ items }) => items).find(({ stateKey }) => stateKey === conversation.key);
  const title = listed?.title ?? conversation.title;
  const actions = actionsOn(conversation, { who, graphs, choices, attachments, sessions, errors, open });
  return html`
    <div class="chat">
      <${Sidebar}
        sessions=${sessions}
        current=${conversation.key}
        open=${open}
        ...${changesOf(conversation, { who, sessions, errors, open })}
        shown=${drawer.shown}
        close=${drawer.close}
      />
      ${drawer.shown && html`<div class="backdrop" onClick=${drawer.close}></div>`}
      <${ConversationPane}
        ...${{ conversation, title, graphs, choices, attachments, drawer, actions, announcement }}
        problem=${errors.problem}
      />
    </div>
  `;
}

/**
 * @param {object} props
 * @param {Conversation} props.conversation
 * @param {string | null} props.title
 * @param {Graphs} props.graphs
 * @param {Choices} props.choices
 * @param {Attachments} props.attachments
 * @param {Drawer} props.drawer
 * @param {Actions} props.actions
 * @param {string} props.problem
 * @param {string} props.announcement
 */
function ConversationPane({
  conversation,
  title,
  graphs,
  choices,
  attachments,
  drawer,
  actions,
  problem,
  announcement,
}) {
  const [isConfirming, setConfirming] = useState(false);
  const draft = useDraft(conversation.key, keyOfUrl() ?? "new");
  const { turns } = conversation;
  const { run: running, since } = conversation.open.at(0) ?? {};
  const suggest = (/** @type {string} */ message) => {
    draft.write(message);
    document.getElementById("message")?.focus();
  };
  const { isDropping, ...dropping } = useDrop(attachments.add);
  const confirmDelete = () => {
    setConfirming(false);
    actions.remove?.();
  };
  return html`
    <main
      class="conversation"
      id="main"
      tabindex="-1"
      data-dropping=${isDropping}
      onDragOver=${actions.send && dropping.over}
      onDragLeave=${dropping.leave}
      onDrop=${actions.send && dropping.drop}
    >
      <${Head}
        conversation=${conversation}
        name=${title}
        drawer=${drawer}
        remove=${actions.remove && turns.length > 0 && (() => setConfirming(true))}
        keepsFiles=${turns.some(({ graphId }) => graphs.graphs?.find(({ id }) => id === graphId)?.keepsFiles)}
      />
      <${Scroll} conversation=${conversation}>
        ${
          turns.length === 0 &&
          html`<${FirstScreen} conversation=${conversation} ...${graphs} suggest=${actions.send && suggest} />`
        }
        ${turns.map(
          (turn, index) => html`
            <${Turn}
              key=${turn.runId || index}
              turn=${turn}
              busy=${Boolean(running)}
              alternatives=${alternativesAfter(conversation.branches, turns[index - 1]?.runId || null)}
              actions=${actions}
            />
          `,
        )}
      <//>
      <div class="foot">
        <p class="busy" role="status">${running && html`<${Busy} run=${running} since=${since} lost=${conversation.connectionLost} />`}</p>
        ${problem && html`<p class="notice notice-bad foot-problem" role="alert">${problem}</p>`}
        ${
          actions.send
            ? html`<${Composer} conversation=${conversation.key} ...${{ graphs, choices, draft, attachments, actions, running }} />`
            : html`<p class="notice foot-problem">You may read conversations, but not write.</p>`
        }
      </div>
      <p class="visually-hidden" role="status">${announcement}</p>
      ${isConfirming && html`<${ConfirmDelete} yes=${confirmDelete} no=${() => setConfirming(false)} />`}
    </main>
  `;
}

/** Whether only what is open to end users is open to them. @param {Session} who */
function isOwnOnly(who) {
  return who.person?.role === "user";
}

/**
 * @param {Conversation} conversation
 * @param {object} page
 * @param {Session} page.who
 * @param {Graphs} page.graphs
 * @param {Choices} page.choices
 * @param {Attachments} page.attachments
 * @param {Sessions} page.sessions
 * @param {Problem} page.errors
 * @param {(key: string | null) => void} page.open
 * @returns {Actions}
 */
function actionsOn(conversation, { who, graphs, choices, attachments, sessions, errors, open }) {
  /** @type {Actions["nameOfAgent"]} */
  const nameOfAgent = (graphId) => {
    const graph = graphs.graphs?.find(({ id }) => id === graphId);
    return graph ? nameOf(graph, graphs.graphs ?? []) : graphId;
  };
  /** @type {Actions["loadEvents"]} */
  const loadEvents = (turn) => conversation.loadEvents(turn);
  /** @type {Actions["decide"]} */
  const decideOn = who.may("runs:approve")
    ? (turn, { requestId }, decision) => decide(turn.run.runId, requestId, decision)
    : null;
  /** @type {Actions["findResult"]} */
  const findResult = who.may("runs:audit") ? (turn, toolCallId) => resultOf(turn.runId, toolCallId) : null;
  if (!who.may("runs:write"))
    return {
      nameOfAgent,
      loadEvents,
      findResult,
      send: null,
      retry: null,
      stop: null,
      decide: decideOn,
      answer: null,
      fork: null,
      regenerate: null,
      edit: null,
      chooseBranch: null,
      giveFeedback: null,
      showsReceipts: who.may("receipts:read"),
      forecasts: false,
      remove: null,
    };
  const send = async (/** @type {string} */ text, /** @type {Attached[]} */ attached) => {
    errors.clear();
    const isFirst = conversation.turns.length === 0;
    try {
      await conversation.send({ text, attached }, graphs.graphId ?? "", choices.chosen);
    } catch (error) {
      if (!(error instanceof ApiError && attachments.refuse(error.errors))) errors.fail(error);
      return false;
    }
    graphs.rememberGraph();
    if (isFirst) history.replaceState(null, "", linkTo(conversation.key));
    sessions.list();
    return true;
  };
  const fork = async (/** @type {ConversationTurn} */ turn) => {
    const key = await conversation.fork(turn);
    sessions.list();
    open(key);
  };
  const replace = (/** @type {ConversationTurn} */ turn, /** @type {string | undefined} */ text) =>
    attempt(() => conversation.replace(turn, turn.graphId ?? graphs.graphId ?? "", text));
  const attempt = async (/** @type {() => Promise<void>} */ change) => {
    errors.clear();
    try {
      await change();
      return true;
    } catch (error) {
      errors.fail(error);
      return false;
    }
  };
  const remove = async () => {
    await conversation.delete();
    sessions.list();
    open(null);
  };
  return {
    nameOfAgent,
    loadEvents,
    findResult,
    send,
    retry: (turn) => (turn.attachments?.length ? replace(turn, undefined) : send(turn.question ?? "", [])),
    stop: () => conversation.stop().catch(errors.fail),
    decide: decideOn,
    answer: (turn, requestId, answers) => answer(turn.run.runId, requestId, answers),
    fork: isOwnOnly(who) ? null : (turn) => fork(turn).catch(errors.fail),
    regenerate: (turn) => void replace(turn, undefined),
    edit: async (turn, text) => void (await replace(turn, text)),
    chooseBranch: (branchId) => void attempt(() => conversation.chooseBranch(branchId)),
    giveFeedback: (turn, rating, note) => attempt(() => conversation.giveFeedback(turn, rating, note)),
    showsReceipts: who.may("receipts:read"),
    forecasts: !isOwnOnly(who),
    remove: () => remove().catch(errors.fail),
  };
}

/**
 * What may be done with the conversations of the list.
 * @param {Conversation} shown
 * @param {{who: Session, sessions: Sessions, errors: Problem, open: (key: string | null) => void}} page
 */
function changesOf(shown, { who, sessions, errors, open }) {
  const shares = who.may("runs:share");
  if (!who.may("runs:write")) return { rename: null, remove: null, shares };
  const rename = async (/** @type {Listed} */ { stateKey }, /** @type {string} */ title) => {
    await sessions.change(stateKey, { title });
    if (stateKey === shown.key) shown.title = title;
    sessions.list();
  };
  const removeOne = async (/** @type {Listed} */ { stateKey }) => {
    await remove(apiPath("/v1/sessions/{stateKey}", { stateKey }));
    sessions.list();
    if (stateKey === shown.key) open(null);
  };
  return {
    rename,
    remove: (/** @type {Listed} */ session) => removeOne(session).catch(errors.fail),
    shares,
  };
}

/**
 * On narrow screens the list of conversations covers the page while it is shown.
 * @returns {Drawer}
 */
function useDrawer() {
  const [shown, setShown] = useState(false);
  const close = () => {
    setShown(false);
    /** @type {HTMLElement | null} */ (document.querySelector(".drawer-button"))?.focus();
  };
  return { shown, open: () => setShown(true), hide: () => setShown(false), close };
}

startPage({ name: "chat", Page: ChatPage });
