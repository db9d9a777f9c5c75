// Fields that filter a list.

import { html, withValue } from "../html.js";
import { apiMoment, inputMoment } from "./form.js";

/** @typedef {{name: string, label: string, options?: readonly (readonly [string, string])[], isTime?: boolean, placeholder?: string}} Filter */

/**
 * `values` are by name; times are those of the API.
 * @param {{filters: readonly Filter[], values: Record<string, string | undefined>, choose: (changes: Record<string, string>) => void}} props
 */
export function FilterFields({ filters, values, choose }) {
  return html`
    <div class="filters" role="group" aria-label="Filters">
      ${filters.map((filter) => html`<label class="field" key=${filter.name}><span>${filter.label}</span>${control(filter, values[filter.name] ?? "", choose)}</label>`)}
    </div>
  `;
}

/**
 * @param {Filter} filter
 * @param {string} value
 * @param {(changes: Record<string, string>) => void} choose
 */
function control({ name, options, isTime, placeholder = "any" }, value, choose) {
  if (options) {
    return html`
      <select value=${value} onChange=${withValue((chosen) => choose({ [name]: chosen }))}>
        ${options.map(([option, label]) => html`<option value=${option}>${label}</option>`)}
      </select>
    `;
  }
  if (isTime) {
    return html`<input
      type="datetime-local"
      value=${inputMoment(value)}
      onChange=${withValue((chosen) => choose({ [name]: apiMoment(chosen) }))}
    />`;
  }
  return html`<input
    value=${value}
    placeholder=${placeholder}
    autocapitalize="off"
    autocomplete="off"
    spellcheck=${false}
    onChange=${withValue((chosen) => choose({ [name]: chosen.trim() }))}
  />`;
}
