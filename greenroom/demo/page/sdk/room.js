import { milliseconds } from "./caller.js";
import { Connection } from "./connection.js";
import { ABNORMAL, ActionRefused, ApiError, ConnectionFailed, ConnectionLost, MessageRefused, RateLimited, SeatLost, ServerError, TokenRefused, UnexpectedAnswer, } from "./errors.js";
import { Events } from "./events.js";
import { countsForResume } from "./frames.js";
import { NodeSocket } from "./node-socket.js";
import { pause } from "./retries.js";
import { View } from "./view.js";
import { Actions, Sends } from "./waiting.js";
const TOKEN_SECONDS_MAX = 240;
const RECONNECT_SECONDS_MAX = 300;
const BACKOFF = { backoffSeconds: 0.2, backoffSecondsMax: 5 };
const STEADY_SECONDS = 10;
export class Room extends Events {
    mint;
    webSocket;
    options;
    connections = 0;
    view = new View();
    sends = new Sends();
    actions = new Actions();
    connection = null;
    dialled = null;
    connectionId = "";
    sequence = 0;
    isAsking = false;
    token = null;
    mintedAt = 0;
    id = "";
    currentStatus = "reconnecting";
    ended = null;
    hurry = () => { };
    serverAheadMs = null;
    constructor(mint, webSocket, options) {
        super();
        this.mint = mint;
        this.webSocket = webSocket;
        this.options = options;
    }
    get roomId() {
        return this.id;
    }
    get state() {
        return this.view.shared;
    }
    get privateState() {
        return this.view.private;
    }
    get status() {
        return this.currentStatus;
    }
    get error() {
        return this.ended;
    }
    get roundTripSeconds() {
        return this.connection?.roundTripSeconds ?? null;
    }
    send(command, data, target = "all") {
        const to = typeof target === "string" ? { target } : { target: "specific", target_ids: target };
        if (this.currentStatus === "closed")
            return Promise.reject(this.whyClosed());
        const frame = { type: "send", command, data: data === undefined ? null : data, ...to };
        return this.sends.put(frame, this.openConnection);
    }
    async action(name, request, options = {}) {
        if (this.currentStatus === "closed")
            throw this.whyClosed();
        const to = options.target === undefined ? {} : { target_id: options.target };
        const frame = { action_type: name, request_data: request ?? {}, ...to };
        const secondsMax = options.secondsMax ?? 30;
        return (await this.actions.ask(frame, this.openConnection, secondsMax));
    }
    async close() {
        const connection = this.connection;
        this.finish(null);
        if (connection !== null)
            await connection.close();
        else
            this.dialled?.cut("the room was closed here");
    }
    get openConnection() {
        return this.connection?.isOpen ? this.connection : null;
    }
    take(frame, connection) {
        if (this.currentStatus === "closed")
            return;
        if (frame.type === "connected") {
            this.begin(frame.connectionId, connection);
            return;
        }
        if (countsForResume(frame))
            this.sequence++;
        switch (frame.type) {
            case "receive": {
                const { type: _type, ...message } = frame;
                this.emit("message", message);
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
    begin(connectionId, connection) {
        this.connection = connection;
        this.connectionId = connectionId;
        this.sequence = 0;
        this.isAsking = false;
        this.connections++;
        this.actions.flush(connection);
        this.sends.flush(connection);
        this.setStatus("connected", null);
    }
    takeEvent(event, data, connection) {
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
            const [shared, own] = [this.state, this.privateState];
            this.emit("state", shared, own);
        }
    }
    takeError(text, retryAfter, id) {
        const error = new MessageRefused(text, retryAfter);
        if (this.actions.refuse(id, new ActionRefused(text, retryAfter)))
            return;
        if (!this.sends.refuse(id, error) || id === undefined)
            this.emit("refused", error);
    }
    async open() {
        const connection = await this.connect();
        void this.live(connection);
    }
    async live(first) {
        let connection = first;
        let failures = 0;
        while (connection !== null) {
            const began = performance.now();
            const error = await connection.over;
            this.connection = null;
            if (this.currentStatus === "closed")
                return;
            this.sends.lose(error);
            if (performance.now() - began > STEADY_SECONDS * 1000)
                failures = 0;
            this.setStatus("reconnecting", error);
            [connection, failures] = await this.reconnect(error, failures);
        }
    }
    async reconnect(error, failures) {
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
            if (this.ended !== null || this.currentStatus === "closed")
                break;
            try {
                return [await this.connect(), failures];
            }
            catch (failed) {
                error = failed;
            }
        }
        return [null, failures];
    }
    wait(seconds) {
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
    async connect() {
        for (;;) {
            const isNew = await this.renewToken();
            if (this.currentStatus === "closed")
                throw this.whyClosed();
            try {
                const connection = (this.dialled = this.dial(this.token));
                await connection.greeted;
                return connection;
            }
            catch (error) {
                this.token = null;
                if (isNew || !(error instanceof TokenRefused))
                    throw error;
            }
        }
    }
    dial(token) {
        const { protocol, host, port } = token.realtime_server;
        const name = host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
        const resume = this.connectionId ? `&resume=${this.connectionId}.${this.sequence}` : "";
        const url = `${protocol}://${name}:${port}/?client=json&hints=1${resume}`;
        const socketClass = this.webSocket ?? globalThis.WebSocket ?? NodeSocket;
        try {
            return new Connection(socketClass, url, token.token, this.options, this);
        }
        catch (error) {
            const text = error instanceof Error ? error.message : String(error);
            throw new ConnectionFailed(`${protocol}://${name}:${port}: ${text}`, false, error);
        }
    }
    async renewToken() {
        const isGood = performance.now() - this.mintedAt < TOKEN_SECONDS_MAX * 1000;
        if (this.token !== null && isGood)
            return false;
        const mintedAt = performance.now();
        const token = await this.mint();
        if (!isToken(token))
            throw new UnexpectedAnswer("the token makes no sense: check the address");
        const roomId = token.player_info.room_id;
        if (this.id !== "" && roomId !== this.id) {
            throw new SeatLost(ABNORMAL, "the player has a seat in another room");
        }
        [this.token, this.mintedAt, this.id] = [token, mintedAt, roomId];
        return true;
    }
    setStatus(status, reason) {
        this.currentStatus = status;
        this.emit("connection", status, reason);
    }
    finish(error) {
        if (this.currentStatus === "closed")
            return;
        this.ended = error;
        this.connection = null;
        const reason = this.whyClosed();
        this.sends.end(reason);
        this.actions.end(reason);
        this.setStatus("closed", error);
        this.hurry();
    }
    whyClosed() {
        return this.ended ?? new ConnectionLost(1000, "the room was closed here");
    }
}
function isToken(reply) {
    const { token, player_info: player, realtime_server: server } = reply;
    const texts = [token, player?.room_id, server?.host, server?.protocol];
    return texts.every((text) => typeof text === "string") && Number.isInteger(server?.port);
}
function isMendable(error) {
    if (error instanceof RateLimited || error instanceof ServerError)
        return true;
    if (error instanceof ApiError)
        return false;
    return error instanceof ConnectionLost || error instanceof ConnectionFailed;
}
