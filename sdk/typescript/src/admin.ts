// What a studio's own services do with the game's admin key. Never put the key into a game client.

import { type CallOptions, Caller } from "./caller.js";
import { AdminCalls } from "./generated/admin-calls.js";

/** The game's owner, in a process of the studio's own. */
export class Admin extends AdminCalls {
  /**
   * @param url the server's address
   * @param apiToken the game's project key
   * @param privateToken the game's admin key
   */
  constructor(url: string, apiToken: string, privateToken: string, options: CallOptions = {}) {
    const headers = { "X-Api-Token": apiToken, "X-Api-Private-Token": privateToken };
    super(new Caller(url.replace(/\/+$/, ""), headers, options));
  }
}

export type { CallOptions } from "./caller.js";
export * from "./errors.js";
export type { RefusalCode } from "./generated/refusals.js";
export type * from "./generated/types.js";
export type { Retries } from "./retries.js";
