// What can be done with an answer.

/** @import { Actions, Rating, Turn } from "../conversation.js" */
/** @import { Alternatives } from "./branches.js" */

import { html, useState } from "../../html.js";
import { t } from "../../languages.js";
import { copied } from "../../parts/clipboard.js";
import { dollars } from "../cost.js";
import { Details } from "./details.js";
import { NoteForm, Thumbs } from "./feedback.js";
import { Icon } from "./icon.js";

const SHOWN_MS = 2000;

/**
 * The end of an answer: buttons, and what they open.
 * @param {{turn: Turn, busy: boolean, alternatives: Alternatives | null, actions: Actions}} props
 */
export function AnswerEnd({ turn, busy, alternatives, actions }) {
  const [opened, setOpened] = useState(/** @type {"details" | "note" | null} */ (null));
  const { regenerate, fork, giveFeedback } = actions;
  const rate = async (/** @type {Rating} */ rating) => {
    if (await giveFeedback?.(turn, rating)) setOpened("note");
  };
  const close = () => setOpened(null);
  const isOfRun = turn.runId !== "";
  return html`
    <footer class="turn-end">
      <div class="turn-actions">
        <${BranchPicker} alternatives=${alternatives} choose=${busy ? null : actions.chooseBranch} />
        ${turn.run.answer && html`<${CopyAnswer} text=${turn.run.answer} />`}
        ${
          regenerate &&
          isOfRun &&
          html`<${Button} icon="again" name=${t("answer-again")} disabled=${busy} onClick=${() => regenerate(turn)} />`
        }
        ${giveFeedback && isOfRun && html`<${Thumbs} turn=${turn} choose=${rate} />`}
        ${
          isOfRun &&
          html`
            <${Button}
              icon="details"
              name=${t("details")}
              expanded=${opened === "details"}
              onClick=${() => setOpened(opened === "details" ? null : "details")}
            />
          `
        }
        ${fork && isOfRun && html`<${Button} icon="fork" name=${t("fork-from-here")} onClick=${() => fork(turn)} />`}
        <span class="turn-about">
          ${turn.graphId && html`<span title=${turn.graphId}>${actions.nameOfAgent(turn.graphId)}</span>`}
          ${turn.costUsd !== null && html`<span class="turn-cost">${dollars(turn.costUsd)}</span>`}
        </span>
      </div>
      ${opened === "details" && html`<${Details} turn=${turn} showsReceipts=${actions.showsReceipts} />`}
      ${opened === "note" && giveFeedback && html`<${NoteForm} turn=${turn} give=${giveFeedback} close=${close} />`}
    </footer>
  `;
}

/** @param {{alternatives: Alternatives | null, choose: Actions["chooseBranch"]}} props */
function BranchPicker({ alternatives, choose }) {
  if (alternatives === null) return null;
  const { position, count, previous, next } = alternatives;
  const to = (/** @type {string | null} */ branch, /** @type {string} */ name, /** @type {string} */ sign) => html`
    <button
      type="button"
      class="button button-plain button-small"
      aria-label=${name}
      disabled=${branch === null || choose === null}
      onClick=${() => branch !== null && choose?.(branch)}
    >
      ${sign}
    </button>
  `;
  return html`
    <span class="branch-picker" role="group" aria-label=${t("versions")}>
      ${to(previous, t("previous-version"), "‹")}
      <span>${position}/${count}</span>
      ${to(next, t("next-version"), "›")}
    </span>
  `;
}

/** @param {{text: string}} props */
function CopyAnswer({ text }) {
  const [label, setLabel] = useState("");
  const copy = async () => {
    setLabel(t((await copied(text)) ? "copied" : "not-copied"));
    setTimeout(() => setLabel(""), SHOWN_MS);
  };
  return html`<${Button} icon="copy" name=${t("copy-answer")} label=${label} onClick=${copy} />`;
}

/**
 * @param {object} props
 * @param {Parameters<typeof Icon>[0]["name"]} props.icon
 * @param {string} props.name
 * @param {string} [props.label]
 * @param {boolean} [props.disabled]
 * @param {boolean} [props.expanded]
 * @param {() => void} props.onClick
 */
export function Button({ icon, name, label, disabled, expanded, onClick }) {
  return html`
    <button
      type="button"
      class="button button-plain button-small"
      aria-label=${label || name}
      title=${name}
      disabled=${disabled}
      aria-expanded=${expanded === undefined ? undefined : String(expanded)}
      onClick=${onClick}
    >
      <${Icon} name=${icon} />${label}
    </button>
  `;
}
