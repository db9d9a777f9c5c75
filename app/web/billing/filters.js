// Filters: period, model, graph and API key.

import { html } from "../html.js";
import { dayName, PERIODS, periodDays } from "./view.js";

export function Filters({ view, show, options, keyName = (id) => id }) {
  const choosePeriod = (period) => {
    const days = periodDays(view);
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

/** A select of values; the value in the URL is offered even if nothing was used of it. */
export function Choice({ label, all, name, view, show, values = [], labelFor = (value) => value }) {
  const chosen = view[name];
  const offered = chosen === "" || values.includes(chosen) ? values : [...values, chosen];
  return html`
    <label class="field">
      <span>${label}</span>
      <select value=${chosen} onChange=${(event) => show({ [name]: event.target.value })}>
        <option value="">${all}</option>
        ${offered.map((value) => html`<option value=${value}>${labelFor(value)}</option>`)}
      </select>
    </label>
  `;
}
