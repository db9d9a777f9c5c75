// The form of a run that has reached its budget: a higher limit, or its end.

import { ApiError } from "../api.js";
import { apiProblem } from "../chat/messages.js";
import { html, useState, withValue } from "../html.js";
import { t } from "../languages.js";
import { formatMoney, parseDollars } from "../money.js";

/** @typedef {{decision: "allow" | "deny", args?: Record<string, unknown>}} Raised */

/**
 * `budget` is null for those who may not see what runs cost.
 * @param {{budget: Schemas["ReachedBudget"] | null, decide: (raised: Raised) => Promise<void>}} props
 */
export function RaiseBudget({ budget, decide }) {
  const [limit, setLimit] = useState("");
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (/** @type {Raised} */ raised) => {
    setBusy(true);
    setProblem("");
    try {
      await decide(raised);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setProblem(apiProblem(error));
      setBusy(false);
    }
  };
  const raise = (/** @type {Event} */ event) => {
    event.preventDefault();
    submit({ decision: "allow", args: { maxBudgetUsd: limit.trim() } });
  };
  return html`
    <form class="consent" onSubmit=${raise} aria-label=${t("raise-budget")}>
      <p>
        <strong>${t("budget-reached")}</strong>
        ${
          budget !== null &&
          ` ${t("budget-spent", {
            spent: formatMoney(parseDollars(budget.spentUsd)),
            limit: formatMoney(parseDollars(budget.maxBudgetUsd)),
          })}`
        }
      </p>
      <label class="field">
        <span>${t("new-limit")}</span>
        <input inputmode="decimal" value=${limit} required onInput=${withValue(setLimit)} />
      </label>
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      <div class="row">
        <button class="button button-primary" disabled=${busy}>${t("raise-limit")}</button>
        <button type="button" class="button button-bad" disabled=${busy} onClick=${() => submit({ decision: "deny" })}>
          ${t("end-run")}
        </button>
      </div>
    </form>
  `;
}
