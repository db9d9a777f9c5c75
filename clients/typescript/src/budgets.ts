// The budgets of an account.
import { segment, type Connection } from "./connection.js";
import { pageOf } from "./pages.js";
import type { Balance, Budget, BudgetTerms, RequestOptions, TopUpTerms } from "./types.js";

const TOP_UP = "/v1/balance/top-up";

/** Another account than the key's, for keys with `admin`. */
export interface OfAccount extends RequestOptions {
  account?: string | undefined;
}

/** Limits of what an account, its keys, end users, tags and graphs may spend. */
export class Budgets {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Create or replace a budget; what was spent in its current window counts. */
  set(budgetId: string, terms: BudgetTerms, options: OfAccount = {}): Promise<Budget> {
    return this.#connection.json({ method: "PUT", path: pathOf(budgetId), body: terms, ...sent(options) });
  }

  /** All budgets by id, with what is spent of each. */
  async list(options: OfAccount = {}): Promise<Budget[]> {
    const page = await this.#connection.json({ method: "GET", path: "/v1/budgets", ...sent(options) });
    return pageOf<Budget>(page, "items").items;
  }

  /** One budget. */
  get(budgetId: string, options: OfAccount = {}): Promise<Budget> {
    return this.#connection.json({ method: "GET", path: pathOf(budgetId), ...sent(options) });
  }

  /** Delete a budget. */
  async delete(budgetId: string, options: OfAccount = {}): Promise<void> {
    await this.#connection.json({ method: "DELETE", path: pathOf(budgetId), repeatable: false, ...sent(options) });
  }

  /** Let webhooks know when less than `belowUsd` is left of prepaid credit, at most so often a day. */
  setTopUp(terms: TopUpTerms, options: OfAccount = {}): Promise<Balance> {
    return this.#connection.json({ method: "PUT", path: TOP_UP, body: terms, ...sent(options) });
  }

  /** Request no more credit. */
  async deleteTopUp(options: OfAccount = {}): Promise<void> {
    await this.#connection.json({ method: "DELETE", path: TOP_UP, ...sent(options) });
  }
}

function pathOf(budgetId: string): string {
  return `/v1/budgets/${segment(budgetId)}`;
}

function sent({ account, signal }: OfAccount) {
  return { query: account === undefined ? {} : { account }, signal };
}
