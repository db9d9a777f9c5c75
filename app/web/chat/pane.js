// The shown conversation: its turns, what is going on, and the field for the next message.

/** @import { Html } from "../html.js" */
/** @import { Attachments } from "./composer/attachments.js" */
/** @import { Choices } from "./composer/choices.js" */
/** @import { Actions, Conversation } from "./conversation.js" */
/** @import { Graphs } from "./hooks.js" */

import { html, useEffect, useState } from "../html.js";
import { t } from "../languages.js";
import { FirstScreen } from "./agents/first_screen.js";
import { alternativesAfter } from "./answers/branches.js";
import { useDrop } from "./composer/attachments.js";
import { Composer } from "./composer/composer.js";
import { useDraft } from "./composer/drafts.js";
import { Busy, ConfirmDelete, Scroll } from "./layout.js";
import { Turn } from "./transcript.js";

/** So many are drawn at once, and earlier ones on request: each change draws all of them anew. */
const TURNS_AT_ONCE = 50;

/**
 * @param {object} props
 * @param {Conversation} props.conversation
 * @param {Graphs} props.graphs
 * @param {Choices | null} props.choices null if there are none to make
 * @param {Attachments} props.attachments
 * @param {(remove: (() => void) | null) => Html} props.head draws the header; `remove` asks before it deletes
 * @param {string | null} props.draftName under which the draft is kept; null keeps none
 * @param {(() => void) | null} props.listKeys shows the keys of the page
 * @param {Actions} props.actions
 * @param {string} props.problem
 * @param {string} props.announcement
 */
export function ConversationPane(props) {
  const { conversation, graphs, choices, attachments, head, draftName, listKeys, actions, problem, announcement } =
    props;
  const [isConfirming, setConfirming] = useState(false);
  const draft = useDraft(conversation.key, draftName);
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
      ${head(actions.remove && turns.length > 0 ? () => setConfirming(true) : null)}
      <${Scroll} conversation=${conversation}>
        ${
          turns.length === 0 &&
          html`<${FirstScreen} conversation=${conversation} ...${graphs} suggest=${actions.send && suggest} />`
        }
        <${Turns} key=${conversation.key} conversation=${conversation} busy=${Boolean(running)} actions=${actions} />
      <//>
      <div class="foot">
        <p class="busy" role="status">${running && html`<${Busy} run=${running} since=${since} lost=${conversation.connectionLost} />`}</p>
        ${problem && html`<p class="notice notice-bad foot-problem" role="alert">${problem}</p>`}
        ${
          actions.send
            ? html`<${Composer} ...${{ conversation, graphs, choices, draft, attachments, listKeys, actions, running }} />`
            : html`<p class="notice foot-problem">${t("read-only")}</p>`
        }
      </div>
      <p class="visually-hidden" role="status">${running ? "" : announcement}</p>
      ${isConfirming && html`<${ConfirmDelete} yes=${confirmDelete} no=${() => setConfirming(false)} />`}
    </main>
  `;
}

/** @param {{conversation: Conversation, busy: boolean, actions: Actions}} props */
function Turns({ conversation: { turns, branches }, busy, actions }) {
  const [most, setMost] = useState(TURNS_AT_ONCE);
  const first = Math.max(0, turns.length - most);
  useEffect(() => {
    // Paper has no button: what is printed is whole. It is drawn before the browser goes on.
    const showAll = () => setMost(Number.POSITIVE_INFINITY);
    addEventListener("beforeprint", showAll);
    return () => removeEventListener("beforeprint", showAll);
  }, []);
  const showEarlier = (/** @type {MouseEvent & {currentTarget: HTMLElement}} */ { currentTarget }) => {
    const place = currentTarget.closest(".scroll");
    const below = place ? place.scrollHeight - place.scrollTop : 0;
    setMost(most + TURNS_AT_ONCE);
    // What was in view stays there.
    requestAnimationFrame(() => place?.scrollTo(0, place.scrollHeight - below));
  };
  return html`
    ${
      first > 0 &&
      html`<button type="button" class="button button-small earlier" onClick=${showEarlier}>${t("show-earlier-messages")}</button>`
    }
    ${turns.slice(first).map(
      (turn, index) => html`
        <${Turn}
          key=${turn.runId || first + index}
          turn=${turn}
          busy=${busy}
          alternatives=${alternativesAfter(branches, turns[first + index - 1]?.runId || null)}
          actions=${actions}
        />
      `,
    )}
  `;
}
