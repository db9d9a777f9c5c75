// The credit of an account: what is left, automatic requests, grants and corrections, the ledger.

/** @import { Once } from "../parts/action.js" */
/** @import { Values } from "../parts/form.js" */
/** @import { Session } from "../shell.js" */

import { apiPath, post, put, remove } from "../api.js";
import { Ledger } from "../billing/ledger.js";
import { html, useState } from "../html.js";
import { formatExact, formatMoney, fromCredits, parseDollars, plainDecimal } from "../money.js";
import { Action } from "../parts/action.js";
import { loaded, useRequests } from "../parts/requests.js";
import { timeOf } from "../parts/table.js";

/** @typedef {Schemas["BalanceResponse"]} Balance */

const AMOUNT = /** @type {const} */ ({ name: "usd", label: "Amount, in dollars", required: true });

/** The credit of the caller's account. @param {{who: Session}} props */
export function OwnCredit({ who }) {
  const credit = useRequests([apiPath("/v1/balance")], null);
  return loaded(credit, {
    what: "the credit",
    show: ([found]) => html`<${Credit} balance=${found} reload=${credit.retry} mayTopUp=${who.may("budgets:write")} />`,
  });
}

/**
 * `account` is the name of another one than the caller's, for operators, who grant credit.
 * @param {{balance: Balance, reload: () => void, account?: string, mayTopUp?: boolean}} props
 */
export function Credit({ balance, reload, account = "", mayTopUp = true }) {
  const [changes, setChanges] = useState(0);
  const done = () => {
    reload();
    setChanges(changes + 1);
  };
  return html`
    <section class="card" aria-labelledby="credit-title">
      <h2 id="credit-title">Credit now</h2>
      <${Facts} balance=${balance} />
      <div class="row">
        ${account && html`<${Grant} account=${account} done=${done} /><${Adjust} account=${account} done=${done} />`}
        ${mayTopUp && html`<${TopUp} account=${account} topUp=${balance.topUp} done=${done} />`}
      </div>
    </section>
    <${Ledger} key=${changes} account=${account} />
  `;
}

/** @param {{balance: Balance}} props */
function Facts({ balance: { mode, leftUsd, available, grantedUsd, spentUsd, monthSpent, reserved, topUp } }) {
  const dollars = (/** @type {bigint} */ units) => html`<span title=${formatExact(units)}>${formatMoney(units)}</span>`;
  const facts = [
    ["Paid", mode === "prepaid" ? "before it is used" : "afterwards"],
    [mode === "prepaid" ? "Left" : "Balance", dollars(parseDollars(leftUsd))],
    ["For new runs", available !== null && dollars(fromCredits(Math.max(available, 0)))],
    ["Set aside for runs", reserved > 0 && dollars(fromCredits(reserved))],
    ["Granted", dollars(parseDollars(grantedUsd))],
    ["Spent", dollars(parseDollars(spentUsd))],
    ["Spent this month", dollars(fromCredits(monthSpent))],
    ["Requested automatically", topUp && topUpOf(topUp)],
  ];
  return html`
    <dl class="facts">${facts.filter(([, value]) => value).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
  `;
}

/** @param {NonNullable<Balance["topUp"]>} topUp */
function topUpOf({ amountUsd, belowUsd, perDay, requestedAt }) {
  return html`
    ${formatMoney(parseDollars(amountUsd))} below ${formatMoney(parseDollars(belowUsd))}, at most ${perDay} a day;
    ${requestedAt === null ? "not yet requested" : html`last at ${timeOf(requestedAt)}`}
  `;
}

/** @param {{account: string, done: () => void}} props */
function Grant({ account, done }) {
  return html`<${Action}
    label="Grant credit"
    title=${`Grant credit to ${account}`}
    words="The ledger keeps it for ever. What was granted too much is taken back by a correction."
    submit="Grant"
    isPrimary
    fields=${[
      AMOUNT,
      { name: "note", label: "Note, which the account sees" },
      { name: "expiresAt", label: "What is left expires at", kind: "time" },
      {
        name: "priority",
        label: "Priority",
        kind: "number",
        hint: "A grant with a lower number is spent first; 0 if you leave it empty.",
      },
    ]}
    send=${(/** @type {Values} */ { usd, note, expiresAt, priority }, /** @type {Once} */ key) => post(apiPath("/v1/accounts/{account}/grants", { account }), { usd, note, expiresAt, priority }, key)}
    done=${done}
  />`;
}

/** @param {{account: string, done: () => void}} props */
function Adjust({ account, done }) {
  return html`<${Action}
    label="Correct the credit"
    title=${`Correct the credit of ${account}`}
    words="It adds an entry to the ledger; no earlier entry changes."
    submit="Correct"
    fields=${[
      { ...AMOUNT, hint: "With a minus sign it takes credit away." },
      { name: "note", label: "Reason, which the account sees", required: true },
    ]}
    send=${(/** @type {Values} */ { usd, note }, /** @type {Once} */ key) => post(apiPath("/v1/accounts/{account}/adjustments", { account }), { usd, note }, key)}
    done=${done}
  />`;
}

/** @param {{account: string, topUp: Balance["topUp"], done: () => void}} props */
function TopUp({ account, topUp, done }) {
  const path = apiPath("/v1/balance/top-up", { account });
  return html`
    <${Action}
      label=${topUp ? "Change automatic requests" : "Request credit automatically"}
      title="Request credit automatically"
      words="When the credit falls below a limit, the webhook event credit.topup_requested is sent. Your own system decides, and grants it."
      submit="Save"
      fields=${[
        { name: "belowUsd", label: "Below, in dollars", value: topUp && plainDecimal(topUp.belowUsd), required: true },
        {
          name: "amountUsd",
          label: "How much is requested, in dollars",
          value: topUp && plainDecimal(topUp.amountUsd),
          required: true,
        },
        { name: "perDay", label: "At most how often a day", kind: "number", value: topUp?.perDay ?? 1, required: true },
      ]}
      send=${(/** @type {Values} */ { belowUsd, amountUsd, perDay }) => put(path, { belowUsd, amountUsd, perDay })}
      done=${done}
    />
    ${
      topUp &&
      html`<${Action}
        label="Stop automatic requests"
        title="Stop automatic requests?"
        words="No credit is requested any more. Credit that was granted stays."
        submit="Stop them"
        isDestructive
        send=${() => remove(path)}
        done=${done}
      />`
    }
  `;
}
