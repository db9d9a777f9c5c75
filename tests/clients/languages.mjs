// What is wrong with the messages of the pages, and with how scripts use them; as JSON, by kind.
import { readFileSync, readdirSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { FluentBundle, FluentResource } from "@fluent/bundle";
import ts from "typescript";

const WEB = join(import.meta.dirname, "../../app/web");
/** The pages that people use; the others are English. */
const PAGES = ["chat.js", "approvals.js", "device.js", "shared.js", "frame.js"];
const FUNCTIONS = ["t", "tIfKnown", "tWithElements"];
const SHOWN = /\b(?:aria-label|title|placeholder|alt|name|label|hint)="([^"]*)"/g;
/** What is the same in all languages: the name, scopes, and the scheme of a header. */
const NAMES = /^(?:Runtally|[a-z]+:[a-z]+|Bearer )$/;

/** @typedef {{variables: Set<string>, shown: Set<string>, cases: string[][]}} About */

const source = (path) => readFileSync(join(WEB, path), "utf8");
const listed = (set) => [...set].sort().join(", ");

/** The messages of a language: the variables of each, those that it shows, and the cases of its plurals. */
function messagesOf(language, problems) {
  const text = source(`languages/${language}.ftl`);
  const resource = new FluentResource(text);
  const written = text.match(/^[a-zA-Z][\w-]* =/gm) ?? [];
  const bundle = new FluentBundle(language);
  problems.push(...bundle.addResource(resource).map(({ message }) => `${language}: ${message}`));
  if (resource.body.length !== written.length)
    problems.push(`${language}: ${written.length - resource.body.length} messages cannot be read`);
  const found = new Map(resource.body.map(({ id, value }) => [id, aboutOf(value)]));
  for (const { id, value } of resource.body) {
    const errors = [];
    bundle.formatPattern(value, Object.fromEntries([...found.get(id).variables].map((name) => [name, 3])), errors);
    problems.push(...errors.map((error) => `${language}: ${id}: ${error.message}`));
  }
  return found;
}

/** @returns {About} */
function aboutOf(pattern) {
  const about = { variables: new Set(), shown: new Set(), cases: [] };
  JSON.stringify(pattern, (_, part) => {
    if (part?.type === "var") for (const names of [about.variables, about.shown]) names.add(part.name);
    if (part?.type !== "select") return part;
    about.variables.add(part.selector.name);
    about.cases.push(part.variants.map(({ key }) => key.value));
    return part.variants;
  });
  return about;
}

/** A script and all that it imports, without libraries. */
function modulesOf(path, found = new Set()) {
  if (found.has(path) || path.startsWith("vendor")) return found;
  found.add(path);
  for (const [, name] of source(path).matchAll(/(?:\bfrom |\bimport\()"(\.[^"]+\.js)"/g))
    modulesOf(relative(WEB, join(WEB, dirname(path), name)), found);
  return found;
}

function* nodesOf(node) {
  yield node;
  for (const child of node.getChildren()) yield* nodesOf(child);
}

/** The strings that an argument may be, or how they begin. */
function idsOf(argument) {
  if (ts.isStringLiteralLike(argument)) return [{ id: argument.text }];
  if (ts.isTemplateExpression(argument)) return [{ prefix: argument.head.text }];
  if (ts.isConditionalExpression(argument)) return [...idsOf(argument.whenTrue), ...idsOf(argument.whenFalse)];
  return [];
}

/** The names of an object's properties; null if they are not all written there. */
function namesIn(argument) {
  if (argument === undefined) return [];
  if (!ts.isObjectLiteralExpression(argument)) return null;
  return argument.properties.some(ts.isSpreadAssignment) ? null : argument.properties.map(({ name }) => name.text);
}

/** Words that a script shows itself. */
function* wordsIn(node) {
  if (ts.isTaggedTemplateExpression(node) && node.tag.text === "html") {
    const { template } = node;
    const parts = ts.isTemplateExpression(template)
      ? [template.head.text, ...template.templateSpans.map(({ literal }) => literal.text)]
      : [template.text];
    const markup = parts.join("\n");
    for (const text of markup.replace(/<[^>]*>/g, "\n").split("\n"))
      if (/[A-Za-z]{2}/.test(text) && !NAMES.test(text.trim())) yield text.trim();
    for (const [, text] of markup.matchAll(SHOWN)) if (/^[A-Z]|[a-z] [a-z]/.test(text)) yield text;
  }
  const isText = ts.isStringLiteralLike(node) || ts.isTemplateHead(node);
  if (isText && /^[A-Z][\w’]* (?:[a-z]{2}|$)/.test(node.text) && !NAMES.test(node.text)) yield node.text;
}

const problems = { messages: [], uses: [], words: [] };
const english = messagesOf("en", problems.messages);
const languages = readdirSync(join(WEB, "languages")).map((name) => name.replace(".ftl", ""));
for (const language of languages) {
  const messages = messagesOf(language, language === "en" ? [] : problems.messages);
  for (const script of ["languages.js", "embed.js"])
    if (!new RegExp(`^ +${language}: `, "m").test(source(script)))
      problems.messages.push(`${script} does not have ${language}`);
  const categories = listed(new Intl.PluralRules(language).resolvedOptions().pluralCategories);
  for (const id of new Set([...english.keys(), ...messages.keys()])) {
    const [expected, found] = [english.get(id), messages.get(id)];
    if (!expected || !found) problems.messages.push(`${id} is only in ${found ? language : "en"}, and not in both`);
    else if (
      listed(expected.shown) !== listed(found.shown) ||
      [...found.variables].some((name) => !expected.variables.has(name))
    )
      problems.messages.push(`${language}: ${id} has other variables than in English`);
    for (const cases of found?.cases ?? [])
      if (listed(cases) !== categories) problems.messages.push(`${language}: ${id} has not the cases ${categories}`);
  }
}

const used = new Set();
const scripts = readdirSync(WEB, { recursive: true }).filter((path) => /^(?!vendor).*\.js$/.test(path));
const translated = new Set(PAGES.flatMap((page) => [...modulesOf(page)]));
for (const path of scripts) {
  const file = ts.createSourceFile(path, source(path), ts.ScriptTarget.Latest, true);
  for (const node of nodesOf(file)) {
    if (ts.isStringLiteralLike(node) && english.has(node.text)) used.add(node.text);
    if (translated.has(path)) problems.words.push(...[...wordsIn(node)].map((words) => `${path}: ${words}`));
    if (!ts.isCallExpression(node) || !FUNCTIONS.includes(node.expression.text)) continue;
    for (const { id, prefix } of idsOf(node.arguments[0])) {
      const known = [...english.keys()].filter((each) => (id === undefined ? each.startsWith(prefix) : each === id));
      if (known.length === 0) problems.uses.push(`${path}: ${id ?? prefix} is no message`);
      for (const each of known) used.add(each);
      const names = namesIn(node.arguments[1]);
      if (known.length === 1 && names !== null && listed(names) !== listed(english.get(known[0]).variables))
        problems.uses.push(`${path}: ${known[0]} has other variables than ${listed(names)}`);
    }
  }
}
for (const id of english.keys()) if (!used.has(id)) problems.uses.push(`${id} is not used`);
console.log(JSON.stringify(problems));
