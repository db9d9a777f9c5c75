// The page where a person signs in a program that shows a code.

/** @import { Session } from "./shell.js" */

import { ApiError, apiPath, get, post } from "./api.js";
import { html, useState, withValue } from "./html.js";
import { locale, t, tWithElements } from "./languages.js";
import { startPage } from "./shell.js";

const LOGIN = "/v1/logins/{userCode}";

/** @typedef {Schemas["LoginResponse"]} Login */

/** @param {{who: Session}} props */
function DevicePage({ who }) {
  const [code, setCode] = useState(new URLSearchParams(location.search).get("user_code") ?? "");
  const [login, setLogin] = useState(/** @type {Login | null} */ (null));
  const [problem, setProblem] = useState("");
  const [outcome, setOutcome] = useState("");
  const [busy, setBusy] = useState(false);

  const attempt = async (/** @type {() => Promise<void>} */ send) => {
    setBusy(true);
    setProblem("");
    try {
      await send();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setProblem(error.message);
    }
    setBusy(false);
  };
  const look = (/** @type {Event} */ event) => {
    event.preventDefault();
    attempt(async () => setLogin(await get(apiPath(LOGIN, { userCode: written(code) }))));
  };
  const decide = (/** @type {"allow" | "deny"} */ decision) =>
    attempt(async () => {
      await post(apiPath(LOGIN, { userCode: written(code) }), { decision });
      setOutcome(t(decision === "allow" ? "device-allowed" : "device-denied"));
    });

  return html`
    <main id="main" class="page stack" tabindex="-1">
      <h1>${t("page-device")}</h1>
      ${!who.may("external:write") && html`<p class="notice notice-warn">${tWithElements("device-needs-scope", { scope: html`<code>external:write</code>` })}</p>`}
      ${problem && html`<p class="notice notice-bad" role="alert">${problem}</p>`}
      ${
        outcome
          ? html`<p class="notice" role="status">${outcome}</p>`
          : login
            ? html`<${Decision} who=${who} login=${login} busy=${busy} decide=${decide} />`
            : html`
                <form class="card stack" onSubmit=${look}>
                  <label class="field">
                    <span>${t("device-code")}</span>
                    <input value=${code} required autocomplete="off" spellcheck="false" onInput=${withValue(setCode)} />
                  </label>
                  <p><button class="button button-primary" disabled=${busy}>${t("device-continue")}</button></p>
                </form>
              `
      }
    </main>
  `;
}

/** @param {{who: Session, login: Login, busy: boolean, decide: (decision: "allow" | "deny") => void}} props */
function Decision({ who, login, busy, decide }) {
  return html`
    <section class="card stack" aria-label=${t("device-login")}>
      <p>
        ${tWithElements("device-words", {
          who: html`<strong>${who.person?.endUser ?? who.account}</strong>`,
          account: html`<strong>${who.account}</strong>`,
        })}
      </p>
      <dl class="facts">
        <div><dt>${t("code")}</dt><dd><code>${login.userCode}</code></dd></div>
        <div><dt>${t("device-program")}</dt><dd>${login.client || t("without-name")}</dd></div>
        <div><dt>${t("device-address")}</dt><dd>${login.address ?? t("unknown")}</dd></div>
        <div><dt>${t("device-begun")}</dt><dd>${new Date(login.createdAt).toLocaleString(locale)}</dd></div>
      </dl>
      <div class="row">
        <button type="button" class="button button-primary" disabled=${busy} onClick=${() => decide("allow")}>${t("allow")}</button>
        <button type="button" class="button button-bad" disabled=${busy} onClick=${() => decide("deny")}>${t("deny")}</button>
      </div>
    </section>
  `;
}

/**
 * A code as it is written, however a person types it.
 * @param {string} code
 */
function written(code) {
  const letters = code.toUpperCase().replace(/[^A-Z]/g, "");
  return `${letters.slice(0, 4)}-${letters.slice(4)}`;
}

startPage({ name: "device", Page: DevicePage });
