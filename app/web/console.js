// The console: everything that can be administered over the API, and the runs of the account.

/** @import { Html } from "./html.js" */
/** @import { Session } from "./shell.js" */
/** @import { Query, Show } from "./console/view.js" */

import { Accounts } from "./console/accounts.js";
import { Audit } from "./console/audit.js";
import { Budgets } from "./console/budgets.js";
import { Models, Tools } from "./console/catalogs.js";
import { OwnCredit } from "./console/credit.js";
import { EndUsers } from "./console/end_users.js";
import { Graphs } from "./console/graphs.js";
import { Keys } from "./console/keys.js";
import { Runs } from "./console/runs.js";
import { Schedules } from "./console/schedules.js";
import { Server } from "./console/server.js";
import { Statements } from "./console/statements.js";
import { linkTo, useQuery } from "./console/view.js";
import { Webhooks } from "./console/webhooks.js";
import { html, useEffect } from "./html.js";
import { FilterFields } from "./parts/filter_fields.js";
import { startPage } from "./shell.js";

/**
 * A part of the console. It is shown to those who have the scope `needs`; `ofAccounts`: operators choose the account.
 * @typedef {object} View
 * @property {string} name
 * @property {string} label
 * @property {string} [needs]
 * @property {boolean} [ofAccounts]
 * @property {(props: {who: Session, query: Query, show: Show}) => Html} Shown
 */

/** @type {[string, View[]][]} */
const GROUPS = [
  [
    "Work",
    [
      { name: "runs", label: "Runs", needs: "runs:read", Shown: Runs },
      { name: "schedules", label: "Schedules", needs: "runs:read", Shown: Schedules },
      { name: "webhooks", label: "Webhooks", needs: "runs:read", Shown: Webhooks },
      { name: "end-users", label: "End users", needs: "runs:read", Shown: EndUsers },
    ],
  ],
  [
    "Access",
    [
      { name: "accounts", label: "Accounts", needs: "admin", Shown: Accounts },
      { name: "keys", label: "API keys", needs: "receipts:read", ofAccounts: true, Shown: Keys },
      { name: "audit", label: "Audit log", needs: "keys:write", Shown: Audit },
    ],
  ],
  [
    "Money",
    [
      { name: "budgets", label: "Budgets", needs: "receipts:read", ofAccounts: true, Shown: Budgets },
      { name: "credit", label: "Credit", needs: "receipts:read", Shown: OwnCredit },
      { name: "statements", label: "Statements", needs: "receipts:read", ofAccounts: true, Shown: Statements },
    ],
  ],
  [
    "Server",
    [
      { name: "graphs", label: "Graphs", needs: "runs:read", Shown: Graphs },
      { name: "tools", label: "Tools", needs: "runs:read", Shown: Tools },
      { name: "models", label: "Models", needs: "runs:read", Shown: Models },
      { name: "server", label: "Server", Shown: Server },
    ],
  ],
];

/** @param {{who: Session}} props */
function Console({ who }) {
  const [query, show] = useQuery();
  const mayOpen = (/** @type {View} */ { name, needs }) =>
    needs === undefined || who.may(needs) || (name === "keys" && who.may("keys:write"));
  const groups = GROUPS.map(([title, views]) => /** @type {const} */ ([title, views.filter(mayOpen)]));
  const open = groups.flatMap(([, views]) => views);
  const view = open.find(({ name }) => name === (query.view || open[0].name));
  useEffect(() => {
    document.title = `${view ? `${view.label} – ` : ""}Console – Runtally`;
    // On a narrow screen the parts are in one line.
    document.querySelector(".console > nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [view]);
  return html`
    <div class="console">
      <nav aria-label="Parts of the console">
        ${groups
          .filter(([, views]) => views.length > 0)
          .map(
            ([title, views]) => html`
              <div role="group" aria-label=${title}>
                <p aria-hidden="true">${title}</p>
                ${views.map(({ name, label }) => html`<a href=${linkTo({ view: name })} aria-current=${name === view?.name ? "page" : undefined}>${label}</a>`)}
              </div>
            `,
          )}
      </nav>
      <main id="main" class="page" tabindex="-1">
        ${
          view === undefined
            ? html`<div class="card empty"><h1>Not here</h1><p>There is no such part of the console, or this key lacks the scope for it.</p></div>`
            : html`<${Opened} key=${view.name} ...${{ view, who, query, show }} />`
        }
      </main>
    </div>
  `;
}

/** @param {{view: View, who: Session, query: Query, show: Show}} props */
function Opened({ view: { label, ofAccounts, Shown }, who, query, show }) {
  const account = { name: "account", label: "Account", placeholder: who.account };
  return html`
    <div class="head">
      <h1>${label}</h1>
      <p class="hint">Times are UTC.</p>
    </div>
    ${ofAccounts && who.may("admin") && html`<${FilterFields} filters=${[account]} values=${query} choose=${show} />`}
    <${Shown} ...${{ who, query, show }} />
  `;
}

startPage({ name: "console", Page: Console });
