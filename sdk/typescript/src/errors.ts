// The errors of this library, as one tree. Each leaf says what to do.
//
//   GreenroomError
//   ├── ApiError            the server refused a call; `status`, `text` and `code` say why
//   │   ├── Unauthorized    401: a key or token is missing, wrong or has been replaced
//   │   ├── Banned          403: the player is banned; `banInfo`
//   │   ├── NotFound        404: there is nothing by this id
//   │   ├── RateLimited     429: come back after `retryAfter` seconds
//   │   └── ServerError     5xx: the server has a bug, or could not be sure
//   ├── UnexpectedAnswer    no Greenroom answered, or one too new for this library
//   ├── ConnectionFailed    no answer; `wasSent` says whether the call may have happened
//   ├── MessageRefused      a message in a room was not taken; nothing has happened
//   ├── ActionRefused       an action in a room was not taken; nothing has changed
//   ├── ActionFailed        an action was settled, and has failed; `result` has what is known
//   ├── ActionLost          nobody knows what came of an action
//   └── RoomClosed          a realtime connection is over; `code` and `reason`
//       ├── TokenRefused    its token is not good
//       ├── Replaced        the same player has connected elsewhere
//       ├── RoomEnded       the room is over
//       ├── SeatLost        the player has left, or was kicked or banned
//       ├── MessageTooBig   a message of ours was larger than the server takes
//       └── ConnectionLost  the connection was cut

import { CODES, type RefusalCode } from "./generated/refusals.js";
import type { BanInfo, ResultEntry } from "./generated/types.js";

/** Base of all errors of this library. */
export class GreenroomError extends Error {
  /** Seconds after which to try again; null where that would change nothing. */
  retryAfter: number | null = null;

  constructor(
    message: string,
    options?: ErrorOptions,
    /** For developers: what to do, if the server has said that, too. */
    readonly hint: string | null = null,
  ) {
    super(hint ? `${message} (${hint})` : message, options);
    this.name = new.target.name;
  }
}

/** The server refused a call, and nothing has changed. A 400 is of this class itself. */
export class ApiError extends GreenroomError {
  /** A name for the text, such as `room_full`; null for a text that is not known here. */
  readonly code: RefusalCode | null;

  constructor(
    readonly status: number,
    /** The server's text, to show, or to match whole. */
    readonly text: string,
    hint: string | null = null,
  ) {
    super(`${status}: ${text}`, undefined, hint);
    this.code = CODES[`${status} ${text}`] ?? null;
  }
}

/** A key or token is missing, wrong, or has been replaced: sign in again. */
export class Unauthorized extends ApiError {}

/** The player is banned. */
export class Banned extends ApiError {
  /** How long and why; null where the game's publisher has banned the player. */
  banInfo: BanInfo | null = null;
}

/** There is nothing by this id, or no longer. */
export class NotFound extends ApiError {}

/** There were too many calls, and the allowed retries are used up. See `retryAfter`. */
export class RateLimited extends ApiError {}

/** The server failed. The call may still have happened: read before you repeat it. */
export class ServerError extends ApiError {}

/** The answer is not one of this API's. Check the address. */
export class UnexpectedAnswer extends GreenroomError {}

/** There was no answer, or not in time. */
export class ConnectionFailed extends GreenroomError {
  /** True if the call may have reached the server, and may have happened. */
  readonly wasSent: boolean;

  constructor(message: string, wasSent: boolean, cause?: unknown) {
    super(message, { cause });
    this.wasSent = wasSent;
  }
}

/** The server did not take a message, and nobody got it. */
export class MessageRefused extends GreenroomError {
  constructor(text: string, retryAfter: number | null = null) {
    super(text);
    this.retryAfter = retryAfter;
  }
}

/** The server did not take an action, and nothing has changed. */
export class ActionRefused extends GreenroomError {
  constructor(text: string, retryAfter: number | null = null) {
    super(text);
    this.retryAfter = retryAfter;
  }
}

/** An action was settled, and has failed: by the game's rules, or because its target left. */
export class ActionFailed extends GreenroomError {
  constructor(
    /** The whole result; its `response_data` has the game's reason. */
    readonly result: ResultEntry,
  ) {
    super(`${result.action_type} has failed: ${JSON.stringify(result.response_data)}`);
  }
}

/** No result has come, and the action may have happened: see `Player.actionResults`. */
export class ActionLost extends GreenroomError {}

/** A realtime connection is over. */
export class RoomClosed extends GreenroomError {
  constructor(
    /** The code of the WebSocket close frame; 1006 if there was none. */
    readonly code: number,
    /** The server's reason, or this library's. */
    readonly reason: string,
    hint: string | null = null,
  ) {
    super(reason ? `${code}: ${reason}` : String(code), undefined, hint);
  }
}

/** A new token is not good: the seat is gone, or this is another server. */
export class TokenRefused extends RoomClosed {}

/** The same player has connected from elsewhere. */
export class Replaced extends RoomClosed {}

/** The room is over. */
export class RoomEnded extends RoomClosed {}

/** The player has left the room, or was kicked or banned. */
export class SeatLost extends RoomClosed {}

/** One of our messages was larger than the server takes: send less at once. */
export class MessageTooBig extends RoomClosed {}

/**
 * The connection was cut. A message that was on its way may have arrived or not. A room that ends
 * with this error could not connect again in the time allowed.
 */
export class ConnectionLost extends RoomClosed {}

/** @internal The code of a connection that ended without a close frame. */
export const ABNORMAL = 1006;

const REASONS: Record<string, new (code: number, reason: string) => RoomClosed> = {
  "Connection replaced": Replaced,
  "Room cleanup": RoomEnded,
  "Player disconnect": SeatLost,
};

/** @internal Return the error for a close frame; after `ConnectionLost` a room connects again. */
export function closing(code: number, reason: string, hint: string | null = null): RoomClosed {
  if (code === 1008) return new TokenRefused(code, reason, hint);
  if (code === 1009) return new MessageTooBig(code, reason);
  return new (REASONS[reason] ?? ConnectionLost)(code, reason);
}

/** @internal Return the error for an answer that is no success; `body` is what its JSON said, if any. */
export function refusal(status: number, body: unknown, retryAfter: string | null): GreenroomError {
  const said = isObject(body) ? body : {};
  if (typeof said.error !== "string" && status < 400) {
    return new UnexpectedAnswer("the answer is not the JSON object that Greenroom sends");
  }
  const text = typeof said.error === "string" ? said.error : `HTTP ${status}`;
  const hint = typeof said.hint === "string" ? said.hint : null;
  const error = new (classOf(status))(status, text, hint);
  if (error instanceof Banned && isObject(said.ban_info)) {
    error.banInfo = said.ban_info as unknown as BanInfo;
  }
  if (error instanceof RateLimited) {
    error.retryAfter = seconds(said.retry_after) ?? seconds(retryAfter) ?? 1;
  }
  return error;
}

function classOf(status: number): typeof ApiError {
  if (status === 401) return Unauthorized;
  if (status === 403) return Banned;
  if (status === 404) return NotFound;
  if (status === 429) return RateLimited;
  return status >= 500 ? ServerError : ApiError;
}

/** @internal Return a number of seconds that a server has named, or null for anything else. */
export function seconds(value: unknown): number | null {
  const number = typeof value === "string" && value !== "" ? Number(value) : value;
  return typeof number === "number" && number >= 0 && Number.isFinite(number) ? number : null;
}

/** @internal Return whether a value is a JSON object. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
