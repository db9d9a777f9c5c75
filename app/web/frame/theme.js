// The look that a site gives the chat.

const COLOURS = [
  ...["accent", "accent-strong", "accent-soft", "on-accent", "ground", "surface", "raised"],
  ...["line", "line-strong", "text", "muted"],
];
/** A colour without a reference to anything else. */
const PLAIN = /^[#\w\s.,%/()-]{1,100}$/;
const LENGTH = /^\d{1,2}(?:\.\d{1,2})?px$/;
const FONTS = /^[\w\s,"'-]{1,200}$/;

/**
 * Set what is allowed, and leave out the rest: the values are a foreign page's.
 * @param {unknown} theme
 */
export function applyTheme(theme) {
  if (typeof theme !== "object" || theme === null) return;
  for (const [name, value] of Object.entries(theme)) {
    if (typeof value === "string" && isAllowed(name, value)) {
      document.documentElement.style.setProperty(`--${name}`, value);
    }
  }
}

/** @param {string} name @param {string} value */
function isAllowed(name, value) {
  if (name === "radius") return LENGTH.test(value);
  if (name === "font") return FONTS.test(value);
  return COLOURS.includes(name) && PLAIN.test(value) && !value.includes("var(") && CSS.supports("color", value);
}

/**
 * Make the style sheets light or dark, whatever the browser prefers.
 * @param {unknown} scheme
 */
export function applyScheme(scheme) {
  if (scheme !== "light" && scheme !== "dark") return;
  document.documentElement.style.colorScheme = scheme;
  for (const { cssRules } of document.styleSheets) {
    for (const rule of cssRules) {
      const isDark = rule instanceof CSSMediaRule && rule.conditionText.includes("prefers-color-scheme: dark");
      if (isDark) rule.media.mediaText = scheme === "dark" ? "all" : "not all";
    }
  }
}
