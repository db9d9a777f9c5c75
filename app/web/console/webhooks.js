// Webhooks of the account, and the deliveries of one.

/** @import { Column } from "../parts/table.js" */
/** @import { Session } from "../shell.js" */
/** @import { Field, Values } from "../parts/form.js" */
/** @import { Query } from "./view.js" */

import { apiPath, patch, post, remove } from "../api.js";
import { html } from "../html.js";
import { Action, Secret } from "../parts/action.js";
import { loaded, useRequests } from "../parts/requests.js";
import { badge, listed, Table, timeOf, usePages } from "../parts/table.js";
import { linkTo } from "./view.js";

const PAGE = 50;
const EVERY_MS = 5000;
const RUN_EVENTS = ["run.completed", "run.failed", "approval.requested", "batch.completed"];
const MONEY_EVENTS = ["receipt.created", "budget.threshold", "budget.reached", "credit.topup_requested"];
const FORMATS = /** @type {const} */ ([
  ["runtally", "signed events of ours"],
  ["cloudevents", "CloudEvents, for OpenMeter"],
  ["stripe", "meter events of Stripe"],
]);
const STATES = { pending: "partial", delivered: "succeeded", failed: "failed", cancelled: "cancelled" };

/** @typedef {Schemas["WebhookResponse"]} Webhook */
/** @typedef {Schemas["WebhookWithSecret"]} WithSecret */
/** @typedef {Schemas["DeliveryResponse"]} Delivery */
/** @typedef {{who: Session, webhook: Webhook, reload: () => void}} OfWebhook */

/** @param {{who: Session, query: Query}} props */
export function Webhooks({ who, query }) {
  return query.webhook
    ? html`<${OneWebhook} key=${query.webhook} who=${who} webhookId=${query.webhook} />`
    : html`<${AllWebhooks} who=${who} />`;
}

/** @param {Session} who */
const mayChange = (who) => who.may("runs:write") && who.may("runs:read");

/** @type {Column<Webhook>[]} */
const WEBHOOK_COLUMNS = [
  {
    label: "URL",
    show: ({ id, url }) => html`<a class="wrapped" href=${linkTo({ view: "webhooks", webhook: id })}>${url}</a>`,
  },
  { label: "Description", show: ({ description }) => html`<span class="wrapped">${description}</span>` },
  { label: "Events", show: ({ events }) => html`<span class="wrapped">${events.join(", ")}</span>` },
  { label: "State", show: (webhook) => stateOf(webhook) },
];

/** @param {{who: Session}} props */
function AllWebhooks({ who }) {
  const webhooks = useRequests([apiPath("/v1/webhooks")], null);
  return html`
    ${mayChange(who) && html`<div class="row"><${Register} who=${who} done=${webhooks.retry} /></div>`}
    ${loaded(webhooks, {
      what: "webhooks",
      show: ([{ items }]) =>
        items.length === 0
          ? html`<p class="empty">Nothing is sent anywhere.</p>`
          : html`<${Table} caption="Webhooks, newest first" rowKey="id" items=${items} columns=${WEBHOOK_COLUMNS} />`,
    })}
  `;
}

/** @param {Webhook} webhook */
function stateOf({ enabled, disabledReason, disabledAt }) {
  if (enabled) return badge("enabled", "succeeded");
  const why = { by_request: "by request", gone: "the receiver is gone", failing: "it failed for too long" };
  return html`${badge("disabled", "failed")} ${disabledReason && why[disabledReason]} ${timeOf(disabledAt)}`;
}

/** @param {Session} who @param {Webhook} [webhook] */
function fieldsOf(who, webhook) {
  const events = [...RUN_EVENTS, ...(who.may("receipts:read") ? MONEY_EVENTS : [])];
  return /** @type {Field[]} */ ([
    { name: "url", label: "URL", value: webhook?.url, required: true },
    {
      name: "events",
      label: "Events",
      kind: "choices",
      options: events.map((event) => [event, event]),
      value: webhook?.events ?? ["run.completed", "run.failed"],
    },
    { name: "description", label: "Description", value: webhook?.description },
  ]);
}

/** @param {{who: Session, done: () => void}} props */
function Register({ who, done }) {
  const fields = /** @type {Field[]} */ ([
    ...fieldsOf(who),
    {
      name: "format",
      label: "Format",
      kind: "choice",
      options: FORMATS,
      hint: "The latter two are sent receipts alone.",
    },
    { name: "eventType", label: "Name of the events", hint: "For CloudEvents and Stripe only." },
    { name: "subject", label: "Subject or customer", hint: "For CloudEvents and Stripe only; otherwise the end user." },
    { name: "secret", label: "Token of the receiver", hint: "For CloudEvents and Stripe only." },
  ]);
  return html`<${Action}
    label="Register a webhook"
    title="Register a webhook"
    submit="Register"
    isPrimary
    fields=${fields}
    send=${(/** @type {Values} */ values) => post(apiPath("/v1/webhooks"), /** @type {Schemas["WebhookRequest"]} */ (values))}
    result=${(/** @type {WithSecret} */ { secret }) => html`<${Secret} label="Its secret" secret=${secret} />`}
    done=${done}
  />`;
}

