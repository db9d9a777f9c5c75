// A tool call: arguments, result, and the decision of a person.

/** @import { Html } from "../html.js" */
/** @import { Item, Permission, ToolItem } from "../runs/run_state.js" */
/** @import { Decision } from "../runs/answers.js" */
/** @import { CallResult } from "../runs/evidence.js" */
/** @import { Args, ArgsSchema } from "./tool_arguments.js" */

import { ApiError } from "../api.js";
import { Component, html, useState, withValue } from "../html.js";
import { locale, t } from "../languages.js";
import { readable, readableJson } from "./markdown.js";
import { apiProblem, isObject, toolProblem, toolTitle } from "./messages.js";
import { ModelResult } from "./model_result.js";
import { Value } from "./text.js";
import { ArgumentFields, Arguments } from "./tool_arguments.js";

const AGENT = "Agent";

/** @typedef {(permission: Permission, decision: Decision) => Promise<void>} Decide */
/** @typedef {(permission: Permission) => Promise<ArgsSchema | null>} FindSchema null if it is not known */

/**
 * @typedef {object} ToolCallProps
 * @property {ToolItem} item a tool call of a `RunState`
 * @property {number | undefined} version it is drawn again when this changes
 * @property {boolean} live
 * @property {FindSchema} findSchema
 * @property {Decide | null} decide null if it is not allowed
 * @property {(() => Promise<void>) | false} loadEvents false if they are loaded
 * @property {(() => Promise<CallResult | null>) | null} findResult what only the model has got; null if it is not allowed
 * @property {(items: Item[]) => Html} inside draws the items of its subagent
 */

/** @extends {Component<ToolCallProps>} */
export class ToolCall extends Component {
  /** @param {ToolCallProps} next */
  shouldComponentUpdate(next) {
    return next.item !== this.props.item || next.version !== this.props.version || next.live !== this.props.live;
  }

  /** @param {ToolCallProps} props */
  render({ item, live, decide, findSchema, loadEvents, findResult, inside }) {
    const waits = live && item.permission !== null && item.permission.decision === null;
    return html`
      <details class="tool" open=${waits || (item.items.length > 0 && !item.ended)} data-state=${stateOf(item, live)}>
        <summary>
          <span class="tool-mark" aria-hidden="true"></span>
          <span class="tool-name" dir="auto">${item.name === AGENT ? agentTitle(item.args) : toolTitle(item.name)}</span>
          <span class="tool-gist" dir="auto">${item.name === AGENT ? "" : gist(item.args)}</span>
          <span class="tool-state">${stateWords(item, live)}</span>
        </summary>
        <div class="tool-body">
          ${waits && decide && html`<${Consent} name=${item.name} permission=${item.permission} decide=${decide} findSchema=${findSchema} />`}
          ${waits && !decide && html`<p class="notice">${t("waits-not-yours")}</p>`}
          ${!waits && html`<h3>${t("arguments")}</h3><${Arguments} args=${item.args} />`}
          ${item.permission?.changed && html`<p class="hint">${t("args-changed")}</p>`}
          ${item.items.length > 0 && html`<div class="tool-inside">${inside(item.items)}</div>`}
          ${
            item.name === AGENT &&
            item.items.length === 0 &&
            loadEvents &&
            html`<${LoadEvents} loadEvents=${loadEvents} />`
          }
          ${item.ended && item.isError && html`<p class="problem">${toolProblem(item.result)}</p>`}
          ${item.ended && !item.isError && html`<${Result} result=${item.result} />`}
          ${item.ended && isHidden(item) && findResult && html`<${ModelResult} name=${item.name} find=${findResult} />`}
        </div>
      </details>
    `;
  }
}

/** Whether clients get nothing of the result: what native tools return is for the model only. @param {ToolItem} item */
const isHidden = ({ result, isError }) =>
  result === null || (isObject(result) && Object.keys(result).every((key) => isError && key === "error"));

/** @param {{result: unknown}} props */
function Result({ result }) {
  if (result === null || (isObject(result) && Object.keys(result).length === 0)) {
    return html`<p class="hint">${t("result-hidden")}</p>`;
  }
  return html`<h3>${t("result")}</h3><${Value} value=${result} label=${t("result")} />`;
}

/** @param {{loadEvents: () => Promise<void>}} props */
function LoadEvents({ loadEvents }) {
  const [problem, setProblem] = useState("");
  const show = () => loadEvents().catch((/** @type {ApiError} */ error) => setProblem(apiProblem(error)));
  return html`
    <button type="button" class="button button-small" onClick=${show}>${t("show-what-it-did")}</button>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
  `;
}

/**
 * `findSchema` finds what the tool takes, once the arguments are to be changed.
 * @param {{name: string, permission: Permission, decide: Decide, findSchema: FindSchema}} props
 */
