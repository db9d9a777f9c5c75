// Names for the types of the API, which `api.ts` has from the OpenAPI document.
import type { components } from "./api.js";

type Schemas = components["schemas"];

export type Account = Schemas["AccountResponse"];
export type AccountBalance = Schemas["AccountBalance"];
export type AccountChange = Schemas["AccountChange"];
export type Adjustment = Schemas["Adjustment"];
export type ApiKey = Schemas["ManagedKey"];
export type AuditEntry = Schemas["AuditResponse"];
export type CreatedKey = Schemas["CreatedKey"];
export type CreditGrant = Schemas["Grant"];
export type NewKey = Schemas["KeyRequest"];
export type TopUpTerms = Schemas["TopUpRequest"];
export type AcceptedRun = Schemas["AcceptedRunResponse"];
export type Balance = Schemas["BalanceResponse"];
export type Batch = Schemas["BatchResponse"];
export type BatchLine = Schemas["BatchLine"];
export type BatchPreview = Schemas["BatchPreviewResponse"];
export type BatchResult = Schemas["BatchResultResponse"];
export type Approval = Schemas["ApprovalResponse"];
export type Branch = Schemas["BranchResponse"];
export type Grant = Schemas["GrantResponse"];
export type Budget = Schemas["BudgetResponse"];
export type BudgetTerms = Schemas["BudgetRequest"];
export type Conversation = Schemas["ConversationResponse"];
export type ConversationFiles = Schemas["ConversationFiles"];
export type ConversationMessage = Schemas["ConversationDetailResponse"]["messages"][number];
export type ConversationChange = Schemas["ChangedConversation"];
export type CreatedBatch = Schemas["CreatedBatchResponse"];
export type CreatedShare = Schemas["CreatedShare"];
export type Evidence = Schemas["EvidenceResponse"];
export type Feedback = Schemas["FeedbackResponse"];
export type Graph = Schemas["GraphResponse"];
export type GraphFinal = Schemas["GraphFinal"];
export type LanguageModel = Schemas["ModelResponse"];
export type Message = Schemas["Message"];
export type Receipt = Schemas["ReceiptResponse"];
export type Run = Schemas["RunResponse"];
export type RunChange = Schemas["RunChange"];
export type RunFile = Schemas["RunFileResponse"];
export type RunPreview = Schemas["PreviewResponse"];
export type RunRequest = Schemas["GraphRunRequest"];
export type SentMessage = Schemas["SentToRun"];
export type Share = Schemas["ShareResponse"];
export type Tool = Schemas["ToolResponse"];
export type UsageReport = Schemas["UsageReportResponse"];

/** An event of a type that this client does not know: `kind` is its type, `data` has all its fields. */
export interface UnknownEvent {
  type: "unknown";
  kind: string;
  data: Record<string, unknown>;
}

/** An event of a run. */
export type RunEvent = Schemas["ClientEvent"] | UnknownEvent;

/**
 * The prompt: one text, or messages of which the last one is the user's. `null` only with `input`, or with `forkFrom`:
 * the messages of that run are answered again.
 */
export type Prompt = string | Message[] | null;

/** What a request can be given besides its content. */
export interface RequestOptions {
  /** Stops waiting; a run that was started continues. */
  signal?: AbortSignal | undefined;
}

/** What a run can be started with; a `runId` is made if it is omitted. */
export type RunOptions = Omit<RunRequest, "graphId" | "messages"> & RequestOptions;

/** Which entries of the audit log to list: `from` is inclusive and `to` exclusive. */
export interface AuditFilters extends RequestOptions {
  account?: string;
  action?: string;
  from?: Date;
  to?: Date;
}

/** What to list of all that waits for a person. */
export interface ApprovalFilters extends RequestOptions {
  kind?: Approval["kind"];
  graphId?: string;
  runId?: string;
  stateKey?: string;
}

/** Which runs to list: `from` is inclusive and `to` exclusive, by the time of acceptance. */
export interface RunFilters extends RequestOptions {
  status?: Run["status"];
  graphId?: string;
  model?: string;
  apiKeyId?: string;
  stateKey?: string;
  endUser?: string;
  /** Name and value: `team:search`. */
  tag?: string;
  from?: Date;
  to?: Date;
}

/** Which conversations to list: `from` is inclusive and `to` exclusive, by their last use. */
export interface ConversationFilters extends RequestOptions {
  /** Words in the title, a message or an answer: all of them, `"a phrase"`, `or`, `-without`. */
  q?: string;
  pinned?: boolean;
  archived?: boolean;
  endUser?: string;
  /** Name and value: `team:search`. */
  tag?: string;
  from?: Date;
  to?: Date;
}

/** Which receipts to list: `from` is inclusive and `to` exclusive, by the time of use. */
export interface ReceiptFilters extends RequestOptions {
  runId?: string;
  graphId?: string;
  model?: string;
  apiKeyId?: string;
  basis?: string;
  origin?: string;
  cacheMiss?: string;
  from?: Date;
  to?: Date;
}

/** Which receipts to sum up, and by what. */
export interface UsageOptions extends RequestOptions {
  groupBy?: "day" | "model" | "graph" | "provider" | "key";
  splitBy?: "day" | "model" | "graph" | "provider" | "key";
  top?: number;
  timeZone?: string;
  graphId?: string;
  model?: string;
  apiKeyId?: string;
  from?: Date;
  to?: Date;
}

/** How a batch is executed: beyond `maxUsd` dollars no further item is started. */
export interface BatchOptions extends RequestOptions {
  parallelism?: number;
  maxUsd?: string;
}

/**
 * A decision about a tool call: `args` replace the model's arguments, `message` is for the model, `stop`: a denial ends the run,
 * `forConversation` allows later calls of the tool in the conversation, too.
 */
export interface Decision extends RequestOptions {
  allow: boolean;
  args?: Record<string, unknown>;
  message?: string;
  stop?: boolean;
  forConversation?: boolean;
}
