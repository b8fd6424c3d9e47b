// The client library of Greenroom: a game's players, their rooms, and realtime.
// What needs the game's admin key is in `greenroom-client/admin`.

export type { CallOptions } from "./caller.js";
export * from "./errors.js";
export { Game, type GameOptions } from "./game.js";
export type { RefusalCode } from "./generated/refusals.js";
export type * from "./generated/types.js";
export { Player } from "./player.js";
export type { Retries } from "./retries.js";
export * from "./room.js";
export type { Sender } from "./frames.js";
