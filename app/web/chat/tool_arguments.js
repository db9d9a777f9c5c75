// The arguments of a tool call: as JSON or as the change of a file, and in a form.

/** @import { Line } from "./files/diff.js" */

import { html, withValue } from "../html.js";
import { Diff, changed, marked } from "./files/diff.js";
import { readable } from "./markdown.js";
import { isObject } from "./messages.js";
import { Value } from "./text.js";

/** Of longer texts nothing is compared. */
const MOST_CHARS = 50_000;
const ONE_LINE = 80;

/** @typedef {Record<string, unknown>} Args */

/** @param {{args: unknown}} props */
export function Arguments({ args }) {
  const change = changeOf(args);
  if (change === null) return html`<${Value} value=${args} label="Arguments" />`;
  const { path, lines, others } = change;
  return html`
    <div class="value" tabindex="0" role="group" aria-label="Arguments">
      <p class="diff-path plain-mono">${readable(path)}</p>
      <${Diff} lines=${lines} />
      ${Object.keys(others).length > 0 && html`<pre class="plain plain-mono">${readable(JSON.stringify(others, null, 2))}</pre>`}
    </div>
  `;
}

/**
 * A field for each argument; `original` says of which type it is.
 * @param {{original: Args, args: Args, change: (args: Args) => void}} props
 */
export function ArgumentFields({ original, args, change }) {
  return html`
    ${Object.entries(original).map(
      ([name, before]) => html`
        <${ArgumentField}
          key=${name}
          name=${name}
          before=${before}
          value=${args[name]}
          set=${(/** @type {unknown} */ value) => change({ ...args, [name]: value })}
        />
      `,
    )}
  `;
}

/** @param {{name: string, before: unknown, value: unknown, set: (value: unknown) => void}} props */
function ArgumentField({ name, before, value, set }) {
  switch (typeof before) {
    case "boolean":
      return html`
        <label class="option">
          <input type="checkbox" checked=${value} onChange=${() => set(!value)} /><span>${name}</span>
        </label>
      `;
    case "number":
      return html`
        <label class="field">
          <span>${name}</span>
          <input
            type="number"
            step="any"
            value=${value}
            onInput=${withValue((text) => set(text === "" ? "" : Number(text)))}
          />
        </label>
      `;
    case "string":
      return html`
        <label class="field">
          <span>${name}</span>
          ${
            before.includes("\n") || before.length > ONE_LINE
              ? html`<textarea rows="6" value=${value} onInput=${withValue(set)}></textarea>`
              : html`<input value=${value} onInput=${withValue(set)} />`
          }
        </label>
      `;
    default:
      return html`
        <div class="field">
          <span>${name} <span class="hint">can be changed as JSON</span></span>
          <${Value} value=${value} label=${name} />
        </div>
      `;
  }
}

/**
 * What arguments change in a file, and what else they say; null for those that change none.
 * @param {unknown} args
 * @returns {{path: string, lines: Line[], others: Args} | null}
 */
function changeOf(args) {
  if (!isObject(args)) return null;
  const { file_path: path, old_string: before, new_string: after, content, ...others } = args;
  if (typeof path !== "string") return null;
  if (typeof before === "string" && typeof after === "string" && content === undefined) {
    return before.length + after.length > MOST_CHARS ? null : { path, lines: changed(before, after), others };
  }
  if (typeof content !== "string" || before !== undefined || after !== undefined) return null;
  return content.length > MOST_CHARS ? null : { path, lines: marked("+", content.split("\n")), others };
}
