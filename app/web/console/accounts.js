// Accounts, for operators: all of them, or one with its credit.

/** @import { Column } from "../parts/table.js" */
/** @import { Values } from "../parts/form.js" */
/** @import { Query } from "./view.js" */

import { apiPath, patch, post } from "../api.js";
import { html } from "../html.js";
import { Action } from "../parts/action.js";
import { loaded, useRequests } from "../parts/requests.js";
import { badge, listed, Table, timeOf, usePages } from "../parts/table.js";
import { Credit } from "./credit.js";
import { linkTo } from "./view.js";

const PAGE = 50;
const NAME_HINT = "Letters, digits, dots, hyphens and underscores.";

/** For how many days what is kept. @type {[keyof Schemas["ShownRetention"], string][]} */
const RETENTION = [
  ["contentsDays", "Requests and answers"],
  ["eventsDays", "Events"],
  ["evidenceDays", "Evidence"],
  ["workspacesDays", "Files of runs"],
  ["transcriptsDays", "Conversations"],
];

/** @typedef {Schemas["AccountResponse"]} Account */
/** @typedef {Schemas["AccountBalance"]} Balance */

/** @param {{query: Query}} props */
export function Accounts({ query }) {
  return query.account ? html`<${OneAccount} key=${query.account} name=${query.account} />` : html`<${AllAccounts} />`;
}

/** @type {Column<Account>[]} */
const COLUMNS = [
  { label: "Name", show: ({ name }) => html`<a href=${linkTo({ view: "accounts", account: name })}>${name}</a>` },
  { label: "State", show: ({ suspendedAt }) => stateOf(suspendedAt) },
  { label: "Created", show: ({ createdAt }) => timeOf(createdAt) },
  { label: "Of it", show: ({ name }) => html`<${Links} account=${name} />` },
];

function AllAccounts() {
  const pages = usePages((cursor) => apiPath("/v1/accounts", { limit: PAGE, cursor }));
  return html`
    <div class="row">
      <${Action}
        label="Create an account"
        title="Create an account"
        words="It has no keys and no credit yet."
        submit="Create"
        isPrimary
        fields=${[{ name: "name", label: "Name", required: true, hint: NAME_HINT }]}
        send=${(/** @type {Values} */ { name }) => post(apiPath("/v1/accounts"), { name })}
        done=${pages.page.retry}
      />
    </div>
    ${listed(pages, {
      of: "accounts",
      none: "There is no account.",
      show: (items) =>
        html`<${Table} caption="Accounts, newest first" rowKey="id" items=${items} columns=${COLUMNS} />`,
    })}
  `;
}

/** @param {{account: string}} props */
function Links({ account }) {
  const views = [
    ["keys", "Keys"],
    ["budgets", "Budgets"],
    ["statements", "Statements"],
    ["audit", "Audit log"],
  ];
  return html`<span class="row">${views.map(
    ([view, label]) => html`<a href=${linkTo({ view, account })} aria-label=${`${label} of ${account}`}>${label}</a>`,
  )}</span>`;
}

/** @param {string | null} suspendedAt */
function stateOf(suspendedAt) {
  return suspendedAt === null
    ? badge("active", "succeeded")
    : html`${badge("suspended", "failed")} since ${timeOf(suspendedAt)}`;
}

/** @param {{name: string}} props */
function OneAccount({ name }) {
  const account = useRequests([apiPath("/v1/accounts/{account}", { account: name })], null);
  return html`
    <p><a href=${linkTo({ view: "accounts" })}>← All accounts</a></p>
    ${loaded(account, {
      what: `the account ${name}`,
      show: ([found]) => html`
        <section class="card" aria-labelledby="account-title">
          <div class="section-head"><h2 id="account-title">${found.account}</h2>${stateOf(found.suspendedAt)}</div>
          <div class="row"><${Links} account=${name} /></div>
          <div class="row"><${Changes} account=${found} reload=${account.retry} /></div>
        </section>
        <${Credit} account=${name} balance=${found} reload=${account.retry} />
      `,
    })}
  `;
}

/** @param {{account: Balance, reload: () => void}} props */
function Changes({ account: { account, suspendedAt, mode, retention }, reload }) {
  const path = apiPath("/v1/accounts/{account}", { account });
  const other = mode === "prepaid" ? "postpaid" : "prepaid";
  return html`
    <${Action}
      label="Rename"
      title=${`Rename ${account}`}
      words="Keys, runs and credit stay as they are. Commands, links and settings that name the account need the new name."
      fields=${[{ name: "name", label: "New name", value: account, required: true, hint: NAME_HINT }]}
      send=${(/** @type {Values} */ { name }) => patch(path, { name })}
      result=${(/** @type {Schemas["ChangedAccount"]} */ changed) => html`<p>It is called <a href=${linkTo({ view: "accounts", account: changed.account })}>${changed.account}</a> now.</p>`}
      done=${() => {}}
    />
    <${Action}
      label="Keep less"
      title=${`Days for which contents of ${account} are kept`}
      words="What is older is deleted within a minute or two, and cannot be brought back. Receipts, the list of runs and the audit log stay. An empty field is as by default."
      isDestructive
      fields=${RETENTION.map(([name, label]) => ({ name: `retention.${name}`, label, kind: "number", value: retention[name] }))}
      send=${(/** @type {Values} */ values) => patch(path, { retention: retentionOf(values) })}
      done=${reload}
    />
    <${Action}
      label=${`Make it ${other}`}
      title=${`Make ${account} ${other}?`}
      words=${
        other === "prepaid"
          ? "From now on its runs need credit that was granted before: without any they are refused."
          : "From now on its runs need no credit. Only budgets limit what it spends."
      }
      send=${() => patch(path, { mode: other })}
      done=${reload}
    />
    ${
      suspendedAt === null
        ? html`<${Action}
            label="Suspend"
            title=${`Suspend ${account}?`}
            words="All its keys and sessions are refused from now on, and its open streams end within a second. Runs that have begun go on, unless you stop them. Nothing is deleted: resuming the account undoes it."
            isDestructive
            fields=${[{ name: "stopRuns", label: "Also stop its runs that are queued or running", kind: "flag" }]}
            send=${(/** @type {Values} */ { stopRuns }) => patch(path, { suspended: true, stopRuns })}
            result=${(/** @type {Schemas["ChangedAccount"]} */ { stoppedRuns }) => html`<p>It is suspended. Runs that are being stopped: ${stoppedRuns}.</p>`}
            done=${reload}
          />`
        : html`<${Action}
            label="Resume"
            title=${`Resume ${account}?`}
            words="Its keys are accepted again. Runs that were stopped stay so."
            send=${() => patch(path, { suspended: false })}
            done=${reload}
          />`
    }
  `;
}

/** @param {Values} values */
function retentionOf(values) {
  return Object.fromEntries(RETENTION.map(([name]) => [name, values[`retention.${name}`] ?? null]));
}
