// The turns of a conversation: user messages and the runs that answer them.

/** @import { Alternatives } from "./answers/branches.js" */
/** @import { Actions, Turn as ConversationTurn } from "./conversation.js" */
/** @import { Answers, Decision } from "../runs/answers.js" */
/** @import { Html } from "../html.js" */
/** @import { Item, Permission, TextItem, UserItem } from "../runs/run_state.js" */

import { Component, html } from "../html.js";
import { t } from "../languages.js";
import { schemaOf } from "../runs/answers.js";
import { AnswerEnd } from "./answers/actions.js";
import { Asked, AttachmentNames } from "./answers/asked.js";
import { Changed } from "./files/panel.js";
import { activityOf, runProblem } from "./messages.js";
import { Question } from "./question.js";
import { Plain, Prose } from "./text.js";
import { ToolCall } from "./tool_call.js";

/**
 * A user message and its run.
 * @param {{turn: ConversationTurn, busy: boolean, alternatives: Alternatives | null, actions: Actions}} props
 */
export function Turn({ turn, busy, alternatives, actions }) {
  const { run } = turn;
  return html`
    <article class="turn">
      ${
        turn.question !== null &&
        html`
        <h2 class="visually-hidden">${t("you")}</h2>
        <${Asked} turn=${turn} busy=${busy} actions=${actions} />
      `
      }
      <h2 class="visually-hidden">${t("answer")}</h2>
      ${run.queuePosition !== null && html`<p class="note">${activityOf(run)}</p>`}
      <div class="answer"><${Items} items=${run.items} turn=${turn} actions=${actions} /></div>
      ${run.sources.size > 0 && html`<${Sources} pages=${[...run.sources]} />`}
      ${run.fileChanges && html`<${Files} changes=${run.fileChanges} />`}
      ${run.done && html`<${End} ...${{ turn, busy, alternatives, actions }} />`}
    </article>
  `;
}

/**
 * @param {{items: Item[], turn: ConversationTurn, actions: Actions}} props
 * @returns {Html[]}
 */
function Items({ items, turn, actions }) {
  const { decide, findResult } = actions;
  return items.map((item, index) => {
    const version = item.version;
    switch (item.kind) {
      case "text":
        return html`<${Prose} key=${index} text=${item.text} open=${item.open} />`;
      case "thinking":
        return html`<${Thinking} key=${index} item=${item} version=${version} />`;
      case "tool":
        return html`
          <${ToolCall}
            key=${item.id}
            item=${item}
            version=${version}
            live=${!turn.run.done}
            decide=${
              decide &&
              ((/** @type {Permission} */ permission, /** @type {Decision} */ decision) =>
                decide(turn, permission, decision))
            }
            findSchema=${(/** @type {Permission} */ { requestId }) => schemaOf(turn.runId, requestId)}
            findResult=${findResult && (() => findResult(turn, item.id))}
            loadEvents=${!turn.hasEvents && (() => actions.loadEvents(turn))}
            inside=${(/** @type {Item[]} */ within) => html`<${Items} items=${within} turn=${turn} actions=${actions} />`}
          />
        `;
      case "question":
        return html`
          <${Question}
            key=${item.requestId}
            entry=${item}
            live=${!turn.run.done}
            answer=${
              actions.answer &&
              ((/** @type {string} */ requestId, /** @type {Answers | null} */ answers) =>
                actions.answer?.(turn, requestId, answers))
            }
          />
        `;
      case "user":
        return html`<${Interjection} key=${index} ...${item} />`;
      default:
        return html`<p key=${index} class="note">${item.text}</p>`;
    }
  });
}

/** @param {{pages: [string, string][]}} props addresses and titles */
function Sources({ pages }) {
  return html`
    <section class="sources">
      <h3>${t("sources")}</h3>
      <ul>
        ${pages.map(
          ([url, title]) => html`
            <li key=${url}>
              <a href=${url} target="_blank" rel="noopener noreferrer nofollow"><bdi>${title}</bdi></a>
              ${" "}<span class="hint"><bdi>${new URL(url).host}</bdi></span>
            </li>
          `,
        )}
      </ul>
    </section>
  `;
}

/** @param {{changes: Schemas["FileChanges"]}} props */
function Files({ changes }) {
  return html`
    <section class="sources">
      <h3>${t("files")}</h3>
      <ul>
        ${changes.files.map(({ path, change, diff }) => html`<${Changed} key=${path} path=${path} hint=${t(`change-${change}`)} diff=${diff} />`)}
      </ul>
      ${changes.more ? html`<p class="hint">${t("more-files", { count: changes.more })}</p>` : null}
    </section>
  `;
}

/** @typedef {{item: TextItem, version: number | undefined}} ThinkingProps */

/** @extends {Component<ThinkingProps>} */
class Thinking extends Component {
  /** @param {ThinkingProps} next */
  shouldComponentUpdate(next) {
    return next.version !== this.props.version || next.item !== this.props.item;
  }

  /** @param {ThinkingProps} props */
  render({ item }) {
    return html`
      <details class="thinking">
        <summary>${t(item.open ? "thinking-open" : "thinking-done")}</summary>
        <${Plain} text=${item.text} />
      </details>
    `;
  }
}

/** @param {UserItem} props */
function Interjection({ text, delivered, attachments }) {
  return html`
    <h2 class="visually-hidden">${t("you-meanwhile")}</h2>
    <div class="user-message" data-delivered=${delivered}>
      ${text && html`<${Plain} text=${text} />`}
      <${AttachmentNames} names=${attachments ?? []} />
      ${!delivered && html`<p class="hint">${t("sent-for-next-step")}</p>`}
    </div>
    <h2 class="visually-hidden">${t("answer-continues")}</h2>
  `;
}

/** @param {Parameters<typeof Turn>[0]} props */
function End({ turn, busy, alternatives, actions }) {
  const { run } = turn;
  const { retry } = actions;
  const stopped = run.error === "aborted";
  return html`
    ${
      run.error !== null &&
      html`
      <div class=${stopped ? "notice end-stopped" : "notice notice-bad"}>
        <p>${runProblem(run.error, run.finishReason)}</p>
        ${
          retry &&
          !busy &&
          turn.question !== null &&
          html`
          <button type="button" class="button button-small" onClick=${() => retry(turn)}>${t("try-again")}</button>
        `
        }
      </div>
    `
    }
    <${AnswerEnd} ...${{ turn, busy, alternatives, actions }} />
  `;
}
