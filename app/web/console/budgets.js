// The budgets of an account, with what is used of them.

/** @import { Session } from "../shell.js" */
/** @import { Field, Values } from "../parts/form.js" */
/** @import { Query } from "./view.js" */

import { apiPath, put, remove } from "../api.js";
import { html } from "../html.js";
import { formatExact, formatMoney, parseDollars, plainDecimal } from "../money.js";
import { Action } from "../parts/action.js";
import { BudgetBar } from "../parts/budget_bar.js";
import { count } from "../parts/format.js";
import { loaded, useRequests } from "../parts/requests.js";
import { timeOf } from "../parts/table.js";

const SCOPES = /** @type {const} */ ([
  ["account", "the account"],
  ["key", "an API key"],
  ["endUser", "an end user"],
  ["tag", "a tag"],
  ["graph", "a graph"],
]);
const WINDOWS = /** @type {const} */ ([
  ["hour", "an hour"],
  ["day", "a day"],
  ["month", "a month"],
  ["total", "in total"],
]);
const MODES = /** @type {const} */ ([
  ["hard", "refuse what would exceed it"],
  ["soft", "only report when it is reached"],
]);

/** @typedef {Schemas["BudgetResponse"]} Budget */

/** @param {{who: Session, query: Query}} props */
export function Budgets({ who, query }) {
  const { account = "" } = query;
  const budgets = useRequests([apiPath("/v1/budgets", { account })], null);
  const reload = budgets.retry;
  return html`
    ${who.may("budgets:write") && html`<div class="row"><${SetBudget} account=${account} done=${reload} /></div>`}
    ${loaded(budgets, {
      what: "budgets",
      show: ([{ items }]) =>
        items.length === 0
          ? html`<p class="empty">There is no budget: nothing but credit and the limits of graphs ends what is spent.</p>`
          : html`<ul class="budgets">${items.map((budget) => html`<${OneBudget} key=${budget.id} ...${{ who, account, budget, reload }} />`)}</ul>`,
    })}
  `;
}

/** @param {{who: Session, account: string, budget: Budget, reload: () => void}} props */
function OneBudget({ who, account, budget, reload }) {
  const { id: budgetId, scope, match, window, mode, timeZone, resetsAt, byOperator } = budget;
  const mayChange = who.may("budgets:write") && (!byOperator || who.may("admin"));
  const each = match === null && scope !== "account" ? "each value of " : "";
  const facts = [
    ["For", `${each}${named(SCOPES, scope)}${match === null ? "" : ` ${match}`}`],
    ["Window", `${named(WINDOWS, window)}${timeZone === "UTC" ? "" : ` (${timeZone})`}`],
    ["When it is reached", named(MODES, mode)],
    ["Resets", resetsAt === null ? "never" : timeOf(resetsAt)],
    ["Left", leftOf(budget)],
    ["Set aside for calls", heldOf(budget)],
    ["Set by", byOperator ? "the operator" : "the account"],
  ];
  return html`
    <li class="card">
      <h2>${budgetId}</h2>
      <${BudgetBar} budget=${budget} />
      <dl class="facts">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
      ${
        mayChange &&
        html`
        <div class="row">
          <${SetBudget} account=${account} budget=${budget} done=${reload} />
          <${Action}
            label="Delete"
            about=${budgetId}
            title=${`Delete the budget ${budgetId}?`}
            words="Nothing is limited by it any more, from the next call on. Receipts and sums stay."
            submit="Delete the budget"
            isDestructive
            send=${() => remove(apiPath("/v1/budgets/{budgetId}", { budgetId, account }))}
            done=${reload}
          />
        </div>
      `
      }
    </li>
  `;
}

/** @param {readonly (readonly [string, string])[]} names @param {string} value */
function named(names, value) {
  return names.find(([name]) => name === value)?.[1] ?? value;
}

/** @param {Budget} budget */
function leftOf({ remainingUsd, remainingTokens }) {
  if (remainingUsd === null) return `${count(remainingTokens ?? 0)} tokens`;
  const left = parseDollars(remainingUsd);
  return html`<span title=${formatExact(left)}>${formatMoney(left)}</span>`;
}

/** @param {Budget} budget */
function heldOf({ usd, heldUsd, heldTokens }) {
  return usd === null ? `${count(heldTokens)} tokens` : formatMoney(parseDollars(heldUsd));
}

/** @param {{account: string, budget?: Budget, done: () => void}} props */
function SetBudget({ account, budget, done }) {
  const id = /** @type {Field} */ ({
    name: "id",
    label: "Name",
    required: true,
    hint: "Letters, digits, dots, hyphens and underscores. One of this name is replaced.",
  });
  const fields = /** @type {Field[]} */ ([
    ...(budget ? [] : [id]),
    { name: "scope", label: "It limits", kind: "choice", options: SCOPES, value: budget?.scope },
    {
      name: "match",
      label: "Only this one",
      value: budget?.match,
      hint: "The id of a key or graph, an end user, or name=value of a tag. Empty: each by itself.",
    },
    {
      name: "unit",
      label: "In",
      kind: "choice",
      options: [
        ["usd", "dollars"],
        ["tokens", "tokens"],
      ],
      value: budget && budget.usd === null ? "tokens" : "usd",
    },
    {
      name: "amount",
      label: "How much",
      value: budget?.usd ? plainDecimal(budget.usd) : budget?.tokens,
      required: true,
    },
    { name: "window", label: "In which time", kind: "choice", options: WINDOWS, value: budget?.window ?? "month" },
    { name: "mode", label: "When it is reached", kind: "choice", options: MODES, value: budget?.mode },
    { name: "timeZone", label: "Time zone of its days and months", value: budget?.timeZone ?? "UTC", required: true },
  ]);
  return html`<${Action}
    label=${budget ? "Change" : "Create a budget"}
    about=${budget?.id}
    title=${budget ? `Change the budget ${budget.id}` : "Create a budget"}
    words="What was spent in its current window counts."
    submit="Save"
    isPrimary=${!budget}
    fields=${fields}
    send=${(/** @type {Values} */ values) => put(apiPath("/v1/budgets/{budgetId}", { budgetId: budget?.id ?? values.id, account }), requestOf(values))}
    done=${done}
  />`;
}

/** @param {Values} values */
function requestOf({ scope, match, unit, amount, window, mode, timeZone }) {
  const limit = unit === "tokens" ? { tokens: Number(amount) } : { usd: amount };
  return { scope, match, window, mode, timeZone, ...limit };
}
