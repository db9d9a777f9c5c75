// Fields that filter a list.

import { ApiError } from "../api.js";
import { html, useLayoutEffect, useState, withValue } from "../html.js";
import { t } from "../languages.js";
import { apiMoment, inputMoment } from "./form.js";

/** @typedef {{name: string, label: string, options?: readonly (readonly [string, string])[], isTime?: boolean, placeholder?: string}} Filter */

/**
 * `values` are by name; times are those of the API. `problem`: why the list is not there.
 * @param {{filters: readonly Filter[], values: Record<string, string | undefined>, choose: (changes: Record<string, string>) => void, problem?: Error | null}} props
 */
export function FilterFields({ filters, values, choose, problem = null }) {
  return html`
    <div class="filters" role="group" aria-label=${t("filters")}>
      ${filters.map(
        (filter) => html`
          <label class="field" key=${filter.name}>
            <span>${filter.label}</span>
            <${Control} filter=${filter} value=${values[filter.name] ?? ""} choose=${choose} />
            ${wrongWith(filter.name, problem)}
          </label>
        `,
      )}
    </div>
  `;
}

/**
 * What the server says of a parameter.
 * @param {string} name
 * @param {Error | null} problem
 */
export function wrongWith(name, problem) {
  const found = problem instanceof ApiError && problem.errors.find(({ field }) => field === name);
  return found && html`<span class="problem">${found.message}</span>`;
}

/** @param {{filter: Filter, value: string, choose: (changes: Record<string, string>) => void}} props */
function Control({ filter: { name, options, isTime, placeholder = t("any") }, value, choose }) {
  // What is being typed stays while a live list is shown again. An effect after the paint could erase its beginning.
  const [text, setText] = useState(value);
  useLayoutEffect(() => setText(value), [value]);
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
      value=${inputMoment(text)}
      onInput=${withValue(setText)}
      onChange=${withValue((chosen) => choose({ [name]: apiMoment(chosen) }))}
    />`;
  }
  return html`<input
    value=${text}
    placeholder=${placeholder}
    autocapitalize="off"
    autocomplete="off"
    spellcheck=${false}
    onInput=${withValue(setText)}
    onChange=${withValue((chosen) => choose({ [name]: chosen.trim() }))}
  />`;
}
