// The message field, the choice of a graph, and the buttons to send and stop.

/** @import { RunState } from "../runs/run_state.js" */
/** @import { Actions } from "./conversation.js" */
/** @import { Graphs } from "./hooks.js" */

import { html, useEffect, useLayoutEffect, useRef, useState, withValue } from "../html.js";
import { dollars } from "./cost.js";
import { useForecast } from "./hooks.js";

/** @typedef {Actions & {send: NonNullable<Actions["send"]>}} WriterActions */

/**
 * `actions.send(text)` resolves to whether it was sent; if not, the text is restored. `running` is the current run.
 * The field gets the focus with every new `conversation`.
 * @param {{conversation: string, graphs: Graphs, actions: WriterActions, running: RunState | undefined}} props
 */
export function Composer({ conversation, graphs: { graphs, graphId, chooseGraph }, actions, running }) {
  const [text, setText] = useState("");
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
    setText("");
    field.current?.focus();
    if (!(await actions.send(message))) setText((since) => since || text);
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
          onInput=${withValue(setText)}
          onKeyDown=${onKeyDown}
        ></textarea>
        <div class="composer-row">
          <label class="composer-graph">
            <span class="visually-hidden">Graph</span>
            <select
              value=${graphId ?? ""}
              disabled=${!graphs?.length}
              onChange=${withValue(chooseGraph)}
            >
              ${(graphs ?? []).map((graph) => html`<option value=${graph.id} selected=${graph.id === graphId}>${graph.id}</option>`)}
            </select>
          </label>
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
