// What a run of a graph would execute, and the rules that would decide about a call.

/** @import { Column } from "../parts/table.js" */

import { apiPath, ApiError, post } from "../api.js";
import { html, useState, withValue } from "../html.js";
import { formatMoney, parseDollars } from "../money.js";
import { count } from "../parts/format.js";
import { Table } from "../parts/table.js";

/** @typedef {Schemas["PreviewResponse"]} Previewed */
/** @typedef {Schemas["PreviewedRule"]} Rule */

/** @param {{graphId: string}} props */
export function Preview({ graphId }) {
  const [question, setQuestion] = useState("");
  const [previewed, setPreviewed] = useState(/** @type {Previewed | null} */ (null));
  const [problem, setProblem] = useState("");
  const preview = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setProblem("");
    try {
      const messages = [{ role: /** @type {const} */ ("user"), content: question }];
      setPreviewed(await post(apiPath("/v1/runs/preview"), { graphId, messages }));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setProblem(error.errors.map(({ field, message }) => `${field} ${message}.`).join(" ") || error.message);
    }
  };
  return html`
    <section class="card" aria-labelledby="preview-title">
      <h2 id="preview-title">Preview</h2>
      <form class="stack" onSubmit=${preview}>
        <label class="field">
          <span>Question</span>
          <input value=${question} required onInput=${withValue(setQuestion)} />
        </label>
        <div class="row">
          <button class="button">Preview a run</button>
          <span class="hint">Nothing is executed or charged.</span>
        </div>
        ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      </form>
      ${previewed && html`<${Planned} of=${previewed} />`}
    </section>
  `;
}

/** @param {{of: Previewed}} props */
function Planned({ of: { model, modelOptions, limits, forecast, tools, rules, systemPrompt, sdkOptions } }) {
  const { thinking, effort, maxOutputTokens, fallback, contextWindow, taskBudget } = modelOptions;
  const facts = [
    ["Model", model],
    ["Thinking", String(thinking)],
    ["Effort", effort],
    ["Output tokens, at most", maxOutputTokens && count(maxOutputTokens)],
    ["Context window", contextWindow && count(contextWindow)],
    ["Fallback", fallback],
    ["Task budget", taskBudget && count(taskBudget)],
    ["Time, at most", `${limits.timeoutS} s`],
    ["Steps, at most", limits.maxTurns],
    ["Budget", limits.maxBudgetUsd && formatMoney(parseDollars(limits.maxBudgetUsd))],
    ["Tokens, at most", limits.maxTotalTokens && count(limits.maxTotalTokens)],
    [
      "Usually costs",
      forecast &&
        `${formatMoney(parseDollars(forecast.costUsd.p50))}, 95 of 100 at most ${formatMoney(parseDollars(forecast.costUsd.p95))}`,
    ],
    ["Usually takes", forecast && `${forecast.seconds.p50} s, 95 of 100 at most ${forecast.seconds.p95} s`],
  ];
  return html`
    <div class="stack" aria-live="polite">
      <dl class="facts">${facts.filter(([, value]) => value).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
      <${Rules} rules=${rules} tools=${tools} />
      <details>
        <summary>System prompt</summary>
        <pre class="value plain" tabindex="0">${systemPrompt}</pre>
      </details>
      <details>
        <summary>Options of the SDK</summary>
        <pre class="value plain" tabindex="0">${JSON.stringify(sdkOptions, null, 2)}</pre>
      </details>
    </div>
  `;
}

/** @type {Column<Rule & {number: number}>[]} */
const COLUMNS = [
  { label: "Rule", isNumber: true, show: ({ number }) => number },
  { label: "Of", show: ({ tool }) => html`<code>${tool}</code>` },
  { label: "If", show: ({ when }) => (when === null ? "always" : html`<code class="wrapped">${when}</code>`) },
  { label: "Then", show: (rule) => html`${rule.do}${rule.stop && " and end the run"}` },
  { label: "The model reads", show: ({ message }) => html`<span class="wrapped">${message}</span>` },
];

/** @param {{rules: Rule[], tools: Previewed["tools"]}} props */
function Rules({ rules, tools }) {
  const [toolId, setToolId] = useState("");
  const meeting = toolId === "" ? rules : rulesFor(toolId, tools, rules);
  const numbered = meeting.map((rule) => ({ ...rule, number: rules.indexOf(rule) + 1 }));
  return html`
    <div class="stack">
      <h3>Who decides about a call</h3>
      <label class="field">
        <span>Tool</span>
        <select value=${toolId} onChange=${withValue(setToolId)}>
          <option value="">all rules</option>
          ${tools.map(({ id, effect }) => html`<option value=${id}>${id} (${effect.replaceAll("_", " ")})</option>`)}
        </select>
      </label>
      ${
        numbered.length === 0
          ? html`<p>${toolId === "" ? "The graph has no rules." : "No rule meets a call of this tool."}</p>`
          : html`
            <p class="hint">The first rule that matches decides; one with a condition matches if that is true of the call’s arguments.</p>
            <${Table} caption="Rules in their order" rowKey="number" items=${numbered} columns=${COLUMNS} />
          `
      }
    </div>
  `;
}

/**
 * The rules that may decide about calls of a tool: up to the first without a condition.
 * @param {string} toolId
 * @param {Previewed["tools"]} tools
 * @param {Rule[]} rules
 */
function rulesFor(toolId, tools, rules) {
  const effect = tools.find(({ id }) => id === toolId)?.effect;
  const covering = rules.filter(({ tool }) => tool === effect || patternOf(tool).test(toolId));
  const decisive = covering.findIndex(({ when }) => when === null);
  return decisive < 0 ? covering : covering.slice(0, decisive + 1);
}

/** @param {string} pattern in which `*` stands for any characters, and `?` for one */
function patternOf(pattern) {
  const escaped = pattern.replace(/[\\^$+.()|[\]{}]/g, "\\$&");
  return new RegExp(`^${escaped.replaceAll("*", ".*").replaceAll("?", ".")}$`, "s");
}
