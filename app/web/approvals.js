// The page of all that waits for a person in the account's runs.

/** @import { Session } from "./shell.js" */
/** @import { Filters } from "./approvals/waiting.js" */

import { Waiting } from "./approvals/waiting.js";
import { html, useState } from "./html.js";
import { t, tWithElements } from "./languages.js";
import { FilterFields } from "./parts/filter_fields.js";
import { startPage } from "./shell.js";

const KINDS = /** @type {const} */ ([
  ["", t("kind-all")],
  ["approval", t("kinds-approval")],
  ["question", t("kinds-question")],
  ["client_tool", t("kinds-client_tool")],
  ["budget", t("kinds-budget")],
]);
const TEXTS = /** @type {const} */ ([
  ["graphId", t("graph")],
  ["runId", t("run")],
  ["stateKey", t("conversation")],
]);

const FILTERS = [
  { name: "kind", label: t("kind"), options: KINDS },
  ...TEXTS.map(([name, label]) => ({ name, label })),
];

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
      <h1>${t("approvals-title")}</h1>
      ${
        who.may("runs:read")
          ? html`<${FilterFields} filters=${FILTERS} values=${filters} choose=${choose} /><${Waiting} who=${who} filters=${filters} isPage />`
          : html`<p class="notice notice-warn">${tWithElements("approvals-lack-scope", { scope: html`<code>runs:read</code>` })}</p>`
      }
    </main>
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
