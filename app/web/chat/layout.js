// The frame of a conversation: header, scrolling part, status line and dialogs.

/** @import { ComponentChildren } from "../vendor/preact.js" */
/** @import { Conversation } from "./conversation.js" */
/** @import { RunState } from "../runs/run_state.js" */

import { html, useEffect, useLayoutEffect, useRef, useState } from "../html.js";
import { t, tWithElements } from "../languages.js";
import { formatExact, parseDollars } from "../money.js";
import { dollars } from "./cost.js";
import { FilesButton } from "./files/panel.js";
import { activityOf } from "./messages.js";
import { useWaitingNotices } from "./notices.js";

const NEAR_THE_END_PX = 80;

/** @typedef {{shown: boolean, open: () => void, hide: () => void, close: () => void}} Drawer */

/**
 * Title and cost. `remove` is null if the conversation cannot be deleted; `drawer` opens the list; `keepsFiles`: it
 * has files from turn to turn.
 * @param {{conversation: Conversation, name: string | null, drawer: Drawer, remove: (() => void) | null, keepsFiles: boolean}} props
 */
export function Head({ conversation, name, drawer, remove, keepsFiles }) {
  const title = name ?? (conversation.turns.length ? conversation.key : t("new-conversation"));
  useWaitingNotices(conversation, title);
  return html`
    <header class="conversation-head">
      <button
        type="button"
        class="button button-plain drawer-button"
        aria-expanded=${drawer.shown ? "true" : "false"}
        aria-controls="conversations"
        onClick=${drawer.open}
      >
        <span aria-hidden="true">☰</span><span class="visually-hidden">${t("conversations")}</span>
      </button>
      <h1 dir="auto">${title}</h1>
      ${
        conversation.costUsd !== null &&
        html`<p class="cost" title=${formatExact(parseDollars(conversation.costUsd))}>
          ${tWithElements("cost-label", { amount: html`<strong>${dollars(conversation.costUsd)}</strong>` })}
        </p>`
      }
      ${keepsFiles && html`<${FilesButton} key=${conversation.key} stateKey=${conversation.key} />`}
      ${remove && html`<button type="button" class="button button-plain button-small" onClick=${remove}>${t("delete")}</button>`}
    </header>
  `;
}

/**
 * Keeps the end visible while text arrives, unless the user has scrolled up.
 * @param {{conversation: Conversation, children: ComponentChildren}} props
 */
export function Scroll({ conversation, children }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const stuck = useRef(true);
  const [below, setBelow] = useState(false);
  const toTheEnd = () => {
    if (place.current !== null) place.current.scrollTop = place.current.scrollHeight;
  };
  useLayoutEffect(() => {
    stuck.current = true;
  }, [conversation, conversation.turns.length]);
  useLayoutEffect(() => {
    if (stuck.current) toTheEnd();
  });
  useEffect(() => {
    // Formulas, and the rest of a long answer, are drawn later.
    const observer = new ResizeObserver(() => stuck.current && toTheEnd());
    const column = place.current?.firstElementChild;
    if (column) observer.observe(column);
    return () => observer.disconnect();
  }, []);
  const onScroll = () => {
    if (place.current === null) return;
    const { scrollHeight, scrollTop, clientHeight } = place.current;
    stuck.current = scrollHeight - scrollTop - clientHeight < NEAR_THE_END_PX;
    setBelow(!stuck.current);
  };
  return html`
    <div class="scroll-frame">
      <section class="scroll" ref=${place} onScroll=${onScroll} tabindex="0" aria-label=${t("conversation")}>
        <div class="column">${children}</div>
      </section>
      ${
        below &&
        html`<button type="button" class="button button-small to-the-end" onClick=${toTheEnd}>${t("to-the-end")}</button>`
      }
    </div>
  `;
}

/**
 * The current activity and step of the run, and how long it takes; `since` is undefined if this tab has not started it.
 * @param {{run: RunState, since: number | undefined, lost: boolean}} props
 */
export function Busy({ run, since, lost }) {
  const step = run.inStep ? run.step + 1 : run.step;
  const seconds = useSeconds(since);
  const steps = run.stepBudget
    ? t("step-of", { step: Math.min(step, run.stepBudget), budget: run.stepBudget })
    : t("step", { step });
  return html`
    <span class="pulse" aria-hidden="true"></span>
    <span>${lost ? t("connection-lost") : activityOf(run)}</span>
    ${run.started && !lost && html`<span class="muted" aria-hidden="true">${steps}${seconds !== null && ` · ${t("seconds", { count: seconds })}`}</span>`}
  `;
}

/**
 * The whole seconds since a time of `performance.now()`; null if that is not known.
 * @param {number | undefined} since
 */
function useSeconds(since) {
  const [now, setNow] = useState(0);
  useEffect(() => {
    if (since === undefined) return undefined;
    setNow(since);
    const timer = setInterval(() => setNow(performance.now()), 1000);
    return () => clearInterval(timer);
  }, [since]);
  return since === undefined ? null : Math.max(0, Math.round((now - since) / 1000));
}

/**
 * Confirmation dialog of a deletion.
 * @param {{yes: () => void, no: () => void}} props
 */
export function ConfirmDelete({ yes, no }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => dialog.current?.showModal(), []);
  return html`
    <dialog ref=${dialog} class="card" onClose=${no} aria-labelledby="delete-title">
      <h2 id="delete-title">${t("delete-title")}</h2>
      <p>${t("delete-words")}</p>
      <div class="row">
        <button type="button" class="button button-bad" onClick=${yes}>${t("delete")}</button>
        <button type="button" class="button" onClick=${no}>${t("keep")}</button>
      </div>
    </dialog>
  `;
}
