// The search of the guide, its list of pages and its diagrams. What the search looks through is loaded when it is opened first.

/** @typedef {{name: string, title: string, sections: [id: string, heading: string, text: string][]}} Page */
/** @typedef {{page: Page, id: string, heading: string, text: string, score: number}} Found */

const MOST_FOUND = 20;
const AROUND = 70;
const dialog = /** @type {HTMLDialogElement} */ (document.getElementById("guide-search"));
const input = /** @type {HTMLInputElement} */ (dialog.querySelector("input"));
const notice = /** @type {HTMLElement} */ (dialog.querySelector("p"));
const list = /** @type {HTMLElement} */ (dialog.querySelector("ol"));
const button = /** @type {HTMLElement} */ (document.getElementById("open-search"));

/** @type {Page[]} */
let pages = [];

button.hidden = false;
button.addEventListener("click", open);
input.addEventListener("input", show);
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || dialog.open) return;
  event.preventDefault();
  open();
});
dialog.addEventListener("click", (event) => {
  // A link to a section of this page loads nothing.
  if (event.target instanceof Element && event.target.closest("a")) dialog.close();
});

// The page that is read, in the long list of all.
const current = /** @type {HTMLElement | null} */ (document.querySelector("#pages [aria-current]"));
document.getElementById("pages")?.scrollTo(0, (current?.offsetTop ?? 0) - innerHeight / 2);

const diagrams = /** @type {NodeListOf<HTMLPreElement>} */ (document.querySelectorAll("pre:has(> .language-mermaid)"));
if (diagrams.length > 0) {
  import("./chat/diagrams/diagram.js").then(({ drawDiagram }) => diagrams.forEach(drawDiagram));
}

async function open() {
  dialog.showModal();
  input.select();
  if (pages.length > 0) return;
  notice.textContent = "Loading…";
  const response = await fetch(dialog.dataset.index ?? "").catch(() => null);
  if (!response?.ok) {
    notice.textContent = "The search cannot be loaded. Close it and try again.";
    return;
  }
  pages = await response.json();
  show();
}

function show() {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = words.length > 0 ? find(words) : [];
  notice.textContent =
    words.length === 0
      ? "Words of a title, a heading or the text."
      : found.length > 0
        ? ""
        : "Nothing has all these words.";
  list.replaceChildren(...found.map((each) => item(each, words)));
}

/**
 * The sections that have all words, those with a word in the title or heading first.
 * @param {string[]} words
 * @returns {Found[]}
 */
function find(words) {
  const found = pages.flatMap((page) =>
    page.sections.flatMap(([id, heading, text]) => {
      const places = [id ? "" : page.title, heading, `${page.title} ${text}`].map((place) => place.toLowerCase());
      const scores = words.map((word) => [8, 4, 1].find((_, index) => places[index].includes(word)) ?? 0);
      return scores.includes(0) ? [] : [{ page, id, heading, text, score: scores.reduce((sum, score) => sum + score) }];
    }),
  );
  return found.sort((one, other) => other.score - one.score).slice(0, MOST_FOUND);
}

/**
 * @param {Found} found
 * @param {string[]} words
 */
function item({ page, id, heading, text }, words) {
  const link = document.createElement("a");
  link.href = `${dialog.dataset.pages}${page.name && `/${page.name}`}${id && `#${id}`}`;
  link.textContent = heading === page.title ? heading : `${page.title}: ${heading}`;
  const at = Math.max(0, ...words.map((word) => text.toLowerCase().indexOf(word)));
  const excerpt = document.createElement("small");
  excerpt.textContent = text.slice(Math.max(0, at - AROUND), at + AROUND);
  link.append(excerpt);
  const result = document.createElement("li");
  result.append(link);
  return result;
}
