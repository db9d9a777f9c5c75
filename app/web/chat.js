// The chat page.

/** @import { Conversation } from "./chat/conversation.js" */
/** @import { Problem } from "./chat/hooks.js" */
/** @import { Drawer } from "./chat/layout.js" */
/** @import { Listed, Sessions } from "./conversations/sessions.js" */
/** @import { Session } from "./shell.js" */

import { actionsOn, isOwnOnly } from "./chat/actions.js";
import { Skeleton } from "./chat/agents/first_screen.js";
import { useAttachments } from "./chat/composer/attachments.js";
import { useRunChoices } from "./chat/composer/choices.js";
import { keyOfUrl, linkTo, useConversation, useGraphs, useProblem } from "./chat/hooks.js";
import { KeyList, useKeys } from "./chat/keys.js";
import { Head } from "./chat/layout.js";
import { tellEnd } from "./chat/notices.js";
import { ConversationPane } from "./chat/pane.js";
import { Sidebar } from "./chat/sidebar.js";
import { apiPath, remove } from "./api.js";
import { useSessions } from "./conversations/sessions.js";
import { html, useState } from "./html.js";
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
    onRunEnd: (shown, turn) => {
      tellEnd(shown, turn);
      sessions.list();
      // A model may find a title once the first question is answered.
      if (shown.turns.length === 1) setTimeout(sessions.list, TITLE_MS);
    },
    onLoad: ({ turns }) => {
      const last = turns.findLast((turn) => turn.graphId);
      if (last) graphs.chooseGraph(last.graphId);
    },
  });
  const draftName = keyOfUrl() ?? "new";
  const attachments = useAttachments(conversation?.key ?? "", draftName);
  const open = (/** @type {string | null} */ key) => {
    errors.clear();
    drawer.hide();
    go(key);
  };
  const keys = useKeys(() => open(null));
  if (conversation === null) return html`<div class="column"><${Skeleton} /></div>`;

  const listed = sessions.groups.flatMap(({ items }) => items).find(({ stateKey }) => stateKey === conversation.key);
  const title = listed?.title ?? conversation.title;
  const began = (/** @type {string} */ key) => history.replaceState(null, "", linkTo(key));
  const page = { who, graphs, choices, attachments, errors, open, began, onChange: sessions.list };
  const actions = actionsOn(conversation, page);
  const head = (/** @type {(() => void) | null} */ remove) =>
    html`
      <${Head}
        conversation=${conversation}
        name=${title}
        drawer=${drawer}
        remove=${remove}
        keepsFiles=${conversation.turns.some(({ graphId }) => graphs.graphs?.find(({ id }) => id === graphId)?.keepsFiles)}
      />
    `;
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
        ...${{ conversation, graphs, choices, attachments, head, draftName, actions, announcement }}
        listKeys=${() => keys.list(true)}
        problem=${errors.problem}
      />
      ${keys.isListed && html`<${KeyList} close=${() => keys.list(false)} />`}
    </div>
  `;
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
