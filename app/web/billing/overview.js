// What was spent in a period: filters, alarms, totals, the chart, and the receipts themselves.

import { html } from "../html.js";
import { daysOf, windowOf, withQuery } from "./address.js";
import { Alarms } from "./alarms.js";
import { Filters } from "./filters.js";
import { Loaded, useAnswers } from "./load.js";
import { Receipts } from "./receipts.js";
import { Spend } from "./spend.js";
import { Totals } from "./totals.js";

export function Overview({ view, show }) {
  const days = daysOf(view);
  return html`
    <main id="main" class="page billing" tabindex="-1">
      <div class="head">
        <h1>Billing</h1>
        <p class="hint">Days and times are UTC.</p>
      </div>
      ${days === null
        ? html`<${Filters} view=${view} show=${show} options=${null} />
            <p class="notice notice-warn" role="alert">
              Choose a first day and a last day that is not before it, three years apart at most.
            </p>`
        : html`<${Period} view=${view} show=${show} days=${days} />`}
    </main>
  `;
}

function Period({ view, show, days }) {
  const window = windowOf(days);
  const wanted = { ...window, model: view.model, graphId: view.graph, apiKeyId: view.key };
  const usage = (parameters, filters = wanted) => withQuery("v1/usage", { ...parameters, ...filters });

  const names = useAnswers([
    usage({ groupBy: "model" }, window),
    usage({ groupBy: "graph" }, window),
    usage({ groupBy: "key" }, window),
    "v1/keys?limit=200",
  ]);
  const sums = useAnswers(
    [usage({ groupBy: "day", splitBy: view.split }), usage({ groupBy: view.split }), "v1/balance"],
    days,
  );
  const labels = namesOf(names.answers);
  return html`
    <${Filters} view=${view} show=${show} options=${labels.options} keyName=${labels.keyName} />
    <${Alarms} window=${window} />
    <${Loaded}
      of=${sums}
      what="what was spent"
      show=${([perDay, perPart, balance], asked) => html`
        <${Totals} total=${perDay.total} balance=${balance} />
        <${Spend} view=${view} show=${show} days=${asked} perDay=${perDay} perPart=${perPart} keyName=${labels.keyName} />
      `}
    />
    <${Receipts} view=${view} show=${show} wanted=${wanted} keyName=${labels.keyName} />
  `;
}

/** What there is to choose from, and what people call a key. */
function namesOf(answers) {
  const nothing = { items: [] };
  const [models, graphs, used, keys] = answers ?? [nothing, nothing, nothing, nothing];
  const known = new Map(keys.items.map((key) => [key.id, key]));
  const keyName = (id) => {
    if (answers === null) return "…";
    const key = known.get(id);
    if (key === undefined) return `key ${id.slice(0, 8)}…`;
    if (key.name === null) return `${key.prefix}…`;
    return keys.items.filter(({ name }) => name === key.name).length > 1 ? `${key.name} (${key.prefix}…)` : key.name;
  };
  const groups = (report) => report.items.map((item) => item.group);
  return { keyName, options: { model: groups(models), graph: groups(graphs), key: groups(used) } };
}
