// Questions of the agent or of a tool server, and the form of their answers.

/** @import { Answers } from "../runs/answers.js" */
/** @import { QuestionEntry } from "../runs/run_state.js" */

import { ApiError } from "../api.js";
import { html, useState, withValue } from "../html.js";
import { t, tWithElements } from "../languages.js";
import { readable } from "./markdown.js";
import { apiProblem } from "./messages.js";
import { Plain } from "./text.js";

/** @typedef {(requestId: string, answers: Answers | null) => Promise<void>} Answer null declines to answer */
/** @typedef {Schemas["QuestionItem"]} Item */

/** @param {{entry: QuestionEntry, live: boolean, answer: Answer | null}} props */
export function Question({ entry, live, answer }) {
  const { source, questions, resolvedBy, answers } = entry;
  const ending = resolvedBy ?? (live ? null : "run_stopped");
  return html`
    <section class="question" data-state=${ending ?? "waits"} aria-label=${t("question")}>
      <p class="hint">
        ${source === "agent" ? t("agent-asks") : tWithElements("server-asks", { server: html`<strong>${source}</strong>` })}
      </p>
      ${ending === null && answer && html`<${Form} entry=${entry} answer=${answer} />`}
      ${
        (ending !== null || !answer) &&
        questions.map(
          (item, index) => html`
            <${Plain} text=${item.question} />
            ${answers?.[index] && html`<p class="question-answer" dir="auto">${readable(answers[index].join(", "))}</p>`}
          `,
        )
      }
      ${ending !== null && html`<p class="hint">${t(`question-${ending}`)}</p>`}
      ${ending === null && !answer && html`<p class="notice">${t("answer-not-yours")}</p>`}
    </section>
  `;
}

/** @param {{entry: QuestionEntry, answer: Answer}} props */
function Form({ entry, answer }) {
  const { requestId, questions } = entry;
  const [chosen, setChosen] = useState(/** @type {string[][]} */ (questions.map(() => [])));
  const [texts, setTexts] = useState(questions.map(() => ""));
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);

  /** @param {Answers | null} answers */
  const post = async (answers) => {
    setBusy(true);
    setProblem("");
    try {
      await answer(requestId, answers);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setProblem(error.errors.length ? error.errors.map(sentence).join(" ") : apiProblem(error));
      setBusy(false);
    }
  };
  /** @param {FieldProblem} problem */
  const sentence = ({ field, message }) =>
    t("field-problem", {
      field: readable(questions[Number(field.split(".")[1])]?.header || t("the-answer")),
      problem: message,
    });
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const given = questions.map((item, index) => answerOf(item, chosen[index] ?? [], texts[index] ?? ""));
    post(Object.fromEntries(given.flatMap((each, index) => (each === null ? [] : [[String(index), each]]))));
  };

  return html`
    <form class="consent" onSubmit=${submit}>
      ${questions.map(
        (item, index) => html`
          <${Field}
            name=${`${requestId}-${index}`}
            item=${item}
            chosen=${chosen[index]}
            choose=${(/** @type {string[]} */ labels) => setChosen(chosen.with(index, labels))}
            text=${texts[index]}
            write=${(/** @type {string} */ text) => setTexts(texts.with(index, text))}
          />
        `,
      )}
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      <div class="row">
        <button class="button button-primary" disabled=${busy}>${t("to-answer")}</button>
        <button type="button" class="button button-plain" disabled=${busy} onClick=${() => post(null)}>
          ${t("decline")}
        </button>
      </div>
    </form>
  `;
}

/**
 * @param {object} props
 * @param {string} props.name
 * @param {Item} props.item
 * @param {string[]} props.chosen
 * @param {(labels: string[]) => void} props.choose
 * @param {string} props.text
 * @param {(text: string) => void} props.write
 */
function Field({ name, item, chosen, choose, text, write }) {
  const { options, multiSelect } = item;
  const label = t(options.length ? "another-answer" : "answer");
  /** @param {string} label */
  const toggled = (label) => {
    if (!multiSelect) return [label];
    return chosen.includes(label) ? chosen.filter((other) => other !== label) : [...chosen, label];
  };
  return html`
    <fieldset>
      <legend dir="auto">${item.header && html`<strong>${readable(item.header)}</strong> `}${readable(item.question)}</legend>
      ${options.map(
        ({ label, description }) => html`
          <label class="option">
            <input
              type=${multiSelect ? "checkbox" : "radio"}
              name=${name}
              checked=${chosen.includes(label)}
              onChange=${() => choose(toggled(label))}
            />
            <span>${readable(label)}${description && html`<span class="hint"> ${readable(description)}</span>`}</span>
          </label>
        `,
      )}
      ${
        !item.onlyOptions &&
        html`
          <label class="field">
            <span>${item.optional ? t("label-optional", { label }) : label}</span>
            <input value=${text} onInput=${withValue(write)} maxlength="4000" />
          </label>
        `
      }
    </fieldset>
  `;
}

/**
 * What answers a question; null if nothing does.
 * @param {Item} item
 * @param {string[]} chosen
 * @param {string} text
 */
function answerOf(item, chosen, text) {
  const written = text.trim();
  if (item.multiSelect) {
    const all = written ? [...chosen, written] : chosen;
    return item.optional && all.length === 0 ? null : all;
  }
  return written || (chosen[0] ?? null);
}
