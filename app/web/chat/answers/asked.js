// A message of the user, which can be changed and sent again.

/** @import { Actions, Turn } from "../conversation.js" */

import { html, useEffect, useRef, useState, withValue } from "../../html.js";
import { t } from "../../languages.js";
import { Plain } from "../text.js";
import { Button } from "./actions.js";

/** @param {{turn: Turn, busy: boolean, actions: Actions}} props */
export function Asked({ turn, busy, actions }) {
  const [isEditing, setEditing] = useState(false);
  const { edit } = actions;
  const question = turn.question ?? "";
  if (isEditing && edit) {
    const save = async (/** @type {string} */ text) => {
      if (text !== question) await edit(turn, text);
      setEditing(false);
    };
    return html`<${EditForm} text=${question} save=${save} close=${() => setEditing(false)} />`;
  }
  const canEdit = edit !== null && turn.runId !== "" && turn.run.done && !turn.attachments?.length;
  return html`
    <div class="user-message">
      ${question && html`<${Plain} text=${question} />`}
      <${AttachmentNames} names=${turn.attachments ?? []} />
    </div>
    ${
      canEdit &&
      html`
        <div class="question-actions">
          <${Button} icon="edit" name=${t("edit-and-send")} disabled=${busy} onClick=${() => setEditing(true)} />
        </div>
      `
    }
  `;
}

/** @param {{names: string[]}} props */
export function AttachmentNames({ names }) {
  if (names.length === 0) return null;
  return html`
    <ul class="attachment-names" aria-label=${t("attachments")}>
      ${names.map((name, index) => html`<li key=${index}><bdi>${name}</bdi></li>`)}
    </ul>
  `;
}

/** @param {{text: string, save: (text: string) => void, close: () => void}} props */
function EditForm({ text: before, save, close }) {
  const [text, setText] = useState(before);
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  useEffect(() => field.current?.focus(), []);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (text.trim()) save(text.trim());
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") close();
  };
  return html`
    <form class="edit-question" onSubmit=${submit} onKeyDown=${onKeyDown}>
      <textarea ref=${field} dir="auto" aria-label=${t("your-message")} value=${text} onInput=${withValue(setText)} />
      <div class="row">
        <button type="submit" class="button button-primary button-small" disabled=${!text.trim()}>${t("send-again")}</button>
        <button type="button" class="button button-small" onClick=${close}>${t("cancel")}</button>
      </div>
      <p class="hint">${t("edit-hint")}</p>
    </form>
  `;
}
