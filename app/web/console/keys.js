// The API keys of an account: made, rotated and revoked by who may; only listed for others.

/** @import { Column } from "../parts/table.js" */
/** @import { Session } from "../shell.js" */
/** @import { Field, Values } from "../parts/form.js" */
/** @import { Query } from "./view.js" */

import { apiPath, post, remove } from "../api.js";
import { html } from "../html.js";
import { Action, Secret } from "../parts/action.js";
import { badge, listed, Table, timeOf, usePages } from "../parts/table.js";

const PAGE = 50;
const HOUR_S = 3600;
/** @type {Record<NonNullable<Schemas["KeyRequest"]["scopes"]>[number], string>} */
const SCOPES = {
  "runs:write": "start and stop runs",
  "runs:read": "read runs and conversations",
  "runs:approve": "decide about tool calls that wait",
  "runs:share": "make links that show a conversation without signing in",
  "runs:audit": "read prompts and whole arguments as evidence",
  "external:write": "call the model as it is, with Claude Code or another client",
  "receipts:read": "read what was spent",
  "metrics:read": "read the metrics of the server",
  "budgets:write": "set budgets",
  "keys:write": "create and revoke keys",
  admin: "all accounts and their credit: only for operators",
};

/** @typedef {Schemas["ApiKeyResponse"]} Key */
/** @typedef {Schemas["ManagedKey"]} ManagedKey */
/** @typedef {Schemas["CreatedKey"]} CreatedKey */

/** @param {{who: Session, query: Query}} props */
export function Keys({ who, query }) {
  return who.may("keys:write")
    ? html`<${ManagedKeys} who=${who} account=${query.account || who.account} />`
    : html`<${ListedKeys} />`;
}

function ListedKeys() {
  const pages = usePages((cursor) => apiPath("/v1/keys", { limit: PAGE, cursor }));
  return listed(pages, {
    of: "keys",
    none: "The account has no keys.",
    show: (items) => html`<${Table} caption="API keys, newest first" rowKey="id" items=${items} columns=${COLUMNS} />`,
  });
}

/** @type {Column<Key>[]} */
const COLUMNS = [
  { label: "Name", show: ({ name }) => html`<span class=${name ? "wrapped" : "muted"}>${name ?? "none"}</span>` },
  { label: "Key", show: ({ prefix }) => html`<code>${prefix}…</code>` },
  { label: "State", show: (key) => stateOf(key) },
  { label: "Created", show: ({ createdAt }) => timeOf(createdAt) },
  { label: "Last used", show: ({ lastUsedAt }) => timeOf(lastUsedAt) },
];

/** @param {Key & Partial<ManagedKey>} key */
function stateOf({ revokedAt, expiresAt }) {
  if (revokedAt !== null) return html`${badge("revoked", "failed")} ${timeOf(revokedAt)}`;
  if (!expiresAt) return badge("valid", "succeeded");
  const isOver = Date.parse(expiresAt) <= Date.now();
  return html`${isOver ? badge("expired", "failed") : badge("until", "partial")} ${timeOf(expiresAt)}`;
}

/** @param {{who: Session, account: string}} props */
function ManagedKeys({ who, account }) {
  const pages = usePages((cursor) => apiPath("/v1/accounts/{account}/keys", { account, limit: PAGE, cursor }));
  const reload = pages.page.retry;
  /** @type {Column<ManagedKey>[]} */
  const columns = [
    ...COLUMNS,
    {
      label: "May",
      show: ({ scopes }) =>
        html`<span class="scopes">${scopes.map((scope) => html`<code class="scope">${scope}</code> `)}</span>`,
    },
    { label: "Restricted to", show: restrictionsOf },
    {
      label: "Actions",
      show: (key) => key.revokedAt === null && html`<${Changes} who=${who} key=${key.id} of=${key} reload=${reload} />`,
    },
  ];
  return html`
    <div class="row"><${Create} who=${who} account=${account} done=${reload} /></div>
    ${listed(pages, {
      of: "keys",
      none: `The account ${account} has no keys.`,
      show: (items) =>
        html`<${Table} caption="API keys, newest first" rowKey="id" items=${items} columns=${columns} />`,
    })}
  `;
}

/** @param {ManagedKey} key */
function restrictionsOf({ graphs, models, limits, labels }) {
  const { requestsPerMinute, concurrentRuns } = limits;
  const tags = Object.entries(labels?.tags ?? {}).map(([name, value]) => `${name}=${value}`);
  const restrictions = [
    graphs && `graphs ${graphs.join(", ")}`,
    models && `models ${models.join(", ")}`,
    requestsPerMinute !== null && `${requestsPerMinute} requests a minute`,
    concurrentRuns !== null && `${concurrentRuns} runs at once`,
    labels && `${labels.fixed ? "only as" : "labelled"} ${[labels.endUser, ...tags].filter(Boolean).join(", ")}`,
  ].filter(Boolean);
  return restrictions.length > 0 && html`<span class="wrapped">${restrictions.join("; ")}</span>`;
}