export function Consent({ name, permission, decide, findSchema }) {
  const original = permission.args;
  const [fields, setFields] = useState(/** @type {Args | null} */ (null));
  const [schema, setSchema] = useState(/** @type {ArgsSchema | null} */ (null));
  const [text, setText] = useState(/** @type {string | null} */ (null));
  const [message, setMessage] = useState("");
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);

  const change = async (/** @type {Args} */ args) => {
    setFields(args);
    try {
      setSchema(await findSchema(permission));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setProblem(apiProblem(error));
    }
  };
  /** @param {Decision["decision"]} decision */
  const decider = (decision) => (/** @type {{currentTarget: HTMLElement}} */ event) =>
    submit(decision, event.currentTarget);
  /** @param {Decision["decision"]} decision @param {HTMLElement} button */
  const submit = async (decision, button) => {
    const args = text === null ? fields : parsed(text);
    if (text !== null && args === null && decision !== "deny") return setProblem(t("not-json"));
    setBusy(true);
    setProblem("");
    try {
      const changed = args !== null && JSON.stringify(args) !== JSON.stringify(original) ? args : undefined;
      await decide(
        permission,
        decision === "deny" ? { decision, message: message.trim() } : { decision, args: changed },
      );
      // The button disappears; keep the keyboard focus at this call.
      button.closest("details")?.querySelector("summary")?.focus();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setProblem(error.errors.length ? error.errors.map(fieldProblem).join(" ") : apiProblem(error));
      setBusy(false);
    }
  };

  return html`
    <form class="consent" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()} aria-label=${t("decide-about", { tool: toolTitle(name) })}>
      <p><strong>${t("wants-to", { tool: toolTitle(name) })}</strong> ${t("waits-for-you")}</p>
      ${
        text === null &&
        (fields === null
          ? html`<${Arguments} args=${original} />`
          : html`<${ArgumentFields} original=${original} args=${fields} schema=${schema} change=${setFields} />`)
      }
      ${
        text !== null &&
        html`
            <label class="field">
              <span>${t("arguments-json")}</span>
              <textarea
                class="mono"
                rows=${Math.min(12, text.split("\n").length + 1)}
                value=${text}
                spellcheck=${false}
                onInput=${withValue(setText)}
              ></textarea>
            </label>
          `
      }
      <label class="field">
        <span>${t("deny-reason")}</span>
        <input value=${message} onInput=${withValue(setMessage)} />
      </label>
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      <div class="row">
        <button type="button" class="button button-primary" disabled=${busy} onClick=${decider("allow")}>${t("allow")}</button>
        ${
          permission.grantable &&
          html`
            <button type="button" class="button" disabled=${busy} onClick=${decider("allow_conversation")}>
              ${t("allow-conversation")}
            </button>
          `
        }
        <button type="button" class="button button-bad" disabled=${busy} onClick=${decider("deny")}>${t("deny")}</button>
        ${
          text === null &&
          (fields === null && isObject(original)
            ? html`
              <button type="button" class="button button-plain" onClick=${() => change(original)}>
                ${t("change-arguments")}
              </button>
            `
            : html`
              <button
                type="button"
                class="button button-plain"
                onClick=${() => setText(readableJson(fields ?? original))}
              >
                ${t("as-json")}
              </button>
            `)
        }
      </div>
      <p class="hint">${t("denied-at", { time: timeOf(permission.expiresAt) })}</p>
    </form>
  `;
}

/**
 * The JSON object in a text; null if it is something else.
 * @param {string} text
 */
function parsed(text) {
  try {
    /** @type {unknown} */
    const value = JSON.parse(text);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}

/** @param {FieldProblem} problem */
function fieldProblem({ field, message }) {
  return t("field-problem", { field: field.replace(/^args\.?/, "") || t("the-arguments"), problem: message });
}

/** @param {string} time */
function timeOf(time) {
  const at = new Date(time);
  return at.toDateString() === new Date().toDateString() ? at.toLocaleTimeString(locale) : at.toLocaleString(locale);
}

/** @param {ToolItem} item @param {boolean} live */
function stateOf(item, live) {
  if (item.ended) return item.isError ? "failed" : "done";
  if (!live) return "left";
  return item.permission?.decision === null ? "waits" : "runs";
}

/** @param {ToolItem} item @param {boolean} live */
function stateWords(item, live) {
  if (item.permission?.decision === "deny") {
    return t(item.permission.reason === "expired" ? "state-expired" : "state-denied");
  }
  return t(`state-${stateOf(item, live)}`);
}

/** @param {unknown} args */
function agentTitle(args) {
  return isObject(args) && args.subagent_type ? t("subagent-of", { type: String(args.subagent_type) }) : t("subagent");
}

/** @param {unknown} args */
function gist(args) {
  if (!isObject(args)) return "";
  const words = Object.values(args).filter((value) => ["string", "number", "boolean"].includes(typeof value));
  return readable(words.join(" · ").slice(0, 120));
}
