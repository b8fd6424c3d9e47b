// A realtime room as a member has it: messages both ways, over connections that may be lost.

import { milliseconds } from "./caller.js";
import { Connection, type HeartbeatOptions } from "./connection.js";
import {
  ABNORMAL,
  ActionRefused,
  ApiError,
  ConnectionFailed,
  ConnectionLost,
  type GreenroomError,
  MessageRefused,
  RateLimited,
  SeatLost,
  ServerError,
  TokenRefused,
  UnexpectedAnswer,
} from "./errors.js";
import { Events } from "./events.js";
import { countsForResume, type Frame, type Sender } from "./frames.js";
import type { ResultEntry, TokenReply } from "./generated/types.js";
import { NodeSocket, type SocketClass } from "./node-socket.js";
import { pause } from "./retries.js";
import { View } from "./view.js";
import { Actions, Sends } from "./waiting.js";

/** Seconds for which a token is used; the server accepts it for five minutes. */
const TOKEN_SECONDS_MAX = 240;
const RECONNECT_SECONDS_MAX = 300;
const BACKOFF = { backoffSeconds: 0.2, backoffSecondsMax: 5 };
/** Seconds that a connection must last for the pauses to begin anew. */
const STEADY_SECONDS = 10;

/** The messages of a game in its rooms: give the type to `Player.enter`, and the compiler checks the rest. */
export interface RoomTypes {
  /** What the room's behaviour shows to all members. */
  state?: unknown;
  /** What it shows to this member alone. */
  privateState?: unknown;
  /** The data of each command. */
  messages?: object;
  /** What each action takes and gives: `{ place: { request: { cell: number }; response: … } }`. */
  actions?: object;
}

/** The types of a room that says nothing of them. */
export interface Untyped extends RoomTypes {
  state: any;
  privateState: any;
  messages: Record<string, any>;
  actions: Record<string, { request: any; response: any }>;
}

type Get<Types, Name extends PropertyKey, Else> = Types extends Record<Name, infer Found>
  ? Found
  : Else;
type Commands<Types> = Get<Types, "messages", Untyped["messages"]>;
type ActionsOf<Types> = Get<Types, "actions", Untyped["actions"]>;
type Part<Of, Name, Of2 extends string, Else> = Name extends keyof Of
  ? Get<Of[Name], Of2, Else>
  : Else;

/** A message of another member, or of the room's behaviour (`sender.isServer`). */
export type Message<Types extends RoomTypes = Untyped> = {
  [Command in keyof Commands<Types> & string]: {
    command: Command;
    data: Commands<Types>[Command];
    sender: Sender;
    /** True if others of its kind may be lost: the newest is what counts. */
    isUnreliable: boolean;
  };
}[keyof Commands<Types> & string];

/** The result of an action. */
export type ActionResult<Response = any> = Omit<ResultEntry, "response_data"> & {
  response_data: Response;
};

/** The state of the connection; `reconnecting` takes care of itself. */
export type ConnectionStatus = "connected" | "reconnecting" | "closed";

/** The receivers of a message: never its sender. */
export type Target = "all" | "host" | "others" | readonly number[];

/** The events that a room sends to its listeners. */
export interface RoomEvents<Types extends RoomTypes = Untyped> {
  /** The state has changed. */
  state: [state: Get<Types, "state", any>, privateState: Get<Types, "privateState", any>];
  /** A message of another member, or of the room's behaviour. */
  message: [message: Message<Types>];
  /** Something happened in the room, such as `member_joined`. */
  event: [name: string, data: any];
  /** The connection was lost, came back, or is over; with the reason, if there is one. */
  connection: [status: ConnectionStatus, reason: GreenroomError | null];
  /** The server did not take something of ours that nobody waits for. */
  refused: [error: MessageRefused];
}

/** Options of a room. */
export interface RoomOptions extends HeartbeatOptions {
  /** Seconds for which a lost connection is tried again; 300 if left out, 0 for not at all. */
  reconnectSecondsMax?: number;
}

/** A realtime room; `Player.enter` makes one. A lost connection is opened again by itself. */
export class Room<Types extends RoomTypes = Untyped> extends Events<RoomEvents<Types>> {
  /** How often it was connected. */
  connections = 0;

  private readonly view = new View();
  private readonly sends = new Sends();
  private readonly actions = new Actions();
  private connection: Connection | null = null;
  /** The connection that is being opened. */
  private dialled: Connection | null = null;
  private connectionId = "";
  private sequence = 0;
  private isAsking = false;
  private token: TokenReply | null = null;
  private mintedAt = 0;
  private id = "";
  private currentStatus: ConnectionStatus = "reconnecting";
  private ended: GreenroomError | null = null;
  private hurry: () => void = () => {};
  /** How far the server's clock is ahead, in milliseconds; null before the first heartbeat. */
  serverAheadMs: number | null = null;

  /** @internal Prepare; `Player.enter` does it, and opens it. */
  constructor(
    private readonly mint: () => Promise<TokenReply>,
    private readonly webSocket: SocketClass | undefined,
    private readonly options: RoomOptions,
  ) {
    super();
  }

