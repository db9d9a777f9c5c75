// What people read about graphs, their tools and their models.

import { t } from "../../languages.js";
import { toolTitle } from "../messages.js";

/** @typedef {Schemas["GraphResponse"]} Graph */
/** @typedef {Schemas["ModelResponse"]} Model */
/** @typedef {NonNullable<Graph["effort"]>} Effort */

/** @type {Record<string, string>} */
const PROVIDERS = { claude_agents: "Agent SDK", messages: "Messages API" };

/** @type {Record<string, string>} */
const NATIVE_TOOLS = {
  Read: t("can-read"),
  Write: t("can-write"),
  Edit: t("can-edit"),
  Glob: t("can-find"),
  Grep: t("can-search-files"),
  Bash: t("can-run-commands"),
};

/** The lowest first. @type {Effort[]} */
const EFFORTS = ["low", "medium", "high", "xhigh", "max"];

/**
 * Its icon and title; with its provider if there is another one of that title.
 * @param {Graph} graph
 * @param {Graph[]} graphs
 */
export function nameOf({ id, icon, title, provider }, graphs) {
  const isAmbiguous = graphs.some((other) => other.title === title && other.id !== id);
  const name = isAmbiguous ? `${title} · ${PROVIDERS[provider] ?? provider}` : title;
  return icon ? `${icon} ${name}` : name;
}

/** What a run of it may cost at most; without a limit it is the last. @param {Graph} graph */
const limitOf = ({ maxBudgetUsd }) => (maxBudgetUsd === null ? Number.MAX_VALUE : Number(maxBudgetUsd));

/**
 * The graphs in the order in which they are offered: an agent that may cost much is not the first that is tried.
 * @param {Graph[]} graphs
 */
export const inOrder = (graphs) => graphs.toSorted((one, other) => limitOf(one) - limitOf(other));

/**
 * The one to begin with: what has tools can do more than work on a text.
 * @param {Graph[]} graphs in order
 */
export const firstOf = (graphs) => graphs.find(({ tools }) => tools.length > 0) ?? graphs[0];

/**
 * What it can do, in words, each with the names of its tools.
 * @param {Graph} graph
 * @returns {{does: string, by: string}[]}
 */
export function abilitiesOf({ tools, nativeTools, web, agents, skills, questions }) {
  const found = [
    ...tools.map((id) => ({ does: toolTitle(id), by: id })),
    ...nativeTools.map((name) => ({ does: NATIVE_TOOLS[name] ?? name, by: name })),
  ];
  if (web?.search) found.push({ does: t("can-search-web"), by: "web_search" });
  if (web?.fetch) found.push({ does: t("can-read-web"), by: "web_fetch" });
  found.push(...skills.map((name) => ({ does: toolTitle(name.replaceAll("-", " ")), by: `skill ${name}` })));
  if (agents.length > 0) found.push({ does: t("can-share-work"), by: agents.join(", ") });
  if (questions) found.push({ does: t("can-ask"), by: "AskUserQuestion" });
  return found;
}

/**
 * The model of that id, alias or role; null means the role `default`.
 * @param {Model[]} models
 * @param {string | null} name
 */
export function modelNamed(models, name) {
  const wanted = name ?? "default";
  return models.find(({ id, aliases, roles }) => id === wanted || aliases.includes(wanted) || roles.includes(wanted));
}

/**
 * The efforts that a request may choose: a higher one would be lowered.
 * @param {Graph} graph
 * @param {Model | undefined} model
 */
export function effortsOf(graph, model) {
  const most = graph.effort ?? model?.options.effort ?? "high";
  return (model?.efforts ?? []).filter((effort) => EFFORTS.indexOf(effort) <= EFFORTS.indexOf(most));
}
