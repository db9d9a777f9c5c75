// What may be done with the shown conversation, and how.

/** @import { Session } from "../shell.js" */
/** @import { Attachments } from "./composer/attachments.js" */
/** @import { Choices } from "./composer/choices.js" */
/** @import { Actions, Attached, Conversation, Turn as ConversationTurn } from "./conversation.js" */
/** @import { Graphs, Problem } from "./hooks.js" */

import { ApiError } from "../api.js";
import { answer, decide } from "../runs/answers.js";
import { resultOf } from "../runs/evidence.js";
import { nameOf } from "./agents/describing.js";

/** Whether only what is open to end users is open to them. @param {Pick<Session, "person">} who */
export function isOwnOnly(who) {
  return who.person?.role === "user";
}

/**
 * @param {Conversation} conversation
 * @param {object} page
 * @param {Pick<Session, "may" | "person">} page.who
 * @param {Graphs} page.graphs
 * @param {Choices | null} page.choices
 * @param {Attachments} page.attachments
 * @param {Problem} page.errors
 * @param {(key: string | null) => void} page.open
 * @param {(key: string) => void} page.began a conversation has its first message
 * @param {() => void} page.onChange the list of conversations has changed
 * @returns {Actions}
 */
export function actionsOn(conversation, { who, graphs, choices, attachments, errors, open, began, onChange }) {
  /** @type {Actions["nameOfAgent"]} */
  const nameOfAgent = (graphId) => {
    const graph = graphs.graphs?.find(({ id }) => id === graphId);
    return graph ? nameOf(graph, graphs.graphs ?? []) : graphId;
  };
  /** @type {Actions["loadEvents"]} */
  const loadEvents = (turn) => conversation.loadEvents(turn);
  /** @type {Actions["decide"]} */
  const decideOn = who.may("runs:approve")
    ? (turn, { requestId }, decision) => decide(turn.run.runId, requestId, decision)
    : null;
  /** @type {Actions["findResult"]} */
  const findResult = who.may("runs:audit") ? (turn, toolCallId) => resultOf(turn.runId, toolCallId) : null;
  const writes = who.may("runs:write");
  /** @template T @param {T} action */
  const ifWrites = (action) => (writes ? action : null);
  const send = async (/** @type {string} */ text, /** @type {Attached[]} */ attached) => {
    errors.clear();
    const isFirst = conversation.turns.length === 0;
    try {
      await conversation.send({ text, attached }, graphs.graphId ?? "", choices?.chosen ?? {});
    } catch (error) {
      if (!(error instanceof ApiError && attachments.refuse(error.errors))) errors.fail(error);
      return false;
    }
    graphs.rememberGraph();
    if (isFirst) began(conversation.key);
    onChange();
    return true;
  };
  const fork = async (/** @type {ConversationTurn} */ turn) => {
    const key = await conversation.fork(turn);
    onChange();
    open(key);
  };
  const replace = (/** @type {ConversationTurn} */ turn, /** @type {string | undefined} */ text) =>
    attempt(() => conversation.replace(turn, turn.graphId ?? graphs.graphId ?? "", text));
  const attempt = async (/** @type {() => Promise<void>} */ change) => {
    errors.clear();
    try {
      await change();
      return true;
    } catch (error) {
      errors.fail(error);
      return false;
    }
  };
  const remove = async () => {
    await conversation.delete();
    onChange();
    open(null);
  };
  return {
    nameOfAgent,
    loadEvents,
    findResult,
    send: ifWrites(send),
    retry: ifWrites((turn) => (turn.attachments?.length ? replace(turn, undefined) : send(turn.question ?? "", []))),
    stop: ifWrites(() => conversation.stop().catch(errors.fail)),
    decide: decideOn,
    answer: ifWrites((turn, requestId, answers) => answer(turn.run.runId, requestId, answers)),
    fork: isOwnOnly(who) ? null : ifWrites((turn) => fork(turn).catch(errors.fail)),
    regenerate: ifWrites((turn) => void replace(turn, undefined)),
    edit: ifWrites(async (turn, text) => void (await replace(turn, text))),
    chooseBranch: ifWrites((branchId) => void attempt(() => conversation.chooseBranch(branchId))),
    giveFeedback: ifWrites((turn, rating, note) => attempt(() => conversation.giveFeedback(turn, rating, note))),
    showsReceipts: who.may("receipts:read"),
    forecasts: writes && !isOwnOnly(who),
    remove: ifWrites(() => remove().catch(errors.fail)),
  };
}
