// The choice of the page's language.

import { html, withValue } from "../html.js";
import { LANGUAGES, choose, isChosenByPerson, language, t } from "../languages.js";

/** Nothing on pages that are English. */
export function LanguageChoice() {
  if (!isChosenByPerson) return null;
  return html`
    <label class="language">
      <span>${t("language")}</span>
      <select value=${language} onChange=${withValue(choose)}>
        ${Object.entries(LANGUAGES).map(
          ([tag, name]) =>
            html`<option key=${tag} value=${tag} lang=${tag} selected=${tag === language}>${name}</option>`,
        )}
      </select>
    </label>
  `;
}
