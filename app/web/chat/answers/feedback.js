// Feedback on an answer: a thumb, and a note.

/** @import { GiveFeedback, Rating, Turn } from "../conversation.js" */

import { html, useState, withValue } from "../../html.js";
import { t } from "../../languages.js";
import { Icon } from "./icon.js";

const MAX_NOTE = 4000;

/** @param {{turn: Turn, choose: (rating: Rating) => void}} props */
export function Thumbs({ turn, choose }) {
  const thumb = (/** @type {Rating} */ rating, /** @type {string} */ name) => html`
    <button
      type="button"
      class="button button-plain button-small"
      aria-label=${name}
      title=${name}
      aria-pressed=${String(turn.feedback?.rating === rating)}
      onClick=${() => choose(rating)}
    >
      <${Icon} name=${rating} />
    </button>
  `;
  return html`${thumb("up", t("good-answer"))}${thumb("down", t("bad-answer"))}`;
}

/**
 * The form for the note on an answer that was rated.
 * @param {{turn: Turn, give: GiveFeedback, close: () => void}} props
 */
export function NoteForm({ turn, give, close }) {
  const { rating, note: before } = /** @type {Schemas["FeedbackResponse"]} */ (turn.feedback);
  const [note, setNote] = useState(before ?? "");
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (await give(turn, rating, note.trim() || undefined)) close();
  };
  return html`
    <form class="feedback-note" onSubmit=${submit}>
      <label class="field">
        <span>${t(rating === "up" ? "what-was-good" : "what-was-wrong")} <span class="hint">${t("note-optional")}</span></span>
        <textarea maxlength=${MAX_NOTE} value=${note} onInput=${withValue(setNote)} />
      </label>
      <div class="row">
        <button type="submit" class="button button-primary button-small">${t("save-note")}</button>
        <button type="button" class="button button-small" onClick=${close}>${t("close")}</button>
      </div>
    </form>
  `;
}
