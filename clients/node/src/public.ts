// What every entry point exports beside its own `Waterclock`.
export type {
  CallOptions,
  Charge,
  CheckOptions,
  Client,
  ClientOptions,
  OnUnavailable,
  Override,
  PolicyDefinition,
  RefundOptions,
  ReportOptions,
  Reserved,
  ReserveOptions,
  WaitOptions,
} from './client.js';
export type { Cost, Decision, Decisions, HeaderFields, Json, JsonObject, LimitInfo, LimitState } from './decision.js';
export type { ErrorKind } from './error.js';
export type { Factor, Outcome } from './transport.js';
export { WaterclockError } from './error.js';
export { Reservation } from './reservation.js';
