// Buttons that copy a text.

import { t } from "../../languages.js";
import { copied } from "../../parts/clipboard.js";

const SHOWN_MS = 2000;

/**
 * A button that copies a text and says so.
 * @param {string} label
 * @param {string} name for screen readers
 * @param {() => string} text
 */
export function copyButton(label, name, text) {
  const button = smallButton(label, name);
  button.addEventListener("click", async () => {
    const result = t((await copied(text())) ? "copied" : "not-copied");
    setLabel(button, result, result);
    setTimeout(() => setLabel(button, label, name), SHOWN_MS);
  });
  return button;
}

/** @param {string} label @param {string} name */
export function smallButton(label, name) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button button-plain button-small";
  setLabel(button, label, name);
  return button;
}

/** @param {HTMLButtonElement} button @param {string} label @param {string} name */
function setLabel(button, label, name) {
  button.textContent = label;
  button.setAttribute("aria-label", name);
}
