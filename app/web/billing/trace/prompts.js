// The prompts of a run as the model got them, for keys that may read its evidence.

/** @import { Session } from "../../shell.js" */

import { apiPath } from "../../api.js";
import { html, useState } from "../../html.js";
import { countOf, formatTime } from "../../parts/format.js";
import { listed, usePages } from "../../parts/table.js";

const PAGE = 50;

/** @typedef {Schemas["EvidenceResponse"]} Evidence */
/** @typedef {{type: string, text?: string, name?: string, input?: unknown, content?: unknown}} Block */
/**
 * A request of the Messages API; `system` and `tools` are those of the one before where they are left out.
 * @typedef {object} Prompt
 * @property {string | null} agent
 * @property {{model: string}} parameters
 * @property {number} firstMessage
 * @property {{role: string, content: string | Block[]}[]} messages
 * @property {string | Block[]} [system]
 * @property {{name: string}[]} [tools]
 */

/** @param {{run: Schemas["RunResponse"], who: Session}} props */
export function Prompts({ run, who }) {
  const [isShown, show] = useState(false);
  return html`
    <section class="card" aria-labelledby="prompts-title">
      <h2 id="prompts-title">Prompts as the model got them</h2>
      ${
        run.contentsDeletedAt
          ? html`<p class="hint">They were deleted with the contents of this run.</p>`
          : !who.may("runs:audit")
            ? html`<p class="hint">They have the graph’s own prompt: only keys with the scope <code>runs:audit</code> may read them.</p>`
            : isShown
              ? html`<${Pieces} runId=${run.runId} />`
              : html`<button type="button" class="button" onClick=${() => show(true)}>Show the prompts</button>`
      }
    </section>
  `;
}

/** @param {{runId: string}} props */
function Pieces({ runId }) {
  const pages = usePages((cursor) =>
    apiPath("/v1/runs/{runId}/evidence", { runId, cursor: Number(cursor), limit: PAGE }),
  );
  return listed(pages, {
    of: "prompts",
    none: `None are stored: the run has sent nothing yet, or RUNTALLY_EVIDENCE was off, the machine’s own login was used, or the
      account keeps evidence for a shorter time.`,
    show: (items) => {
      const prompts = items.filter(({ type }) => type === "prompt_rendered");
      return html`
        ${prompts.length === 0 && html`<p class="hint">There are none among these pieces of evidence.</p>`}
        ${prompts.map((piece) => html`<${Piece} key=${piece.position} piece=${piece} />`)}
        ${items.some(({ type }) => type === "cut_off") && html`<p class="hint">The run had more than is kept (RUNTALLY_MAX_RUN_OUTPUT_MB).</p>`}
      `;
    },
  });
}

/** @param {{piece: Evidence}} props */
function Piece({ piece: { at, content } }) {
  // What is not looked at is not drawn: prompts are long.
  const [isOpen, setOpen] = useState(false);
  const { agent, parameters, firstMessage, messages, system, tools } = /** @type {Prompt} */ (
    /** @type {unknown} */ (content)
  );
  return html`
    <details class="prompt" onToggle=${(/** @type {Event & {currentTarget: HTMLDetailsElement}} */ event) => setOpen(event.currentTarget.open)}>
      <summary>
        <time datetime=${at}>${formatTime(at)}</time> · ${agent ? `subagent ${agent}` : "agent"} · ${parameters.model} ·${" "}
        ${countOf(messages.length, firstMessage === 0 ? "message" : "more message")}
      </summary>
      ${
        isOpen &&
        html`
          ${system && html`<h3>System prompt</h3><pre class="value plain" tabindex="0">${textOf(system)}</pre>`}
          ${tools && tools.length > 0 && html`<h3>Tools</h3><p class="mono">${tools.map(({ name }) => name).join(", ")}</p>`}
          ${messages.map(
            ({ role, content: said }, index) => html`
              <h3>${firstMessage + index + 1}: ${role}</h3>
              <pre class="value plain" tabindex="0">${textOf(said)}</pre>
            `,
          )}
        `
      }
    </details>
  `;
}

/** @param {string | Block[]} content */
function textOf(content) {
  if (typeof content === "string") return content;
  return content.map((block) => (block.type === "text" ? block.text : JSON.stringify(block, null, 2))).join("\n\n");
}
