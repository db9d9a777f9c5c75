// Why a diagram stays code.

/** @typedef {"diagram-unreadable" | "diagram-too-large" | "diagram-failed"} Problem the message for its reader */

export class Undrawable extends Error {
  /** @param {Problem} problem */
  constructor(problem) {
    super(problem);
    this.problem = problem;
  }
}

/** It has a line that the library would leave out, or draw otherwise than it is meant. */
export const unreadable = () => new Undrawable("diagram-unreadable");
/** It has more nodes, lines or characters than are drawn. */
export const tooLarge = () => new Undrawable("diagram-too-large");
