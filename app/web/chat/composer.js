// Where a person writes.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../html.js";

/**
 * `actions.send(text)` says whether it was sent; if not, the text is given back. `running` is the run at work.
 * The field is focused anew with every `conversation`.
 */
export function Composer({ conversation, graphs: { graphs, graphId, chooseGraph }, actions, running }) {
  const [text, setText] = useState("");
  const [sending, setSending] = useState(false);
  const field = useRef(null);

  useEffect(() => {
    // On a touch screen that would bring up the keyboard over everything.
    if (matchMedia("(hover: hover)").matches) field.current.focus();
  }, [conversation]);
  useLayoutEffect(() => {
    field.current.style.height = "auto";
    field.current.style.height = `${field.current.scrollHeight + 2}px`;
  }, [text]);

  const submit = async (event) => {
    event?.preventDefault();
    const said = text.trim();
    if (!said || sending || !graphId) return;
    setSending(true);
    setText("");
    field.current.focus();
    if (!(await actions.send(said))) setText((since) => since || text);
    setSending(false);
  };
  const onKeyDown = (event) => {
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
          placeholder=${running ? "Say something to the agent at work" : "Write a message"}
          aria-describedby="composer-hint"
          onInput=${(event) => setText(event.target.value)}
          onKeyDown=${onKeyDown}
        ></textarea>
        <div class="composer-row">
          <label class="composer-graph">
            <span class="visually-hidden">Graph</span>
            <select
              value=${graphId ?? ""}
              disabled=${!graphs?.length}
              onChange=${(event) => chooseGraph(event.target.value)}
            >
              ${(graphs ?? []).map((graph) => html`<option value=${graph.id} selected=${graph.id === graphId}>${graph.id}</option>`)}
            </select>
          </label>
          <span class="hint composer-hint" id="composer-hint">Enter sends, Shift+Enter starts a new line</span>
          ${running &&
          html`
            <button type="button" class="button" onClick=${actions.stop}>
              ${running.stopping ? "Stop at once" : "Stop"}
            </button>
          `}
          <button class="button button-primary" disabled=${!text.trim() || sending || !graphId}>Send</button>
        </div>
      </div>
    </form>
  `;
}
