// Accounts, their API keys and the audit log.
import { newId, segment, type Connection } from "./connection.js";
import { each } from "./pages.js";
import type {
  Account,
  AccountBalance,
  AccountChange,
  Adjustment,
  ApiKey,
  AuditEntry,
  AuditFilters,
  CreatedKey,
  CreditGrant,
  NewKey,
  RequestOptions,
} from "./types.js";

/** Creating and changing accounts needs `admin`; the keys of the own account need `keys:write`. */
export class Accounts {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Create an account. */
  create(name: string, options: RequestOptions = {}): Promise<Account> {
    const call = { method: "POST", path: "/v1/accounts", body: { name }, repeatable: false } as const;
    return this.#connection.json({ ...call, ...options });
  }

  /** All accounts, newest first. */
  list(options: RequestOptions = {}): AsyncGenerator<Account, void, undefined> {
    return each(this.#connection, { method: "GET", path: "/v1/accounts", ...options });
  }

  /** The credit of an account, and for how long it keeps contents. */
  get(name: string, options: RequestOptions = {}): Promise<AccountBalance> {
    return this.#connection.json({ method: "GET", path: pathOf(name), ...options });
  }

  /** Rename or suspend an account, or change how it pays and for how long it keeps contents. */
  change(name: string, change: AccountChange, options: RequestOptions = {}): Promise<AccountBalance> {
    return this.#connection.json({ method: "PATCH", path: pathOf(name), body: change, ...options });
  }

  /** Add credit, for a time or for ever. */
  grant(name: string, grant: CreditGrant, options: RequestOptions = {}): Promise<AccountBalance> {
    return this.#changeCredit(`${pathOf(name)}/grants`, grant, options);
  }

  /** Correct credit by an amount of either sign. */
  adjust(name: string, adjustment: Adjustment, options: RequestOptions = {}): Promise<AccountBalance> {
    return this.#changeCredit(`${pathOf(name)}/adjustments`, adjustment, options);
  }

  /** Create a key, which has at most the rights of the client's; its `key` is shown only here. */
  createKey(account: string, key: NewKey, options: RequestOptions = {}): Promise<CreatedKey> {
    const call = { method: "POST", path: `${pathOf(account)}/keys`, body: key, repeatable: false } as const;
    return this.#connection.json({ ...call, ...options });
  }

  /** The keys of an account, newest first. */
  keys(account: string, options: RequestOptions = {}): AsyncGenerator<ApiKey, void, undefined> {
    return each(this.#connection, { method: "GET", path: `${pathOf(account)}/keys`, ...options });
  }

  /** Create a key with the same rights; the old one ends after the overlap, of an hour by default. */
  rotateKey(keyId: string, options: RequestOptions & { overlapS?: number } = {}): Promise<CreatedKey> {
    const { overlapS = 3600, signal } = options;
    const path = `/v1/keys/${segment(keyId)}/rotate`;
    return this.#connection.json({ method: "POST", path, body: { overlapS }, repeatable: false, signal });
  }

  /** Revoke a key; `stopRuns` also cancels its runs. */
  async revokeKey(keyId: string, options: RequestOptions & { stopRuns?: boolean } = {}): Promise<void> {
    const { stopRuns, signal } = options;
    const query = stopRuns === true ? { stopRuns: "true" } : {};
    await this.#connection.json({ method: "DELETE", path: `/v1/keys/${segment(keyId)}`, query, signal });
  }

  /** What was done to accounts, keys and credit, newest first. */
  audit(filters: AuditFilters = {}): AsyncGenerator<AuditEntry, void, undefined> {
    const { signal, ...query } = filters;
    return each(this.#connection, { method: "GET", path: "/v1/audit", query, signal });
  }

  #changeCredit(path: string, body: CreditGrant | Adjustment, options: RequestOptions): Promise<AccountBalance> {
    // Once, however often it is sent.
    const headers = { "Idempotency-Key": newId() };
    return this.#connection.json({ method: "POST", path, body, headers, ...options });
  }
}

function pathOf(name: string): string {
  return `/v1/accounts/${segment(name)}`;
}
