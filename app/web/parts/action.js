// A button that opens a dialog, which says what will happen and asks for what that needs.

/** @import { Html } from "../html.js" */
/** @import { Field, Values } from "./form.js" */

import { ApiError } from "../api.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { copied } from "./clipboard.js";
import { Fields, problemBeside, valuesOf } from "./form.js";

/** @typedef {{"Idempotency-Key": string}} Once headers by which what is sent twice takes effect once */

/**
 * @template Answer
 * @typedef {object} ActionOf
 * @property {string} label of the button
 * @property {string} [about] what the button acts on, for those who hear it without its row
 * @property {string} title of the dialog
 * @property {string | Html} [words] what it does
 * @property {string} [submit] the label of the dialog's button; by default that of the first
 * @property {readonly Field[]} [fields]
 * @property {boolean} [isDestructive]
 * @property {boolean} [isPrimary]
 * @property {(values: Values, once: Once) => Promise<Answer>} send
 * @property {(answer: Answer) => Html} [result] what is shown of the answer before the dialog is closed
 * @property {() => void} done is called when the dialog is closed after it was done
 */

/**
 * @template Answer
 * @param {ActionOf<Answer>} props
 */
export function Action(props) {
  const [isOpen, setOpen] = useState(false);
  const { label, about, isDestructive, isPrimary } = props;
  const kind = isDestructive ? "button-bad" : isPrimary ? "button-primary" : "";
  return html`
    <button type="button" class=${`button button-small ${kind}`} onClick=${() => setOpen(true)}>
      ${label}${about && html`<span class="visually-hidden"> ${about}</span>`}
    </button>
    ${isOpen && html`<${Dialog} ...${props} close=${() => setOpen(false)} />`}
  `;
}

/**
 * @template Answer
 * @param {ActionOf<Answer> & {close: () => void}} props
 */
export function Dialog({ label, title, words, submit = label, fields = [], isDestructive, send, result, done, close }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const [problem, setProblem] = useState(/** @type {ApiError | null} */ (null));
  const [busy, setBusy] = useState(false);
  const [once] = useState(() => ({ "Idempotency-Key": crypto.getRandomValues(new Uint32Array(4)).join("-") }));
  const [answer, setAnswer] = useState(/** @type {{of: Answer} | null} */ (null));
  useEffect(() => dialog.current?.showModal(), []);
  // Closed by the browser, which returns the focus to the button.
  const shut = () => dialog.current?.close();
  const closed = () => {
    close();
    if (answer !== null) done();
  };
  const act = async (/** @type {Event & {currentTarget: HTMLFormElement}} */ event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      setAnswer({ of: await send(valuesOf(event.currentTarget, fields), once) });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setProblem(error);
    }
    setBusy(false);
  };
  useEffect(() => {
    // What is wrong may be out of view.
    /** @type {HTMLElement | null | undefined} */ (dialog.current?.querySelector("[aria-invalid]"))?.focus();
    dialog.current?.querySelector(".problem")?.scrollIntoView({ block: "nearest" });
  }, [problem]);
  useEffect(() => {
    if (answer !== null && !result) shut();
  }, [answer]);

  const beside = problem && problemBeside(problem, fields);
  return html`
    <dialog ref=${dialog} aria-label=${title} onClose=${closed} onCancel=${(/** @type {Event} */ event) => busy && event.preventDefault()}>
      <h2>${title}</h2>
      ${
        answer !== null && result
          ? html`${result(answer.of)}<div class="row"><button type="button" class="button button-primary" onClick=${shut}>Done</button></div>`
          : html`
            <form onSubmit=${act}>
              ${words && html`<p>${words}</p>`}
              <${Fields} fields=${fields} problem=${problem} />
              ${beside && html`<p class="problem" role="alert">${beside}</p>`}
              <div class="row">
                <button class=${`button ${isDestructive ? "button-bad" : "button-primary"}`} disabled=${busy}>${busy ? "One moment…" : submit}</button>
                <button type="button" class="button button-plain" disabled=${busy} onClick=${shut}>Cancel</button>
              </div>
            </form>
          `
      }
    </dialog>
  `;
}

/**
 * A secret that is shown once.
 * @param {{label: string, secret: string}} props
 */
export function Secret({ label, secret }) {
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const [said, setSaid] = useState("");
  const copy = async () => {
    field.current?.select();
    setSaid((await copied(secret)) ? "Copied." : "Copy the selected text.");
  };
  return html`
    <label class="field">
      <span>${label}</span>
      <input class="mono" ref=${field} readonly value=${secret} />
    </label>
    <div class="row">
      <button type="button" class="button" onClick=${copy}>Copy</button>
      <span class="hint" role="status">${said}</span>
    </div>
    <p class="notice notice-warn">It is not shown again: keep it now.</p>
  `;
}