/** @param {{who: Session, webhookId: string}} props */
function OneWebhook({ who, webhookId }) {
  const webhook = useRequests([apiPath("/v1/webhooks/{webhookId}", { webhookId })], null);
  const reload = webhook.retry;
  return html`
    <p><a href=${linkTo({ view: "webhooks" })}>← All webhooks</a></p>
    ${loaded(webhook, {
      what: "the webhook",
      show: ([found]) => html`
        <section class="card" aria-labelledby="webhook-title">
          <div class="section-head"><h2 id="webhook-title">${found.url}</h2>${stateOf(found)}</div>
          <p class="hint">${found.description} ${found.events.join(", ")}; ${FORMATS.find(([name]) => name === found.format)?.[1]}</p>
          ${mayChange(who) && html`<${Changes} ...${{ who, webhook: found, reload }} />`}
        </section>
        <${Deliveries} who=${who} webhookId=${webhookId} />
      `,
    })}
  `;
}

/** @param {OfWebhook} props */
function Changes({ who, webhook: { id: webhookId, enabled, format, ...shown }, reload }) {
  const path = apiPath("/v1/webhooks/{webhookId}", { webhookId });
  const token = /** @type {Field[]} */ (
    format === "runtally" ? [] : [{ name: "secret", label: "Token of the receiver", required: true }]
  );
  return html`
    <div class="row">
      <${Action}
        label="Change"
        title="Change the webhook"
        submit="Save"
        fields=${fieldsOf(who, { id: webhookId, enabled, format, ...shown })}
        send=${(/** @type {Values} */ { url, events, description }) => patch(path, { url, events, description: description ?? null })}
        done=${reload}
      />
      <${Action}
        label=${enabled ? "Disable" : "Enable"}
        title=${enabled ? "Disable the webhook?" : "Enable the webhook?"}
        words=${enabled ? "Nothing more is sent. Deliveries that wait are cancelled; they can be repeated later." : "Events from now on are sent. Those of the time in between are not."}
        isDestructive=${enabled}
        send=${() => patch(path, { enabled: !enabled })}
        done=${reload}
      />
      <${Action}
        label="Replace the secret"
        title="Replace the secret?"
        words="All further attempts use the new one, also those of earlier deliveries. Until the receiver has it, it refuses them, and they are retried."
        submit="Replace it"
        isDestructive
        fields=${token}
        send=${(/** @type {Values} */ { secret }) => post(apiPath("/v1/webhooks/{webhookId}/secret", { webhookId }), { secret })}
        result=${(/** @type {WithSecret} */ { secret }) => html`<${Secret} label="The new secret" secret=${secret} />`}
        done=${reload}
      />
      <${Action}
        label="Delete"
        title="Delete the webhook?"
        words="Nothing more is sent, and the list of its deliveries is deleted with it. This cannot be undone."
        submit="Delete the webhook"
        isDestructive
        send=${() => remove(path)}
        result=${() => html`<p>It is deleted.</p>`}
        done=${() => location.assign(linkTo({ view: "webhooks" }))}
      />
    </div>
  `;
}

/** @param {{who: Session, webhookId: string}} props */
function Deliveries({ who, webhookId }) {
  const pages = usePages(
    (cursor) => apiPath("/v1/webhooks/{webhookId}/deliveries", { webhookId, limit: PAGE, cursor }),
    EVERY_MS,
  );
  const reload = pages.page.retry;
  const replay = (/** @type {string} */ deliveryId) =>
    html`<${Action}
      label="Repeat"
      about=${deliveryId}
      title="Repeat the delivery?"
      words="The same event with the same id is sent again, whatever became of it. A receiver that has it should ignore it."
      send=${() => post(apiPath("/v1/webhooks/{webhookId}/deliveries/{deliveryId}/replay", { webhookId, deliveryId }), undefined)}
      done=${reload}
    />`;
  /** @type {(Column<Delivery> | false)[]} */
  const columns = [
    { label: "Created", show: ({ createdAt }) => timeOf(createdAt) },
    { label: "Event", show: ({ event }) => event },
    { label: "State", show: ({ status }) => badge(status, STATES[status]) },
    { label: "Attempts", isNumber: true, show: ({ attempts }) => attempts },
    {
      label: "Last answer",
      show: ({ lastStatus, lastError }) => lastStatus ?? lastError?.replaceAll("_", " ") ?? "–",
    },
    { label: "Next attempt", show: ({ nextAttemptAt }) => timeOf(nextAttemptAt) },
    { label: "Delivered", show: ({ deliveredAt }) => timeOf(deliveredAt) },
    mayChange(who) && { label: "Actions", show: ({ id }) => replay(id) },
  ];
  return html`
    <section class="card" aria-labelledby="deliveries-title">
      <div class="section-head">
        <h2 id="deliveries-title">Deliveries</h2>
        ${mayChange(who) && html`<${ReplayFailed} webhookId=${webhookId} done=${reload} />`}
      </div>
      ${listed(pages, {
        of: "deliveries",
        none: "Nothing was sent in the last 30 days.",
        show: (items) =>
          html`<${Table} caption="Deliveries, newest first" rowKey="id" items=${items} columns=${columns} />`,
      })}
    </section>
  `;
}

/** @param {{webhookId: string, done: () => void}} props */
function ReplayFailed({ webhookId, done }) {
  return html`<${Action}
    label="Repeat what failed"
    title="Repeat what failed"
    words="All deliveries of this time that failed or were cancelled are sent again."
    submit="Repeat them"
    fields=${[
      { name: "from", label: "Created from", kind: "time", required: true },
      { name: "to", label: "Until", kind: "time" },
    ]}
    send=${(/** @type {Values} */ { from, to }) => post(apiPath("/v1/webhooks/{webhookId}/replay", { webhookId }), { from, to })}
    result=${(/** @type {Schemas["Replayed"]} */ { replayed }) => html`<p>Deliveries that are sent again: ${replayed}.</p>`}
    done=${done}
  />`;
}
