// A run that is executed again with changes: a dialog with the request that has started it.

/** @import { Field, Values } from "../parts/form.js" */

import { ApiError, apiPath, get, post } from "../api.js";
import { html, useState } from "../html.js";
import { Dialog } from "../parts/action.js";
import { valuesOf } from "../parts/form.js";
import { linkToComparison, linkToRun } from "./links.js";

/** The tag of a run that repeats another one; its value is the id of that. */
export const REPEATS = "repeats";

/** @typedef {Schemas["GraphRunRequest"]} Request */
/** @typedef {Schemas["RunResponse"]} Run */

/** @param {{run: Run, done: () => void}} props `done` is called when another run has started */
export function RunAgain({ run, done }) {
  const [found, setFound] = useState(/** @type {{request: Request, models: string[]} | null} */ (null));
  const [problem, setProblem] = useState("");
  if (run.contentsDeletedAt !== null)
    return html`<p class="hint">Its request was deleted, so it cannot be run again.</p>`;
  const open = async () => {
    setProblem("");
    try {
      const [request, models] = await Promise.all([
        get(apiPath("/v1/runs/{runId}/request", { runId: run.runId })),
        get(apiPath("/v1/models")),
      ]);
      setFound({ request, models: models.items.map(({ id }) => id) });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setProblem(`Its request cannot be read: ${error.message}`);
    }
  };
  return html`
    <div class="row">
      <button type="button" class="button" onClick=${open}>Run again…</button>
      ${problem && html`<span class="problem" role="alert">${problem}</span>`}
    </div>
    ${found && html`<${Again} run=${run} ...${found} done=${done} close=${() => setFound(null)} />`}
  `;
}

/** @param {{run: Run, request: Request, models: string[], done: () => void, close: () => void}} props */
function Again({ run, request, models, done, close }) {
  const [draft, setDraft] = useState(() => repeated(request, run));
  const [isJson, setJson] = useState(false);
  const [problem, setProblem] = useState("");
  const fields = isJson ? [jsonField(draft)] : fieldsOf(draft, request, models);
  const read = (/** @type {Values} */ values) => (isJson ? parsed(values.request) : changed(draft, values, run.runId));
  const turn = (/** @type {Event & {currentTarget: HTMLButtonElement}} */ { currentTarget: { form } }) => {
    try {
      if (form !== null) setDraft(read(valuesOf(form, fields)));
      setJson(!isJson);
      setProblem("");
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setProblem(error.message);
    }
  };
  return html`<${Dialog}
    title="Run again"
    label="Run again"
    words=${html`
      It is another run, and charged as one. Files that were sent with the first are not sent again.${" "}
      <button type="button" class="link" onClick=${turn}>${isJson ? "Show a form" : "Show it as JSON"}</button>
      ${problem && html`<span class="problem" role="alert"> ${problem}</span>`}
    `}
    fields=${fields}
    send=${async (/** @type {Values} */ values, /** @type {Record<string, string>} */ once) =>
      post(apiPath("/v1/runs"), read(values), once)}
    result=${(/** @type {Schemas["AcceptedRunResponse"]} */ { runId }) => html`
      <p>It has started: <a href=${linkToRun(runId)}>look at it</a>, or <a href=${linkToComparison(run.runId, runId)}>compare both</a>.</p>
    `}
    done=${done}
    close=${close}
  />`;
}

/**
 * What is posted if nothing is changed: without the first run's id, time and place in its conversation.
 * @param {Request} request
 * @param {Run} run
 * @returns {Request}
 */
export function repeated(request, { runId, metadata }) {
  const draft = { ...request, ...(metadata && { metadata }), tags: { ...request.tags, [REPEATS]: runId } };
  for (const name of /** @type {const} */ (["runId", "startAfter", "forkFrom", "stateKey"])) delete draft[name];
  return draft;
}

/**
 * @param {Request} draft
 * @param {Request} request
 * @param {string[]} models
 * @returns {Field[]}
 */
function fieldsOf(draft, { stateKey }, models) {
  const known = draft.model && !models.includes(draft.model) ? [draft.model, ...models] : models;
  const nothing = /** @type {const} */ (["", "none: it does not know what was said before"]);
  return [
    { name: "messages", label: "Message", kind: "long", rows: 8, value: textOf(draft), required: true },
    {
      name: "model",
      label: "Model",
      kind: "choice",
      value: draft.model,
      options: [["", "as the graph says"], ...known.map((id) => /** @type {const} */ ([id, id]))],
    },
    ...(stateKey
      ? [
          /** @type {Field} */ ({
            name: "stateKey",
            label: "Conversation",
            kind: "choice",
            value: draft.stateKey,
            options: [nothing, [stateKey, "in place of the first run, which stays on an earlier branch"]],
          }),
        ]
      : []),
  ];
}

/** @param {Request} draft @returns {Field} */
function jsonField(draft) {
  const value = JSON.stringify(draft, null, 2);
  return { name: "request", label: "Request", kind: "long", rows: 18, value, required: true };
}

/** The text of the last message. @param {Request} request */
export function textOf({ messages }) {
  const content = messages?.at(-1)?.content ?? "";
  if (typeof content === "string") return content;
  const part = content.findLast(({ type }) => type === "text");
  return part?.type === "text" ? part.text : "";
}

/**
 * @param {Request} draft
 * @param {Values} values
 * @param {string} runId
 * @returns {Request}
 */
export function changed({ stateKey: _key, forkFrom: _run, ...draft }, { messages: text = "", model, stateKey }, runId) {
  const last = draft.messages?.at(-1);
  const content = last?.content ?? "";
  const isText = (/** @type {{type: string}} */ { type }) => type === "text";
  const index = typeof content === "string" ? -1 : content.findLastIndex(isText);
  /** @type {typeof content} */
  const next = typeof content === "string" ? text : [...content];
  if (typeof next !== "string") next.splice(index < 0 ? next.length : index, index < 0 ? 0 : 1, { type: "text", text });
  return {
    ...draft,
    messages: [...(draft.messages ?? []).slice(0, -1), { role: "user", ...last, content: next }],
    model,
    ...(stateKey && { stateKey, forkFrom: runId }),
  };
}

/** @param {string} text @returns {Request} */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    const errors = [{ field: "request", message: "is no JSON" }];
    throw new ApiError({ status: 0, code: "invalid_request", detail: "This is no JSON.", errors });
  }
}
