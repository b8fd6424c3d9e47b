// Frames of the control channel, as the server sends them.

import { parse } from "./caller.js";
import { isObject, seconds } from "./errors.js";
import type { ResultEntry } from "./generated/types.js";

/** Who says something in a room. */
export interface Sender {
  /** The player's id; 0 is the room itself. */
  id: number;
  name: string;
  isHost: boolean;
  /** True if the room's behaviour says this. No member can send such a message. */
  isServer: boolean;
}

/** @internal A frame of the server's, read. */
export type Frame =
  | { type: "connected"; connectionId: string }
  | { type: "receive"; command: string; data: unknown; sender: Sender; isUnreliable: boolean }
  | { type: "event"; event: string; data: unknown }
  | { type: "sent"; targetCount: number; id: unknown }
  | { type: "action_result"; id: string; result: ResultEntry }
  | { type: "heartbeat_ack"; timestamp: string }
  | { type: "refused"; hint: string | null }
  | { type: "error"; message: string; retryAfter: number | null; id: unknown };

/** @internal Return what a frame says; null if it is unknown here or makes no sense. */
export function read(text: string): Frame | null {
  const said = parse(text);
  if (!isObject(said)) return null;
  const data = isObject(said.data) ? said.data : {};
  switch (said.type) {
    case "connected":
      if (typeof data.connection_id !== "string") return null;
      return { type: "connected", connectionId: data.connection_id };
    case "receive":
      return readReceive(said);
    case "event":
      if (typeof said.event !== "string") return null;
      return { type: "event", event: said.event, data: said.data ?? null };
    case "sent":
      return { type: "sent", targetCount: Number(said.target_count), id: said.id };
    case "action_result":
      if (typeof said.id !== "string" && typeof said.id !== "number") return null;
      return { type: "action_result", id: String(said.id), result: resultOf(said) };
    case "heartbeat_ack":
      return { type: "heartbeat_ack", timestamp: String(said.timestamp) };
    case "refused":
      return { type: "refused", hint: typeof data.hint === "string" ? data.hint : null };
    case "error":
      return {
        type: "error",
        message: String(data.message),
        retryAfter: seconds(data.retry_after),
        id: said.id,
      };
    default:
      return null;
  }
}

function readReceive(said: Record<string, unknown>): Frame | null {
  const { command, sender } = said;
  if (typeof command !== "string" || !isObject(sender)) return null;
  if (typeof sender.game_player_id !== "number") return null;
  return {
    type: "receive",
    command,
    data: said.data ?? null,
    sender: {
      id: sender.game_player_id,
      name: String(sender.player_name),
      isHost: sender.is_host === true,
      isServer: sender.is_server === true,
    },
    isUnreliable: said.unreliable === true,
  };
}

function resultOf(said: Record<string, unknown>): ResultEntry {
  const { type: _type, id: _id, ...result } = said;
  return result as unknown as ResultEntry;
}

/** @internal Return whether a frame counts in the sequence that a client resumes with. */
export function countsForResume(frame: Frame): boolean {
  if (frame.type === "receive") return !frame.isUnreliable;
  if (frame.type === "event") return frame.event !== "state" && frame.event !== "delta";
  return frame.type === "action_result";
}
