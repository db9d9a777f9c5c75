// Notifications of the browser, of what happens while the page is hidden. They are off until a person asks for them.

import { html, useState } from "../html.js";
import { t } from "../languages.js";

const CHOSEN = "runtally.notices";

/** Whether this person wants them, and the browser shows them. */
export function notifies() {
  return localStorage.getItem(CHOSEN) === "on" && "Notification" in window && Notification.permission === "granted";
}

/**
 * Tell about something, unless the page is looked at; a later notice with the same title replaces it.
 * @param {string} title
 * @param {string} body
 */
export function notify(title, body) {
  if (document.hidden && notifies()) show(title, body);
}

/** @param {string} title @param {string} body */
function show(title, body) {
  const notice = new Notification(title, { body, tag: title });
  notice.addEventListener("click", () => {
    window.focus();
    notice.close();
  });
}

/** The button that asks for them; nothing where the browser has none, as on pages that are loaded by plain http. */
export function NoticeButton() {
  const [isOn, setOn] = useState(notifies);
  const [problem, setProblem] = useState("");
  if (!("Notification" in window)) return null;
  const change = async () => {
    const wanted = !isOn && (await Notification.requestPermission()) === "granted";
    localStorage.setItem(CHOSEN, wanted ? "on" : "off");
    setOn(wanted);
    setProblem(isOn || wanted ? "" : t("notices-refused"));
    try {
      if (wanted) show(t("notices-on"), t("notices-on-hint"));
    } catch (error) {
      // Browsers of phones show those of installed apps only.
      if (!(error instanceof TypeError)) throw error;
      localStorage.setItem(CHOSEN, "off");
      setOn(false);
      setProblem(t("notices-impossible"));
    }
  };
  return html`
    <div class="who-notices">
      <button type="button" class="button button-small" aria-pressed=${isOn ? "true" : "false"} onClick=${change}>
        ${t("notify-me")}
      </button>
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    </div>
  `;
}
