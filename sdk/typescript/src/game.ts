// A game on a server: the entry point of the library.

import { type CallOptions, Caller } from "./caller.js";
import { GameCalls } from "./generated/game-calls.js";
import type { RegisterRequest } from "./generated/types.js";
import { Player } from "./player.js";

/** Options of a game: how its calls are made. */
export interface GameOptions extends CallOptions {
  /** The WebSocket to use for realtime; the platform's, or in older Nodes the library's own. */
  webSocket?: typeof WebSocket;
}

/** A game. Nothing is sent before the first call. */
export class Game extends GameCalls {
  private readonly options: GameOptions;

  /**
   * @param url the server's address, `https://play.example.com` or `http://127.0.0.1:8080`
   * @param apiToken the game's project key
   */
  constructor(url: string, apiToken: string, options: GameOptions = {}) {
    super(new Caller(url.replace(/\/+$/, ""), { "X-Api-Token": apiToken }, options));
    this.options = options;
  }

  /**
   * Open an account for a guest by name, or sign in with a platform's ticket.
   *
   * Keep `Player.token`. It is told only this once, and is the only way back to a guest's account.
   */
  async signUp(request: RegisterRequest = {}): Promise<Player> {
    const account = await this.register(request);
    return this.player(account.private_key, {
      id: Number(account.player_id),
      name: account.player_name,
      tag: account.player_tag,
    });
  }

  /** Log in as the player who has this token. */
  async signIn(token: string): Promise<Player> {
    const player = this.player(token, { id: 0, name: "", tag: "" });
    const { player: record } = await player.logIn();
    return this.player(token, {
      id: record.id,
      name: record.player_name,
      tag: record.player_tag,
    });
  }

  private player(token: string, who: { id: number; name: string; tag: string }): Player {
    return new Player(this.caller, token, who, this.options.webSocket);
  }
}
