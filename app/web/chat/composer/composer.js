// The message field, the choice of an agent, and the buttons to send and stop.

/** @import { RunState } from "../../runs/run_state.js" */
/** @import { Actions, Conversation } from "../conversation.js" */
/** @import { Graphs } from "../hooks.js" */
/** @import { Attachments } from "./attachments.js" */
/** @import { Choices } from "./choices.js" */
/** @import { Draft } from "./drafts.js" */

import { html, useEffect, useLayoutEffect, useRef, useState, withValue } from "../../html.js";
import { t } from "../../languages.js";
import { count, percent } from "../../parts/format.js";
import { dollars } from "../cost.js";
import { useForecast } from "../hooks.js";
import { AttachButton, AttachedFiles } from "./attachments.js";
import { AgentChoice, RunOptions } from "./choices.js";

const NEARLY_FULL = 0.8;

/** @typedef {Actions & {send: NonNullable<Actions["send"]>}} WriterActions */

/**
 * `actions.send(text, files)` resolves to whether they were sent; if not, both are restored. `running` is the current run.
 * The field gets the focus with every other conversation.
 * @typedef {object} ComposerProps
 * @property {Conversation} conversation
 * @property {Graphs} graphs
 * @property {Choices | null} choices null if there are none to make
 * @property {Draft} draft
 * @property {Attachments} attachments
 * @property {(() => void) | null} listKeys
 * @property {WriterActions} actions
 * @property {RunState | undefined} running
 */

/** @param {ComposerProps} props */
export function Composer({ conversation, graphs, choices, draft, attachments, listKeys, actions, running }) {
  const { text, write } = draft;
  const { files, ready } = attachments;
  const { graphId } = graphs;
  const graph = graphs.graphs?.find(({ id }) => id === graphId);
  const [sending, setSending] = useState(false);
  const forecast = useForecast(actions.forecasts ? graphId : null);
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));

  useEffect(() => {
    // On touch screens the keyboard would cover the page; a frame has the focus only if people are there.
    if (matchMedia("(hover: hover)").matches && (parent === window || document.hasFocus())) field.current?.focus();
  }, [conversation.key]);
  useLayoutEffect(() => {
    if (field.current === null) return;
    field.current.style.height = "auto";
    field.current.style.height = `${field.current.scrollHeight + 2}px`;
  }, [text]);

  const canSend = Boolean((text.trim() || files.length) && ready && !sending && graphId);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const message = text.trim();
    if (!canSend) return;
    setSending(true);
    write("");
    field.current?.focus();
    const parts = files.flatMap(({ part, file }) => (part ? [{ part, name: file.name }] : []));
    if (await actions.send(message, parts)) attachments.remove(files);
    else if (!field.current?.value) write(text);
    setSending(false);
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  };

  const onPaste = (/** @type {ClipboardEvent} */ event) => {
    const pasted = event.clipboardData?.files;
    if (!pasted?.length) return;
    event.preventDefault();
    attachments.add(pasted);
  };

  return html`
    <form class="composer" onSubmit=${submit}>
      <div class="composer-box">
        <${AttachedFiles} attachments=${attachments} />
        <label class="visually-hidden" for="message">${t("message")}</label>
        <textarea
          id="message"
          ref=${field}
          rows="1"
          value=${text}
          dir=${text ? "auto" : undefined}
          placeholder=${t(running ? "message-placeholder-running" : "message-placeholder")}
          aria-describedby="composer-hint"
          onInput=${withValue(write)}
          onKeyDown=${onKeyDown}
          onPaste=${onPaste}
        ></textarea>
        <div class="composer-row">
          <${AttachButton} attachments=${attachments} />
          ${choices && html`<${AgentChoice} ...${graphs} />`}
          ${choices && graph && !running && html`<${RunOptions} graph=${graph} choices=${choices} />`}
          ${conversation.context && html`<${ContextMeter} ...${conversation.context} />`}
          <span class="hint composer-hint">
            ${forecast && usual(forecast)}<span id="composer-hint">${t("composer-hint")}</span>
            ${listKeys && html` · <button type="button" class="link" onClick=${listKeys}>${t("keys")}</button>`}
          </span>
          ${
            running &&
            html`
            <button type="button" class="button" onClick=${actions.stop}>
              ${t(running.stopping ? "stop-at-once" : "stop")}
            </button>
          `
          }
          <button class="button button-primary" disabled=${!canSend}>${t("send")}</button>
        </div>
      </div>
    </form>
  `;
}

/** How much of what the model can read the conversation takes. @param {NonNullable<Conversation["context"]>} props */
function ContextMeter({ used, window }) {
  const title = t("context-title", { share: percent(used, window), used: count(used), window: count(window) });
  return html`<meter class="context" max=${window} high=${window * NEARLY_FULL} optimum="0" value=${used} title=${title} aria-label=${title} />`;
}

/** @param {Schemas["ForecastResponse"]} forecast */
function usual({ costUsd, seconds, runs }) {
  const of = (/** @type {"p50" | "p95"} */ share) => ({
    cost: dollars(costUsd[share]),
    time: t("seconds", { count: Math.ceil(seconds[share]) }),
  });
  const most = t("forecast-title", { ...of("p95"), count: runs });
  return html`<span class="forecast" title=${most}>${t("forecast", of("p50"))} · </span>`;
}
