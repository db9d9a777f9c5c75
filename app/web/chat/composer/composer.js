// The message field, the choice of an agent, and the buttons to send and stop.

/** @import { RunState } from "../../runs/run_state.js" */
/** @import { Actions } from "../conversation.js" */
/** @import { Graphs } from "../hooks.js" */
/** @import { Choices } from "./choices.js" */
/** @import { Draft } from "./drafts.js" */

import { html, useEffect, useLayoutEffect, useRef, useState, withValue } from "../../html.js";
import { dollars } from "../cost.js";
import { useForecast } from "../hooks.js";
import { AgentChoice, RunOptions } from "./choices.js";

/** @typedef {Actions & {send: NonNullable<Actions["send"]>}} WriterActions */

/**
 * `actions.send(text)` resolves to whether it was sent; if not, the text is restored. `running` is the current run.
 * The field gets the focus with every new `conversation`.
 * @typedef {object} ComposerProps
 * @property {string} conversation
 * @property {Graphs} graphs
 * @property {Choices} choices
 * @property {Draft} draft
 * @property {WriterActions} actions
 * @property {RunState | undefined} running
 */

/** @param {ComposerProps} props */
export function Composer({ conversation, graphs, choices, draft: { text, write }, actions, running }) {
  const { graphId } = graphs;
  const graph = graphs.graphs?.find(({ id }) => id === graphId);
  const [sending, setSending] = useState(false);
  const forecast = useForecast(actions.forecasts ? graphId : null);
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));

  useEffect(() => {
    // On touch screens the keyboard would cover the page.
    if (matchMedia("(hover: hover)").matches) field.current?.focus();
  }, [conversation]);
  useLayoutEffect(() => {
    if (field.current === null) return;
    field.current.style.height = "auto";
    field.current.style.height = `${field.current.scrollHeight + 2}px`;
  }, [text]);

  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const message = text.trim();
    if (!message || sending || !graphId) return;
    setSending(true);
    write("");
    field.current?.focus();
    if (!(await actions.send(message)) && !field.current?.value) write(text);
    setSending(false);
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  };

  return html`
    <form class="composer" onSubmit=${submit}>
      <div class="composer-box">
        <label class="visually-hidden" for="message">Message</label>
        <textarea
          id="message"
          ref=${field}
          rows="1"
          value=${text}
          placeholder=${running ? "Send a message to the running agent" : "Write a message"}
          aria-describedby="composer-hint"
          onInput=${withValue(write)}
          onKeyDown=${onKeyDown}
        ></textarea>
        <div class="composer-row">
          <${AgentChoice} ...${graphs} />
          ${graph && !running && html`<${RunOptions} graph=${graph} choices=${choices} />`}
          <span class="hint composer-hint" id="composer-hint">
            ${forecast && usual(forecast)}Enter sends, Shift+Enter starts a new line
          </span>
          ${
            running &&
            html`
            <button type="button" class="button" onClick=${actions.stop}>
              ${running.stopping ? "Stop at once" : "Stop"}
            </button>
          `
          }
          <button class="button button-primary" disabled=${!text.trim() || sending || !graphId}>Send</button>
        </div>
      </div>
    </form>
  `;
}

/** @param {Schemas["ForecastResponse"]} forecast */
function usual({ costUsd, seconds, runs }) {
  const most = `95 of 100: at most ${dollars(costUsd.p95)}, ${Math.ceil(seconds.p95)} s; from ${runs} earlier runs`;
  return html`<span class="forecast" title=${most}>usually ${dollars(costUsd.p50)}, ${Math.ceil(seconds.p50)} s · </span>`;
}
