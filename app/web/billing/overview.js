// The charges of a period: filters, alarms, totals, chart and receipts.

import { html } from "../html.js";
import { Alarms } from "./alarms.js";
import { Filters } from "./filters.js";
import { Receipts } from "./receipts.js";
import { Loaded, useRequests } from "./requests.js";
import { Spend } from "./spending.js";
import { Totals } from "./totals.js";
import { apiWindow, periodDays, withQuery } from "./view.js";

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

function Period({ view, show, days }) {
  const window = apiWindow(days);
  const filters = { ...window, model: view.model, graphId: view.graph, apiKeyId: view.key };
  /** @param {object} parameters @param {object} [parameterFilters] */
  const usage = (parameters, parameterFilters = filters) =>
    withQuery("v1/usage", { ...parameters, ...parameterFilters });

  const names = useRequests([
    usage({ groupBy: "model" }, window),
    usage({ groupBy: "graph" }, window),
    usage({ groupBy: "key" }, window),
    "v1/keys?limit=200",
  ]);
  const sums = useRequests(
    [usage({ groupBy: "day", splitBy: view.split }), usage({ groupBy: view.split }), "v1/balance"],
    days,
  );
  const labels = namesOf(names.responses);
  return html`
    <${Filters} view=${view} show=${show} options=${labels.options} keyName=${labels.keyName} />
    <${Alarms} window=${window} />
    <${Loaded}
      of=${sums}
      what="what was spent"
      show=${([perDay, perPart, balance], shownDays) => html`
        <${Totals} total=${perDay.total} balance=${balance} />
        <${Spend} view=${view} show=${show} days=${shownDays} perDay=${perDay} perPart=${perPart} keyName=${labels.keyName} />
      `}
    />
    <${Receipts} view=${view} show=${show} filters=${filters} keyName=${labels.keyName} />
  `;
}

/** The options of the filters, and the display names of keys. */
function namesOf(responses) {
  const nothing = { items: [] };
  const [models, graphs, used, keys] = responses ?? [nothing, nothing, nothing, nothing];
  const known = new Map(keys.items.map((key) => [key.id, key]));
  const keyName = (id) => {
    if (responses === null) return "…";
    const key = known.get(id);
    if (key === undefined) return `key ${id.slice(0, 8)}…`;
    if (key.name === null) return `${key.prefix}…`;
    return keys.items.filter(({ name }) => name === key.name).length > 1 ? `${key.name} (${key.prefix}…)` : key.name;
  };
  const groups = (report) => report.items.map((item) => item.group);
  return { keyName, options: { model: groups(models), graph: groups(graphs), key: groups(used) } };
}
