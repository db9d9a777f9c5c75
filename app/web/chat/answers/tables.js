// Tables: scrolled sideways, and copied as CSV.

import { t } from "../../languages.js";
import { copyButton } from "./copy.js";

/** What spreadsheets take for a formula; numbers are none. */
const FORMULA = /^(?:[=@\t\r]|[+-](?![\d.,]+$))/;

/** @param {HTMLTableElement} table */
export function frameTable(table) {
  const frame = document.createElement("div");
  frame.className = "table";
  const scroll = document.createElement("div");
  scroll.className = "scroll-x";
  // Scrolling elements must be reachable by keyboard.
  scroll.tabIndex = 0;
  table.replaceWith(frame);
  scroll.append(table);
  frame.append(
    scroll,
    copyButton(t("copy-csv"), t("copy-csv"), () => csvOf(table)),
  );
}

/** @param {HTMLTableElement} table */
function csvOf(table) {
  const lines = Array.from(table.rows, (row) => Array.from(row.cells, (cell) => field(cell.textContent)).join(","));
  return `${lines.join("\r\n")}\r\n`;
}

/** @param {string} text */
function field(text) {
  const harmless = FORMULA.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless;
}
