// The public names of @runtally/client.
export { Client, requireAnswer } from "./client.js";
export type { ClientOptions } from "./connection.js";
export {
  ApiError,
  ConfigurationError,
  Conflict,
  ConnectionFailed,
  Forbidden,
  Gone,
  InsufficientCredits,
  InvalidRequest,
  InvalidResponse,
  NotFound,
  RateLimited,
  RunFailed,
  RuntallyError,
  ServerUnavailable,
  Unauthenticated,
} from "./errors.js";
export type { FieldError } from "./errors.js";
export type { RunStream } from "./stream.js";
export type * from "./types.js";
