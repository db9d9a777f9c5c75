// The charges of a period: filters, alarms, totals, chart and receipts.

/** @import { Session } from "../shell.js" */
/** @import { Days, Show, View } from "./view.js" */

import { apiPath, get } from "../api.js";
import { html } from "../html.js";
import { loaded, useRequests } from "../parts/requests.js";
import { useWholeList, WHOLE_PAGE } from "../parts/whole_list.js";
import { Alarms } from "./alarms.js";
import { CacheMisses } from "./cache_misses.js";
import { Filters } from "./filters.js";
import { Ledger } from "./ledger.js";
import { Receipts } from "./receipts.js";
import { Reconciliation } from "./reconciliation.js";
import { anomaliesOf, BASELINE_DAYS } from "./spend/outliers.js";
import { Spend } from "./spend/spending.js";
import { labelsOf } from "./spend/splits.js";
import { Totals } from "./totals.js";
import { apiWindow, eachOf, passedOfMonth, periodBefore, periodDays, unitOf } from "./view.js";

const DAY_MS = 86_400_000;
/** How many end users or values of a tag are listed. */
const TOP = 50;
const NOTHING = { items: [] };

/** @param {{view: View, show: Show, who: Session}} props */
export function Overview({ view, show, who }) {
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
          : html`<${Period} view=${view} show=${show} who=${who} days=${days} />`
      }
    </main>
  `;
}

/** @param {{view: View, show: Show, who: Session, days: Days}} props */
function Period({ view, show, who, days }) {
  const window = apiWindow(days);
  const before = periodBefore(view, days);
  const unit = unitOf(view, days);
  const { account, split } = view;
  // Of all accounts there are only sums.
  const ofAll = split === "account" && account === "";
  const filters = {
    ...window,
    model: view.model,
    graphId: view.graph,
    apiKeyId: view.key,
    endUser: view.endUser,
    tag: view.tag,
    account,
  };
  const compared = { first: days.first - BASELINE_DAYS * DAY_MS, last: days.last };

  const about = { days: { ...days, unit }, before, compared, isMonth: view.period === "month" };
  const sums = useRequests(
    [
      apiPath("/v1/usage", { ...filters, groupBy: unit, splitBy: split }),
      apiPath("/v1/usage", { ...filters, groupBy: split, top: TOP }),
      apiPath("/v1/usage", { ...filters, ...apiWindow(before), groupBy: split, top: TOP }),
      // By account the sums of the days are of all accounts, as those of the parts.
      apiPath("/v1/usage", { ...filters, ...apiWindow(compared), groupBy: "day", splitBy: ofAll ? "account" : "" }),
      ofAll ? null : apiPath("/v1/balance", { account }),
      ofAll ? null : apiPath("/v1/budgets", { account }),
    ],
    about,
  );
  const totals = totalsOf(sums.responses ?? sums.arrived, sums.responses ? sums.about : about);
  const names = useRequests(
    [
      apiPath("/v1/usage", { ...window, account, groupBy: "model" }),
      apiPath("/v1/usage", { ...window, account, groupBy: "graph" }),
      apiPath("/v1/usage", { ...window, account, groupBy: "key" }),
      apiPath("/v1/usage", { ...window, account, groupBy: "endUser", top: TOP }),
    ],
    null,
  );
  const keys = useWholeList(account, (cursor) =>
    account === ""
      ? get(apiPath("/v1/keys", { limit: WHOLE_PAGE, cursor }))
      : get(apiPath("/v1/accounts/{account}/keys", { account, limit: WHOLE_PAGE, cursor })),
  );
  const accounts = useWholeList(who.may("admin") ? "" : null, (cursor) =>
    get(apiPath("/v1/accounts", { limit: WHOLE_PAGE, cursor })),
  );
  const labels = namesOf(names.responses, keys, accounts.items);
  return html`
    <${Filters} view=${view} show=${show} options=${labels.options} keyName=${labels.keyName} problem=${sums.problem} />
    ${ofAll ? html`<p class="notice">The sums are of all accounts; choose one for its receipts.</p>` : html`<${Alarms} window=${window} account=${account} />`}
    ${!sums.responses && !sums.problem && totals && html`<div>${totals}</div>`}
    ${loaded(sums, {
      what: "what was spent",
      show: ([perMoment, perPart, earlier, perDay, , budgets], shown) => html`
        ${totals}
        <${Spend}
          ...${{ view, show, who, perMoment, perPart, earlier }}
          days=${shown.days}
          top=${TOP}
          than=${shown.before.name}
          anomalies=${anomaliesOf(eachOf(shown.compared, "day"), creditsByDay(perDay))?.filter(({ day }) => Date.parse(day) >= shown.days.first) ?? null}
          budgets=${budgets?.items ?? []}
          labelFor=${labelsOf(perPart.groupBy ?? split, labels)}
        />
      `,
    })}
    ${
      // Nothing is requested before the sums.
      (sums.responses || sums.problem) &&
      html`
        <${Reconciliation} window=${window} />
        ${
          !ofAll &&
          html`
            <${CacheMisses} show=${show} filters=${filters} />
            <${Ledger} account=${account} />
            <${Receipts} view=${view} show=${show} filters=${filters} keyName=${labels.keyName} />
          `
        }
      `
    }
  `;
}

/**
 * The totals, if the responses that they are made of are there.
 * @param {Partial<readonly [UsageReport, UsageReport, UsageReport, UsageReport, Schemas["BalanceResponse"] | null, Schemas["Page_BudgetResponse_"] | null]>} responses
 * @param {{before: {name: string}, isMonth: boolean, days: Days}} shown
 */
function totalsOf([perMoment, , earlier, , balance, budgets], shown) {
  if (!perMoment || !earlier || balance === undefined || budgets === undefined) return null;
  return html`
    <${Totals}
      total=${perMoment.total}
      earlier=${{ name: shown.before.name, total: earlier.total }}
      passed=${shown.isMonth ? passedOfMonth(shown.days) : null}
      balance=${balance}
      budgets=${budgets?.items.filter(({ scope }) => scope === "account") ?? []}
    />
  `;
}

/** @param {UsageReport} perDay */
function creditsByDay(perDay) {
  /** @type {Map<string, number>} */
  const credits = new Map();
  for (const { group, chargedCredits } of perDay.items) {
    if (group !== null) credits.set(group, (credits.get(group) ?? 0) + chargedCredits);
  }
  return credits;
}

/**
 * The options of the filters, and the display names of keys and accounts.
 * @param {readonly Pick<UsageReport, "items">[] | null} reports
 * @param {{items: Schemas["ApiKeyResponse"][], isWhole: boolean}} keys
 * @param {Schemas["AccountResponse"][]} accounts
 */
function namesOf(reports, keys, accounts) {
  const known = new Map(keys.items.map((key) => [key.id, key]));
  /** @type {Map<string | null, number>} */
  const uses = new Map();
  for (const { name } of keys.items) uses.set(name, (uses.get(name) ?? 0) + 1);
  const keyName = (/** @type {string} */ id) => {
    const key = known.get(id);
    if (key === undefined) return keys.isWhole ? `key ${id.slice(0, 8)}…` : "…";
    if (key.name === null) return `${key.prefix}…`;
    return uses.get(key.name) === 1 ? key.name : `${key.name} (${key.prefix}…)`;
  };
  const accountNames = new Map(accounts.map(({ id, name }) => [id, name]));
  const [model, graph, key, endUser] = (reports ?? [NOTHING, NOTHING, NOTHING, NOTHING]).map(({ items }) =>
    items.flatMap(({ group }) => (group === null ? [] : [group])),
  );
  return {
    keyName,
    accountName: (/** @type {string} */ id) => accountNames.get(id) ?? id,
    options: { model, graph, key, endUser, account: accounts.map(({ name }) => name) },
  };
}
