// The charges of a period: filters, alarms, totals, chart and receipts.

/** @import { Days, Show, View } from "./view.js" */

import { apiPath } from "../api.js";
import { html } from "../html.js";
import { loaded, useRequests } from "../parts/requests.js";
import { Alarms } from "./alarms.js";
import { Filters } from "./filters.js";
import { Ledger } from "./ledger.js";
import { Receipts } from "./receipts.js";
import { Reconciliation } from "./reconciliation.js";
import { Spend } from "./spending.js";
import { Totals } from "./totals.js";
import { apiWindow, passedOfMonth, periodBefore, periodDays } from "./view.js";

/** @param {{view: View, show: Show}} props */
export function Overview({ view, show }) {
  const days = periodDays(view);
  return html`
    <main id="main" class="page billing" tabindex="-1">
      <div class="head">
        <h1>Billing</h1>
        <p class="hint">Days and times are UTC.</p>
      </div>
      ${
        days === null
          ? html`<${Filters} view=${view} show=${show} options=${null} />
            <p class="notice notice-warn" role="alert">
              Choose a first day and a last day that is not before it, three years apart at most.
            </p>`
          : html`<${Period} view=${view} show=${show} days=${days} />`
      }
    </main>
  `;
}

/** @param {{view: View, show: Show, days: Days}} props */
function Period({ view, show, days }) {
  const window = apiWindow(days);
  const before = periodBefore(view, days);
  const filters = { ...window, model: view.model, graphId: view.graph, apiKeyId: view.key };

  const names = useRequests(
    [
      apiPath("/v1/usage", { ...window, groupBy: "model" }),
      apiPath("/v1/usage", { ...window, groupBy: "graph" }),
      apiPath("/v1/usage", { ...window, groupBy: "key" }),
      apiPath("/v1/keys", { limit: 200 }),
    ],
    null,
  );
  const sums = useRequests(
    [
      apiPath("/v1/usage", { ...filters, groupBy: "day", splitBy: view.split }),
      apiPath("/v1/usage", { ...filters, groupBy: view.split }),
      apiPath("/v1/usage", { ...filters, ...apiWindow(before), groupBy: view.split }),
      apiPath("/v1/balance"),
      apiPath("/v1/budgets"),
    ],
    { days, before, isMonth: view.period === "month" },
  );
  const labels = namesOf(names.responses);
  return html`
    <${Filters} view=${view} show=${show} options=${labels.options} keyName=${labels.keyName} />
    <${Alarms} window=${window} />
    ${loaded(sums, {
      what: "what was spent",
      show: ([perDay, perPart, earlier, balance, budgets], shown) => html`
        <${Totals}
          total=${perDay.total}
          earlier=${{ name: shown.before.name, total: earlier.total }}
          passed=${shown.isMonth ? passedOfMonth(shown.days) : null}
          balance=${balance}
          budgets=${budgets.items.filter(({ scope }) => scope === "account")}
        />
        <${Spend}
          ...${{ view, show, perDay, perPart, earlier, keyName: labels.keyName }}
          days=${shown.days}
        />
      `,
    })}
    <${Reconciliation} window=${window} />
    <${Ledger} />
    <${Receipts} view=${view} show=${show} filters=${filters} keyName=${labels.keyName} />
  `;
}

/**
 * The options of the filters, and the display names of keys.
 * @param {readonly [UsageReport, UsageReport, UsageReport, Schemas["Page_ApiKeyResponse_"]] | null} responses
 */
function namesOf(responses) {
  const nothing = { items: [] };
  const [models, graphs, used, keys] = responses ?? [nothing, nothing, nothing, nothing];
  const known = new Map(keys.items.map((key) => [key.id, key]));
  const keyName = (/** @type {string} */ id) => {
    if (responses === null) return "…";
    const key = known.get(id);
    if (key === undefined) return `key ${id.slice(0, 8)}…`;
    if (key.name === null) return `${key.prefix}…`;
    return keys.items.filter(({ name }) => name === key.name).length > 1 ? `${key.name} (${key.prefix}…)` : key.name;
  };
  const groups = (/** @type {Pick<UsageReport, "items">} */ report) => report.items.map(({ group }) => group);
  return { keyName, options: { model: groups(models), graph: groups(graphs), key: groups(used) } };
}
