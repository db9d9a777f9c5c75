// Blocks of code: their language, buttons, and colours once the block is complete.

import { t } from "../../languages.js";
import { copyButton, smallButton } from "./copy.js";
import { highlighted } from "./highlighter.js";

const LANGUAGE = /^language-([\w+#.-]{1,30})$/;

/**
 * Put a block of code into a frame with its language and buttons.
 * @param {HTMLPreElement} pre
 */
export function frameCode(pre) {
  const frame = document.createElement("div");
  frame.className = "code";
  const bar = document.createElement("div");
  bar.className = "code-bar";
  const language = document.createElement("span");
  language.textContent = languageOf(pre) ?? t("code-text");
  const wrap = smallButton(t("wrap"), t("wrap-lines"));
  wrap.classList.add("code-wrap");
  wrap.setAttribute("aria-pressed", "false");
  wrap.addEventListener("click", () => {
    wrap.setAttribute("aria-pressed", String(pre.classList.toggle("code-wrapped")));
  });
  const text = pre.textContent;
  bar.append(
    language,
    wrap,
    copyButton(t("copy"), t("copy-code"), () => text),
  );
  // Scrolling elements must be reachable by keyboard.
  pre.tabIndex = 0;
  pre.replaceWith(frame);
  frame.append(bar, pre);
}

/**
 * Colour a block of code that is complete; it stays as it is if its language is unknown.
 * @param {HTMLPreElement} pre
 */
export async function highlight(pre) {
  const language = languageOf(pre);
  const code = pre.querySelector("code");
  if (language === null || code === null) return;
  const pieces = await highlighted({ code: code.textContent, language });
  if (!pieces) return;
  code.replaceChildren(
    ...pieces.map(([text, kind]) => {
      if (kind === "") return text;
      const piece = document.createElement("span");
      piece.className = kind;
      piece.textContent = text;
      return piece;
    }),
  );
}

/** @param {HTMLPreElement} pre */
export function languageOf(pre) {
  return LANGUAGE.exec(pre.querySelector("code")?.className ?? "")?.[1] ?? null;
}
