// The period, and whose and which usage is looked at.

import { html } from "../html.js";
import { PERIODS, dayName, daysOf } from "./address.js";

export function Filters({ view, show, options, keyName = (id) => id }) {
  const choosePeriod = (period) => {
    const days = daysOf(view);
    const same = days === null ? {} : { from: dayName(days.first), to: dayName(days.last) };
    show(period === "custom" ? { period, ...same } : { period, from: "", to: "" });
  };
  return html`
    <div class="filters" role="group" aria-label="Filters">
      <label class="field">
        <span>Period</span>
        <select value=${view.period} onChange=${(event) => choosePeriod(event.target.value)}>
          ${PERIODS.map(([name, label]) => html`<option value=${name}>${label}</option>`)}
        </select>
      </label>
      ${view.period === "custom" &&
      html`
        <${Day} label="First day" name="from" view=${view} show=${show} />
        <${Day} label="Last day" name="to" view=${view} show=${show} />
      `}
      <${Choice} label="Model" all="All models" name="model" view=${view} show=${show} values=${options?.model} />
      <${Choice} label="Graph" all="All graphs" name="graph" view=${view} show=${show} values=${options?.graph} />
      <${Choice}
        label="API key"
        all="All keys"
        name="key"
        view=${view}
        show=${show}
        values=${options?.key}
        labelOf=${keyName}
      />
    </div>
  `;
}

function Day({ label, name, view, show }) {
  return html`
    <label class="field">
      <span>${label}</span>
      <input type="date" value=${view[name]} onChange=${(event) => show({ [name]: event.target.value })} />
    </label>
  `;
}

/** One of several values; what the address names is there even when nothing was used of it. */
export function Choice({ label, all, name, view, show, values = [], labelOf = (value) => value }) {
  const chosen = view[name];
  const offered = chosen === "" || values.includes(chosen) ? values : [...values, chosen];
  return html`
    <label class="field">
      <span>${label}</span>
      <select value=${chosen} onChange=${(event) => show({ [name]: event.target.value })}>
        <option value="">${all}</option>
        ${offered.map((value) => html`<option value=${value}>${labelOf(value)}</option>`)}
      </select>
    </label>
  `;
}
