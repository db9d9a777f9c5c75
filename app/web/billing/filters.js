// Filters: period, model, graph, API key, end user and tag, and for operators the account.

/** @import { Show, View } from "./view.js" */

import { html, useLayoutEffect, useState, withValue } from "../html.js";
import { wrongWith } from "../parts/filter_fields.js";
import { dayName, PERIODS, periodDays } from "./view.js";

/** @typedef {{model: string[], graph: string[], key: string[], endUser: string[], account: string[]}} Options */

/** @param {{view: View, show: Show, options: Options | null, keyName?: (id: string) => string, problem?: Error | null}} props */
export function Filters({ view, show, options, keyName, problem = null }) {
  const choosePeriod = (/** @type {string} */ period) => {
    const days = periodDays(view);
    const same = days === null ? {} : { from: dayName(days.first), to: dayName(days.last) };
    show(period === "custom" ? { period, ...same } : { period, from: "", to: "" });
  };
  return html`
    <div class="filters" role="group" aria-label="Filters">
      <label class="field">
        <span>Period</span>
        <select value=${view.period} onChange=${withValue(choosePeriod)}>
          ${PERIODS.map(([name, label]) => html`<option value=${name}>${label}</option>`)}
        </select>
      </label>
      ${
        view.period === "custom" &&
        html`
        <${Day} label="First day" name="from" view=${view} show=${show} />
        <${Day} label="Last day" name="to" view=${view} show=${show} />
      `
      }
      <${Choice} label="Model" all="All models" name="model" view=${view} show=${show} values=${options?.model} />
      <${Choice} label="Graph" all="All graphs" name="graph" view=${view} show=${show} values=${options?.graph} />
      <${Choice}
        label="API key"
        all="All keys"
        name="key"
        view=${view}
        show=${show}
        values=${options?.key}
        labelFor=${keyName}
      />
      <${Typed} label="End user" name="endUser" problem=${problem} view=${view} show=${show} values=${options?.endUser} />
      <${Typed} label="Tag" name="tag" problem=${problem} placeholder="team:search" view=${view} show=${show} />
      ${options && options.account.length > 0 && html`<${Typed} label="Account" placeholder="The key’s" name="account" problem=${problem} view=${view} show=${show} values=${options.account} />`}
    </div>
  `;
}

/** @param {{label: string, name: "from" | "to", view: View, show: Show}} props */
function Day({ label, name, view, show }) {
  return html`
    <label class="field">
      <span>${label}</span>
      <input type="date" value=${view[name]} onChange=${withValue((day) => show({ [name]: day }))} />
    </label>
  `;
}

/**
 * A select of values; the value in the URL is offered even if nothing was used of it.
 * @param {object} props
 * @param {string} props.label
 * @param {string} props.all
 * @param {"model" | "graph" | "key" | "basis" | "origin" | "miss"} props.name
 * @param {View} props.view
 * @param {Show} props.show
 * @param {readonly string[]} [props.values]
 * @param {(value: string) => string} [props.labelFor]
 */
export function Choice({ label, all, name, view, show, values = [], labelFor = (value) => value }) {
  const chosen = view[name];
  const offered = chosen === "" || values.includes(chosen) ? values : [...values, chosen];
  // Named by itself: the text of a label has that of all options.
  return html`
    <label class="field">
      <span>${label}</span>
      <select aria-label=${label} value=${chosen} onChange=${withValue((value) => show({ [name]: value }))}>
        <option value="">${all}</option>
        ${offered.map((value) => html`<option value=${value}>${labelFor(value)}</option>`)}
      </select>
    </label>
  `;
}

/**
 * A text that is used when it is complete, with those that were charged most as suggestions.
 * @param {object} props
 * @param {string} props.label
 * @param {"endUser" | "tag" | "account" | "runId"} props.name
 * @param {View} props.view
 * @param {Show} props.show
 * @param {string} [props.placeholder]
 * @param {readonly string[]} [props.values]
 * @param {Error | null} [props.problem] why there is nothing to show
 */
export function Typed({ label, name, view, show, placeholder = "Any", values = [], problem = null }) {
  const [text, setText] = useState(view[name]);
  useLayoutEffect(() => setText(view[name]), [view[name]]);
  const search = (/** @type {Event} */ event) => {
    event.preventDefault();
    show({ [name]: text.trim() });
  };
  return html`
    <form onSubmit=${search}>
      <label class="field">
        <span>${label}</span>
        <input
          type="search"
          list=${values.length > 0 ? `known-${name}` : undefined}
          value=${text}
          autocapitalize="off"
          autocomplete="off"
          spellcheck=${false}
          placeholder=${placeholder}
          onInput=${withValue(setText)}
          onChange=${search}
        />
        ${wrongWith(name, problem)}
      </label>
      ${values.length > 0 && html`<datalist id=${`known-${name}`}>${values.map((value) => html`<option value=${value}></option>`)}</datalist>`}
    </form>
  `;
}