  /** The room's id. */
  get roomId(): string {
    return this.id;
  }

  /** What the room's behaviour shows to all members; null if nothing. A new object each time. */
  get state(): Get<Types, "state", any> | null {
    return this.view.shared as Get<Types, "state", any> | null;
  }

  /** What the room's behaviour shows to this player alone, such as a hand of cards. */
  get privateState(): Get<Types, "privateState", any> | null {
    return this.view.private as Get<Types, "privateState", any> | null;
  }

  /** Whether it is connected now. */
  get status(): ConnectionStatus {
    return this.currentStatus;
  }

  /** Why the room is over; null while it is not, and after `close`. */
  get error(): GreenroomError | null {
    return this.ended;
  }

  /** Seconds that the last heartbeat took; null before the first. */
  get roundTripSeconds(): number | null {
    return this.connection?.roundTripSeconds ?? null;
  }

  // What goes.

  /**
   * Send a message. While the connection is being opened again, it waits for that.
   *
   * Nobody need wait for the promise: it resolves once the server has taken the message.
   *
   * @returns how many members it is for
   * @throws MessageRefused nobody got it
   * @throws ConnectionLost the connection was cut just now; it may have arrived or not
   */
  send<Command extends keyof Commands<Types> & string>(
    command: Command,
    data: Commands<Types>[Command],
    target: Target = "all",
  ): Promise<number> {
    const to = typeof target === "string" ? { target } : { target: "specific", target_ids: target };
    if (this.currentStatus === "closed") return Promise.reject(this.whyClosed());
    const frame = { type: "send", command, data: data === undefined ? null : data, ...to };
    return this.sends.put(frame, this.openConnection);
  }

  /**
   * Ask a member for something, and wait for the result, over lost connections, too.
   *
   * After a lost connection it is asked for again, unless it was taken. It happens once at most.
   *
   * @param options.target the member who is asked; the host if left out. Only the host may ask others
   * @param options.secondsMax seconds to wait for the result; 30 if left out
   * @throws ActionRefused it was not taken; nothing has changed
   * @throws ActionFailed it was settled, and has failed
   * @throws ActionLost no result came; it may have happened, or happen yet
   */
  async action<Name extends keyof ActionsOf<Types> & string>(
    name: Name,
    request: Part<ActionsOf<Types>, Name, "request", object>,
    options: { target?: number; secondsMax?: number } = {},
  ): Promise<ActionResult<Part<ActionsOf<Types>, Name, "response", any>>> {
    if (this.currentStatus === "closed") throw this.whyClosed();
    const to = options.target === undefined ? {} : { target_id: options.target };
    const frame = { action_type: name, request_data: request ?? {}, ...to };
    const secondsMax = options.secondsMax ?? 30;
    return (await this.actions.ask(frame, this.openConnection, secondsMax)) as ActionResult<never>;
  }

  /** Leave the channel; the seat stays as it is. */
  async close(): Promise<void> {
    const connection = this.connection;
    this.finish(null);
    if (connection !== null) await connection.close();
    else this.dialled?.cut("the room was closed here");
  }

  private get openConnection(): Connection | null {
    return this.connection?.isOpen ? this.connection : null;
  }

  // What comes.

  /** @internal Take a frame; connections call it. */
  take(frame: Frame, connection: Connection): void {
    if (this.currentStatus === "closed") return;
    if (frame.type === "connected") {
      this.begin(frame.connectionId, connection);
      return;
    }
    if (countsForResume(frame)) this.sequence++;
    switch (frame.type) {
      case "receive": {
        const { type: _type, ...message } = frame;
        this.emit("message", message as unknown as Message<Types>);
        break;
      }
      case "event":
        this.takeEvent(frame.event, frame.data, connection);
        break;
      case "sent":
        this.sends.take(frame.id, frame.targetCount);
        break;
      case "action_result":
        this.actions.take(frame.id, frame.result);
        break;
      case "error":
        this.takeError(frame.message, frame.retryAfter, frame.id);
        break;
      case "heartbeat_ack":
        this.serverAheadMs = Date.parse(frame.timestamp) - Date.now();
    }
  }

  private begin(connectionId: string, connection: Connection): void {
    this.connection = connection;
    this.connectionId = connectionId;
    this.sequence = 0;
    this.isAsking = false;
    this.connections++;
    this.actions.flush(connection);
    this.sends.flush(connection);
    this.setStatus("connected", null);
  }

  private takeEvent(event: string, data: unknown, connection: Connection): void {
    if (event !== "state" && event !== "delta") {
      this.emit("event", event, data);
      return;
    }
    const hasChanged = this.view.take(event, data);
    this.isAsking &&= this.view.isLost;
    if (this.view.isLost && !this.isAsking) {
      this.isAsking = true;
      connection.send('{"type":"state"}');
    }
    if (hasChanged) {
      const [shared, own] = [this.state, this.privateState] as RoomEvents<Types>["state"];
      this.emit("state", shared, own);
    }
  }

  private takeError(text: string, retryAfter: number | null, id: unknown): void {
    const error = new MessageRefused(text, retryAfter);
    if (this.actions.refuse(id, new ActionRefused(text, retryAfter))) return;
    if (!this.sends.refuse(id, error) || id === undefined) this.emit("refused", error);
  }