/** @param {{who: Session, account: string, done: () => void}} props */
function Create({ who, account, done }) {
  // A key gives what it may itself, and `admin` gives anything.
  const given = Object.entries(SCOPES).filter(([scope]) => who.may(scope) || who.may("admin"));
  const fields = /** @type {Field[]} */ ([
    { name: "name", label: "Name", hint: "To tell it from others; receipts and the audit log show it." },
    {
      name: "scopes",
      label: "It may",
      kind: "choices",
      options: given.map(([scope, words]) => [scope, `${scope}: ${words}`]),
      value: ["runs:write", "runs:read"],
    },
    { name: "expiresAt", label: "Expires at", kind: "time" },
    { name: "graphs", label: "Only these graphs", hint: "Ids, separated by blanks; * stands for any characters." },
    {
      name: "models",
      label: "Only these models",
      hint: "Ids or aliases, separated by blanks; * stands for any characters.",
    },
    { name: "limits.requestsPerMinute", label: "Requests a minute", kind: "number" },
    { name: "limits.concurrentRuns", label: "Runs at once", kind: "number" },
    { name: "labels.endUser", label: "End user of its runs" },
    { name: "labels.tags", label: "Tags of its runs", hint: "team=search, separated by blanks." },
    {
      name: "labels.fixed",
      label: "Requests may name no other end user, and no other value of these tags",
      kind: "flag",
    },
  ]);
  return html`<${Action}
    label="Create a key"
    title=${`Create a key of ${account}`}
    submit="Create"
    isPrimary
    fields=${fields}
    send=${(/** @type {Values} */ values) => post(apiPath("/v1/accounts/{account}/keys", { account }), requestOf(values))}
    result=${(/** @type {CreatedKey} */ { key }) => html`<${Secret} label="The key" secret=${key} />`}
    done=${done}
  />`;
}

/** @param {Values} values */
function requestOf(values) {
  const words = (/** @type {string | undefined} */ text) => text?.split(/[\s,]+/);
  const [endUser, tags, fixed] = ["endUser", "tags", "fixed"].map((name) => values[`labels.${name}`]);
  const named = words(tags)?.map(
    (tag) => /** @type {[string, string]} */ ([tag.split("=", 1)[0], tag.split("=").slice(1).join("=")]),
  );
  return {
    name: values.name,
    scopes: values.scopes,
    expiresAt: values.expiresAt,
    graphs: words(values.graphs),
    models: words(values.models),
    limits: { requestsPerMinute: values["limits.requestsPerMinute"], concurrentRuns: values["limits.concurrentRuns"] },
    labels: endUser || named ? { endUser, tags: named && Object.fromEntries(named), fixed } : undefined,
  };
}

/** @param {{who: Session, of: ManagedKey, reload: () => void}} props */
function Changes({ who, of: { id: keyId, name, prefix }, reload }) {
  const called = `${name ?? ""} ${prefix}…`.trim();
  const isOwn = prefix === who.keyPrefix;
  return html`
    <span class="row">
      <${Action}
        label="Rotate"
        about=${called}
        title=${`Rotate the key ${called}`}
        words="A new key with the same rights is made, and the old one ends after the time below. Schedules and batches go on with the new key."
        fields=${[{ name: "overlapS", label: "The old key stays valid for, in seconds", kind: "number", value: HOUR_S, required: true }]}
        send=${(/** @type {Values} */ { overlapS }) => post(apiPath("/v1/keys/{keyId}/rotate", { keyId }), { overlapS })}
        result=${(/** @type {CreatedKey} */ { key }) => html`<${Secret} label="The new key" secret=${key} />`}
        done=${reload}
      />
      <${Action}
        label="Revoke"
        about=${called}
        title=${`Revoke the key ${called}?`}
        words=${`Requests with it are refused from now on, its open streams end within a second, and its schedules are paused. It cannot be made valid again.${isOwn ? " You are signed in with this key: it also signs you out." : ""}`}
        submit="Revoke the key"
        isDestructive
        fields=${[{ name: "stopRuns", label: "Also cancel its runs that are queued or running", kind: "flag" }]}
        send=${(/** @type {Values} */ { stopRuns }) => remove(apiPath("/v1/keys/{keyId}", { keyId, stopRuns }))}
        done=${reload}
      />
    </span>
  `;
}
