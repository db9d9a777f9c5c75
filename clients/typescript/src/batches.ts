// Batches: many requests of one graph.
import { newId, segment, type Connection } from "./connection.js";
import { each } from "./pages.js";
import { pause } from "./retries.js";
import type {
  Batch,
  BatchLine,
  BatchOptions,
  BatchPreview,
  BatchResult,
  CreatedBatch,
  RequestOptions,
} from "./types.js";

const WATCH_EVERY_MS = 500;

/** Many requests of one graph at once, each of which is a run. */
export class Batches {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Start a run for each line; nothing is started unless all lines are valid. */
  create(lines: BatchLine[], options: BatchOptions = {}): Promise<CreatedBatch> {
    const { signal, ...query } = options;
    const headers = { "Idempotency-Key": newId() };
    return this.#connection.json({ method: "POST", path: "/v1/batches", query, lines, headers, signal });
  }

  /** Check the lines and forecast what they will cost, without starting anything. */
  preview(lines: BatchLine[], options: Omit<BatchOptions, "maxUsd"> = {}): Promise<BatchPreview> {
    const { signal, ...query } = options;
    return this.#connection.json({ method: "POST", path: "/v1/batches/preview", query, lines, signal });
  }

  /** All batches, newest first. */
  list(options: RequestOptions = {}): AsyncGenerator<Batch, void, undefined> {
    return each(this.#connection, { method: "GET", path: "/v1/batches", ...options });
  }

  /** How far a batch has come. */
  get(batchId: string, options: RequestOptions = {}): Promise<Batch> {
    return this.#connection.json({ method: "GET", path: `/v1/batches/${segment(batchId)}`, ...options });
  }

  /** The batch now and whenever it has changed, until it has ended. */
  async *watch(batchId: string, options: RequestOptions = {}): AsyncGenerator<Batch, void, undefined> {
    let seen = "";
    for (;;) {
      const batch = await this.get(batchId, options);
      if (JSON.stringify(batch) !== seen) yield batch;
      if (batch.endedAt !== null) return;
      seen = JSON.stringify(batch);
      await pause(WATCH_EVERY_MS, options.signal);
    }
  }

  /** The items that have ended, in the order of the lines. */
  async results(batchId: string, options: RequestOptions = {}): Promise<BatchResult[]> {
    const path = `/v1/batches/${segment(batchId)}/results`;
    return (await this.#connection.json<BatchResult[] | null>({ method: "GET", path, ...options })) ?? [];
  }

  /** Start no further item and cancel the runs of the others. */
  cancel(batchId: string, options: RequestOptions = {}): Promise<Batch> {
    return this.#connection.json({ method: "POST", path: `/v1/batches/${segment(batchId)}/cancel`, ...options });
  }

  /** Delete an ended batch; its runs and receipts stay. */
  async delete(batchId: string, options: RequestOptions = {}): Promise<void> {
    const path = `/v1/batches/${segment(batchId)}`;
    await this.#connection.json({ method: "DELETE", path, repeatable: false, ...options });
  }
}
