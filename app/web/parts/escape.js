// Menus that the key Escape closes.

/** @param {KeyboardEvent & {currentTarget: HTMLDetailsElement}} event */
export function closeOnEscape(event) {
  if (event.key !== "Escape") return;
  event.currentTarget.open = false;
  event.currentTarget.querySelector("summary")?.focus();
}
