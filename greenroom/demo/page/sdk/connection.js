import { milliseconds } from "./caller.js";
import { ABNORMAL, closing, ConnectionLost } from "./errors.js";
import { read } from "./frames.js";
const GREETING_SECONDS_MAX = 15;
const HEARTBEAT_SECONDS = 20;
const ACK_SECONDS_MAX = 15;
const CLOSE_SECONDS_MAX = 2;
const OPEN = 1;
export class Connection {
    options;
    listener;
    greeted;
    over;
    roundTripSeconds = null;
    socket;
    isOver = false;
    hint = null;
    held = null;
    greet;
    refuse;
    finish;
    greeting;
    beats = null;
    patience = null;
    beganAt = 0;
    constructor(socketClass, url, token, options, listener) {
        this.options = options;
        this.listener = listener;
        this.greeted = new Promise((resolve, reject) => {
            this.greet = resolve;
            this.refuse = reject;
        });
        this.over = new Promise((resolve) => (this.finish = resolve));
        this.socket = new socketClass(url, ["greenroom.v1", `token.${token}`]);
        this.socket.onmessage = (event) => this.hear(event.data);
        this.socket.onclose = (event) => {
            this.end(closing(event.code, event.reason, this.hint));
        };
        const silent = () => this.cut("the server did not say hello");
        this.greeting = setTimeout(silent, GREETING_SECONDS_MAX * 1000);
    }
    get isOpen() {
        return !this.isOver && this.socket.readyState === OPEN;
    }
    get bufferedBytes() {
        return this.socket.bufferedAmount;
    }
    send(text) {
        if (this.isOpen)
            this.socket.send(text);
    }
    cut(reason) {
        this.socket.onmessage = this.socket.onclose = null;
        this.end(new ConnectionLost(ABNORMAL, reason));
        this.socket.close();
    }
    async close() {
        const late = setTimeout(() => this.cut("closed"), CLOSE_SECONDS_MAX * 1000);
        this.socket.close(1000);
        await this.over;
        clearTimeout(late);
    }
    hear(data) {
        const frame = typeof data === "string" ? read(data) : null;
        if (frame === null || this.isOver)
            return;
        if (frame.type === "refused") {
            this.hint = frame.hint;
            return;
        }
        if (frame.type === "connected") {
            clearTimeout(this.greeting);
            const seconds = Math.min(this.options.heartbeatSeconds ?? HEARTBEAT_SECONDS, 50);
            this.beats ??= setInterval(() => this.beat(), seconds * 1000);
            this.held ??= [];
            setTimeout(() => this.release());
            this.greet();
            this.listener.take(frame, this);
            return;
        }
        if (frame.type === "heartbeat_ack" && this.patience !== null) {
            clearTimeout(this.patience);
            this.patience = null;
            this.roundTripSeconds = (performance.now() - this.beganAt) / 1000;
        }
        if (this.held === null)
            this.listener.take(frame, this);
        else
            this.held.push(frame);
    }
    release() {
        const frames = this.held ?? [];
        this.held = null;
        for (const frame of frames)
            this.listener.take(frame, this);
    }
    beat() {
        if (this.patience !== null)
            return;
        this.beganAt = performance.now();
        const silent = () => this.cut("the server does not answer");
        const secondsMax = this.options.answerSecondsMax ?? ACK_SECONDS_MAX;
        this.patience = setTimeout(silent, milliseconds(secondsMax));
        this.send('{"type":"heartbeat"}');
    }
    end(error) {
        if (this.isOver)
            return;
        this.release();
        this.isOver = true;
        clearTimeout(this.greeting);
        if (this.beats !== null)
            clearInterval(this.beats);
        if (this.patience !== null)
            clearTimeout(this.patience);
        this.refuse(error);
        this.greeted.catch(() => { });
        this.finish(error);
    }
}