  // Connections.

  /** @internal Connect; from then on lost connections are opened again. `Player.enter` calls it. */
  async open(): Promise<void> {
    const connection = await this.connect();
    void this.live(connection);
  }

  private async live(first: Connection): Promise<void> {
    let connection: Connection | null = first;
    let failures = 0;
    while (connection !== null) {
      const began = performance.now();
      const error = await connection.over;
      this.connection = null;
      if (this.currentStatus === "closed") return;
      this.sends.lose(error);
      if (performance.now() - began > STEADY_SECONDS * 1000) failures = 0;
      this.setStatus("reconnecting", error);
      [connection, failures] = await this.reconnect(error, failures);
    }
  }

  /** Open a connection again; return it, and how often that has failed. Null if it is over. */
  private async reconnect(
    error: GreenroomError,
    failures: number,
  ): Promise<[Connection | null, number]> {
    const lostAt = performance.now();
    const secondsMax = this.options.reconnectSecondsMax ?? RECONNECT_SECONDS_MAX;
    while (this.currentStatus !== "closed") {
      if (!isMendable(error)) {
        this.finish(error);
        break;
      }
      failures++;
      const wait = pause(BACKOFF, failures) + (error.retryAfter ?? 0);
      if ((performance.now() - lostAt) / 1000 + wait > secondsMax) {
        this.finish(new ConnectionLost(ABNORMAL, `not connected again in time: ${error.message}`));
        break;
      }
      await this.wait(wait);
      if (this.ended !== null || (this.currentStatus as string) === "closed") break;
      try {
        return [await this.connect(), failures];
      } catch (failed) {
        error = failed as GreenroomError;
      }
    }
    return [null, failures];
  }

  /** Wait for some seconds, or until the browser says that the network is back. */
  private wait(seconds: number): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        globalThis.removeEventListener?.("online", done);
        resolve();
      };
      const timer = setTimeout(done, milliseconds(seconds));
      globalThis.addEventListener?.("online", done);
      this.hurry = done;
    });
  }

  /** Open a connection and wait for its greeting, with a new token if the old one is refused. */
  private async connect(): Promise<Connection> {
    for (;;) {
      const isNew = await this.renewToken();
      if (this.currentStatus === "closed") throw this.whyClosed();
      try {
        const connection = (this.dialled = this.dial(this.token!));
        await connection.greeted;
        return connection;
      } catch (error) {
        this.token = null; // a restarted server may listen elsewhere
        if (isNew || !(error instanceof TokenRefused)) throw error;
      }
    }
  }

  private dial(token: TokenReply): Connection {
    const { protocol, host, port } = token.realtime_server;
    const name = host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
    const resume = this.connectionId ? `&resume=${this.connectionId}.${this.sequence}` : "";
    const url = `${protocol}://${name}:${port}/?client=json&hints=1${resume}`;
    const socketClass = this.webSocket ?? globalThis.WebSocket ?? NodeSocket;
    try {
      return new Connection(socketClass, url, token.token, this.options, this);
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      throw new ConnectionFailed(`${protocol}://${name}:${port}: ${text}`, false, error);
    }
  }

  /** Make sure that the token is good; return whether it is a new one. */
  private async renewToken(): Promise<boolean> {
    const isGood = performance.now() - this.mintedAt < TOKEN_SECONDS_MAX * 1000;
    if (this.token !== null && isGood) return false;
    const mintedAt = performance.now();
    const token = await this.mint();
    if (!isToken(token)) throw new UnexpectedAnswer("the token makes no sense: check the address");
    const roomId = token.player_info.room_id;
    if (this.id !== "" && roomId !== this.id) {
      throw new SeatLost(ABNORMAL, "the player has a seat in another room");
    }
    [this.token, this.mintedAt, this.id] = [token, mintedAt, roomId];
    return true;
  }

  private setStatus(status: ConnectionStatus, reason: GreenroomError | null): void {
    this.currentStatus = status;
    this.emit("connection", status, reason);
  }

  private finish(error: GreenroomError | null): void {
    if (this.currentStatus === "closed") return;
    this.ended = error;
    this.connection = null;
    const reason = this.whyClosed();
    this.sends.end(reason);
    this.actions.end(reason);
    this.setStatus("closed", error);
    this.hurry();
  }

  private whyClosed(): GreenroomError {
    return this.ended ?? new ConnectionLost(1000, "the room was closed here");
  }
}

/** Return whether an answer has all that it takes to connect. */
function isToken(reply: Partial<TokenReply>): boolean {
  const { token, player_info: player, realtime_server: server } = reply;
  const texts = [token, player?.room_id, server?.host, server?.protocol];
  return texts.every((text) => typeof text === "string") && Number.isInteger(server?.port);
}

/** Return whether it helps to connect again. */
function isMendable(error: GreenroomError): boolean {
  if (error instanceof RateLimited || error instanceof ServerError) return true;
  if (error instanceof ApiError) return false;
  return error instanceof ConnectionLost || error instanceof ConnectionFailed;
}
