// The arguments of a tool call: as JSON or as the change of a file, and in a form.

/** @import { Line } from "./files/diff.js" */

import { html, withValue } from "../html.js";
import { t } from "../languages.js";
import { Diff, changed, marked } from "./files/diff.js";
import { readable, readableJson } from "./markdown.js";
import { isObject } from "./messages.js";
import { Value } from "./text.js";

/** Of longer texts nothing is compared. */
const MOST_CHARS = 50_000;
const ONE_LINE = 80;

/** @typedef {Record<string, unknown>} Args */
/**
 * What is read of JSON schemas.
 * @typedef {{type?: string, enum?: unknown[], description?: string, anyOf?: Shape[]}} Shape
 * @typedef {{properties?: Record<string, Shape>, required?: string[]}} ArgsSchema
 * @typedef {{kind: "boolean" | "choice" | "number" | "string" | "json", hint: string, isLong?: boolean,
 *   choices?: (string | boolean)[]}} ArgField
 */

/** @param {{args: unknown}} props */
export function Arguments({ args }) {
  const change = changeOf(args);
  if (change === null) return html`<${Value} value=${args} label=${t("arguments")} />`;
  const { path, lines, others } = change;
  return html`
    <div class="value" tabindex="0" role="group" aria-label=${t("arguments")}>
      <p class="diff-path plain-mono">${readable(path)}</p>
      <${Diff} lines=${lines} />
      ${Object.keys(others).length > 0 && html`<pre class="plain plain-mono">${readableJson(others)}</pre>`}
    </div>
  `;
}

/**
 * A field for each argument that the call has, and for each that the tool takes besides; `original` are those of the
 * call, `schema` is what the tool takes, if that is known.
 * @param {{original: Args, args: Args, schema: ArgsSchema | null, change: (args: Args) => void}} props
 */
export function ArgumentFields({ original, args, schema, change }) {
  const shapes = schema?.properties ?? {};
  const names = [...new Set([...Object.keys(original), ...Object.keys(shapes)])];
  return html`
    ${names.map(
      (name) => html`
        <${ArgumentField}
          key=${name}
          name=${name}
          field=${fieldOf(original[name], shapes[name])}
          isOptional=${schema !== null && !schema.required?.includes(name)}
          value=${args[name]}
          set=${(/** @type {unknown} */ value) => change({ ...args, [name]: value })}
        />
      `,
    )}
  `;
}

/**
 * What a field takes: of several shapes the first that is not null.
 * @param {unknown} before
 * @param {Shape} [shape]
 * @returns {ArgField}
 */
function fieldOf(before, shape = {}) {
  const one = shape.anyOf?.find(({ type }) => type !== "null") ?? shape;
  const hint = one.description ?? shape.description ?? "";
  const given = before === undefined || before === null ? one.type : typeof before;
  if (one.enum?.every((choice) => typeof choice === "string") && (given === "string" || given === undefined)) {
    return { kind: "choice", choices: /** @type {string[]} */ (one.enum), hint };
  }
  if (given === "boolean" && typeof before !== "boolean") return { kind: "choice", choices: [true, false], hint };
  // In a field some characters move others.
  const isPlain = typeof before !== "string" || readable(before) === before;
  if (given === "boolean" || (given === "string" && isPlain)) return { kind: given, hint, isLong: isLong(before) };
  return { kind: given === "number" || given === "integer" ? "number" : "json", hint };
}

/** @param {unknown} text */
const isLong = (text) => typeof text === "string" && (text.includes("\n") || text.length > ONE_LINE);

/** @param {{name: string, field: ArgField, isOptional: boolean, value: unknown, set: (value: unknown) => void}} props */
function ArgumentField({ name, field, isOptional, value, set }) {
  const label = html`<span>${name}${isOptional && html` <span class="hint">${t("optional")}</span>`}</span>`;
  const hint = field.hint && html`<span class="hint">${readable(field.hint)}</span>`;
  const nothing = isOptional ? undefined : "";
  const write = withValue((text) => set(text === "" ? nothing : text));
  switch (field.kind) {
    case "boolean":
      return html`
        <label class="option">
          <input type="checkbox" checked=${value} onChange=${() => set(!value)} /><span>${label} ${hint}</span>
        </label>
      `;
    case "choice":
      return html`
        <label class="field">
          ${label}
          <select
            value=${String(value ?? "")}
            onChange=${withValue((text) => set(field.choices?.find((choice) => String(choice) === text) ?? nothing))}
          >
            <option value="">–</option>
            ${field.choices?.map((choice) => html`<option value=${String(choice)} dir="auto">${readable(String(choice))}</option>`)}
          </select>
          ${hint}
        </label>
      `;
    case "number":
      return html`
        <label class="field">
          ${label}
          <input
            type="number"
            step="any"
            value=${value}
            onInput=${withValue((text) => set(text === "" ? nothing : Number(text)))}
          />
          ${hint}
        </label>
      `;
    case "string":
      return html`
        <label class="field">
          ${label}
          ${
            field.isLong
              ? html`<textarea rows="6" value=${value} onInput=${write}></textarea>`
              : html`<input value=${value ?? ""} onInput=${write} />`
          }
          ${hint}
        </label>
      `;
    default:
      return html`
        <div class="field">
          <span>${label} <span class="hint">${t("change-as-json")}</span></span>
          ${value !== undefined && html`<${Value} value=${value} label=${name} />`}
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
