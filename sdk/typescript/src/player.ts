// A player of a game, with the calls that need their token.

import type { Caller } from "./caller.js";
import { PlayerCalls } from "./generated/player-calls.js";
import type { RenameReply, RenameRequest, RotateReply } from "./generated/types.js";
import { Room, type RoomOptions, type RoomTypes, type Untyped } from "./room.js";

/** A player; `Game.signUp` and `Game.signIn` make one. */
export class Player extends PlayerCalls {
  /** The player's id. */
  readonly id: number;
  /** The tag by which others find the player. */
  readonly tag: string;
  private currentName: string;
  private currentToken: string;

  constructor(
    private readonly base: Caller,
    token: string,
    who: { id: number; name: string; tag: string },
    private readonly webSocket?: typeof WebSocket,
  ) {
    super(base.withHeader("X-Game-Player-Token", token));
    this.id = who.id;
    this.tag = who.tag;
    this.currentName = who.name;
    this.currentToken = token;
  }

  /** The player's name, as far as it is known here. */
  get name(): string {
    return this.currentName;
  }

  /** The player's secret: keep it where only they can read it. */
  get token(): string {
    return this.currentToken;
  }

  override async rename(request: RenameRequest): Promise<RenameReply> {
    const reply = await super.rename(request);
    this.currentName = reply.new_name;
    return reply;
  }

  override async rotate(): Promise<RotateReply> {
    const reply = await super.rotate();
    this.currentToken = reply.private_key;
    this.caller = this.base.withHeader("X-Game-Player-Token", reply.private_key);
    return reply;
  }

  /**
   * Connect to the realtime room in which the player has a seat.
   *
   * @throws ApiError the room is not realtime, or the player has no seat
   * @throws ConnectionFailed, RoomClosed the first connection could not be opened
   */
  async enter<Types extends RoomTypes = Untyped>(options: RoomOptions = {}): Promise<Room<Types>> {
    const room = new Room<Types>(() => this.mintToken(), this.webSocket, options);
    await room.open();
    return room;
  }
}
