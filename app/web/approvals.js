// The page of all that waits for a person in the account's runs.

/** @import { Session } from "./shell.js" */
/** @import { Filters } from "./approvals/waiting.js" */

import { Waiting } from "./approvals/waiting.js";
import { html, useState, withValue } from "./html.js";
import { startPage } from "./shell.js";

const KINDS = /** @type {const} */ ([
  ["", "Everything"],
  ["approval", "Approvals"],
  ["question", "Questions"],
  ["client_tool", "Client tools"],
  ["budget", "Budgets"],
]);
const TEXTS = /** @type {const} */ ([
  ["graphId", "Graph"],
  ["runId", "Run"],
  ["stateKey", "Conversation"],
]);

/** @param {{who: Session}} props */
function ApprovalsPage({ who }) {
  const [filters, setFilters] = useState(filtersOfUrl);
  const choose = (/** @type {Filters} */ changes) => {
    const chosen = { ...filters, ...changes };
    const query = new URLSearchParams(Object.entries(chosen).filter(([, value]) => value !== ""));
    history.replaceState(null, "", query.size > 0 ? `?${query}` : location.pathname);
    setFilters(chosen);
  };
  return html`
    <main id="main" class="page" tabindex="-1">
      <h1>What waits for an answer</h1>
      ${
        who.may("runs:read")
          ? html`<${Choices} filters=${filters} choose=${choose} /><${Waiting} who=${who} filters=${filters} isPage />`
          : html`<p class="notice notice-warn">This API key lacks the scope <code>runs:read</code>, which shows what waits.</p>`
      }
    </main>
  `;
}

/** @param {{filters: Filters, choose: (changes: Filters) => void}} props */
function Choices({ filters, choose }) {
  const kindOf = (/** @type {string} */ value) => KINDS.find(([kind]) => kind === value)?.[0] ?? "";
  return html`
    <div class="waits-filters" role="group" aria-label="Filters">
      <label class="field">
        <span>Kind</span>
        <select value=${filters.kind} onChange=${withValue((value) => choose({ kind: kindOf(value) }))}>
          ${KINDS.map(([kind, label]) => html`<option value=${kind}>${label}</option>`)}
        </select>
      </label>
      ${TEXTS.map(
        ([name, label]) => html`
          <label class="field">
            <span>${label}</span>
            <input
              value=${filters[name]}
              placeholder="any"
              autocapitalize="off"
              spellcheck=${false}
              onChange=${withValue((value) => choose({ [name]: value.trim() }))}
            />
          </label>
        `,
      )}
    </div>
  `;
}

/** @returns {Filters} */
function filtersOfUrl() {
  const query = new URLSearchParams(location.search);
  return {
    kind: KINDS.find(([kind]) => kind === query.get("kind"))?.[0] ?? "",
    ...Object.fromEntries(TEXTS.map(([name]) => [name, query.get(name) ?? ""])),
  };
}

startPage({ name: "approvals", Page: ApprovalsPage });
