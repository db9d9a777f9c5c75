// Forms that are made of a list of fields.

/** @import { ApiError } from "../api.js" */

import { html } from "../html.js";

/**
 * A field of a form. `name` is the path of the value in the request's body, by which the server names what is wrong.
 * @typedef {object} Field
 * @property {string} name
 * @property {string} label
 * @property {"text" | "number" | "time" | "choice" | "choices" | "flag" | "long"} [kind]
 * @property {string | number | boolean | readonly string[] | null} [value] at first
 * @property {readonly (readonly [string, string])[]} [options] of a choice: values and what they are called
 * @property {string} [hint]
 * @property {boolean} [required]
 * @property {number} [rows] of a long text
 */

/**
 * The values of a form by the names of its fields. What is left empty is undefined.
 * @typedef {Record<string, any>} Values
 */

/** @param {{fields: readonly Field[], problem: ApiError | null}} props */
export function Fields({ fields, problem }) {
  const wrongOf = (/** @type {Field} */ { name }) => {
    const found = problem?.errors.filter((each) => isAbout(name, each)) ?? [];
    const said = found.map(({ field, message }) => `${field.slice(name.length + 1)} ${message}`.trim()).join(", ");
    return said && `${found[0]?.field === name ? "" : ":"} ${said}`;
  };
  return html`${fields.map((field) => html`<${Labelled} key=${field.name} field=${field} wrong=${wrongOf(field)} />`)}`;
}

/** Whether it is about this field, or a part of it. @param {string} name @param {FieldProblem} problem */
const isAbout = (name, { field }) => field === name || field.startsWith(`${name}.`);

/**
 * What is wrong with a request beside its fields; each that the form does not have is named.
 * @param {ApiError} problem
 * @param {readonly Field[]} fields
 */
export function problemBeside(problem, fields) {
  if (problem.errors.length === 0) return problem.message;
  return problem.errors
    .filter((each) => !fields.some(({ name }) => isAbout(name, each)))
    .map(({ field, message }) => `${field} ${message}.`)
    .join(" ");
}

/**
 * @param {HTMLFormElement} form
 * @param {readonly Field[]} fields
 */
export function valuesOf(form, fields) {
  const data = new FormData(form);
  return /** @type {Values} */ (Object.fromEntries(fields.map((field) => [field.name, valueOf(data, field)])));
}

/** @param {FormData} data @param {Field} field */
function valueOf(data, { name, kind }) {
  if (kind === "choices") return data.getAll(name).map(String);
  if (kind === "flag") return data.has(name);
  const text = String(data.get(name) ?? "").trim();
  if (text === "") return undefined;
  if (kind === "number") return Number(text);
  return kind === "time" ? apiMoment(text) : text;
}

/**
 * The value of an `<input type="datetime-local">`, which is UTC here, as a time of the API.
 * @param {string} text
 */
export function apiMoment(text) {
  return text === "" ? "" : `${text.slice(0, 16)}:00Z`;
}

/**
 * The opposite.
 * @param {string} text
 */
export function inputMoment(text) {
  return text.slice(0, 16);
}

/** @param {{field: Field, wrong: string}} props */
function Labelled({ field, wrong }) {
  const { name, label, kind, hint, options = [], value } = field;
  const [hintId, wrongId] = [`hint-${name}`, `wrong-${name}`];
  const described = [hint && hintId, wrong && wrongId].filter(Boolean).join(" ") || undefined;
  const about = html`
    ${hint && html`<p class="hint" id=${hintId}>${hint}</p>`}
    ${wrong && html`<p class="problem" id=${wrongId} role="alert">${label}${wrong}.</p>`}
  `;
  if (kind === "flag") {
    return html`
      <div>
        <label class="check"><input type="checkbox" name=${name} defaultChecked=${value} aria-describedby=${described} /> ${label}</label>
        ${about}
      </div>
    `;
  }
  if (kind === "choices") {
    const chosen = Array.isArray(value) ? value : [];
    return html`
      <fieldset aria-describedby=${described}>
        <legend>${label}</legend>
        ${options.map(
          ([option, text]) => html`
            <label class="check">
              <input type="checkbox" name=${name} value=${option} defaultChecked=${chosen.includes(option)} /> ${text}
            </label>
          `,
        )}
        ${about}
      </fieldset>
    `;
  }
  return html`
    <div class="field">
      <label for=${`field-${name}`}>${label}${kind === "time" && " (UTC)"}</label>
      <${Control} field=${field} described=${described} isWrong=${wrong !== ""} />
      ${about}
    </div>
  `;
}

/** @param {{field: Field, described: string | undefined, isWrong: boolean}} props */
function Control({ field: { name, kind = "text", options = [], value, required, rows = 3 }, described, isWrong }) {
  const shared = {
    id: `field-${name}`,
    name,
    required,
    "aria-describedby": described,
    "aria-invalid": isWrong ? "true" : undefined,
  };
  const first = value === undefined || value === null ? "" : String(value);
  if (kind === "choice") {
    return html`<select ...${shared}>
      ${options.map(([option, text]) => html`<option value=${option} selected=${option === first}>${text}</option>`)}
    </select>`;
  }
  if (kind === "long") return html`<textarea ...${shared} rows=${rows} defaultValue=${first}></textarea>`;
  const typed = { text: {}, number: { type: "number", step: 1 }, time: { type: "datetime-local" } };
  const shown = kind === "time" ? inputMoment(first) : first;
  return html`<input
    ...${shared}
    ...${typed[/** @type {keyof typeof typed} */ (kind)]}
    defaultValue=${shown}
    autocomplete="off"
    autocapitalize="off"
    spellcheck=${false}
  />`;
}
