import { milliseconds } from "./caller.js";
import { ActionFailed, ActionLost, ActionRefused, ConnectionLost, MessageRefused, } from "./errors.js";
export const WAITING_MAX = 1024;
export const BUFFERED_BYTES_MAX = 1 << 20;
const FULL = "Too many messages wait for the network: send less at once";
export class Sends {
    waiting = new Map();
    count = 0;
    put(frame, connection) {
        if (isFull(this.waiting, connection))
            return refused(new MessageRefused(FULL));
        const id = ++this.count;
        const text = JSON.stringify({ ...frame, id });
        const sent = new Promise((resolve, reject) => {
            const isSent = connection !== null;
            this.waiting.set(id, { text, isSent, isSentAgain: false, resolve, reject });
        });
        connection?.send(text);
        return quiet(sent);
    }
    take(id, targetCount) {
        pop(this.waiting, id)?.resolve(targetCount);
    }
    refuse(id, error) {
        const found = pop(this.waiting, id);
        found?.reject(error);
        return found !== undefined;
    }
    lose(error) {
        for (const [id, each] of this.waiting) {
            if (!each.isSent)
                continue;
            this.waiting.delete(id);
            each.reject(new ConnectionLost(error.code, error.reason));
        }
    }
    flush(connection) {
        for (const each of this.waiting.values()) {
            if (!each.isSent)
                connection.send(each.text);
            each.isSent = true;
        }
    }
    end(error) {
        endAll(this.waiting, error);
    }
}
export class Actions {
    waiting = new Map();
    prefix = Array.from(crypto.getRandomValues(new Uint8Array(6)), (byte) => byte.toString(16).padStart(2, "0")).join("");
    count = 0;
    async ask(frame, connection, secondsMax) {
        if (isFull(this.waiting, connection))
            throw new ActionRefused(FULL);
        const id = `${this.prefix}.${++this.count}`;
        const text = JSON.stringify({ type: "action", id, ...frame });
        const answered = new Promise((resolve, reject) => {
            const isSent = connection !== null;
            this.waiting.set(id, { text, isSent, isSentAgain: false, resolve, reject });
        });
        connection?.send(text);
        const late = setTimeout(() => {
            pop(this.waiting, id)?.reject(new ActionLost(`no result has come within ${secondsMax} s`));
        }, milliseconds(secondsMax));
        try {
            return await answered;
        }
        finally {
            clearTimeout(late);
        }
    }
    take(id, result) {
        const found = pop(this.waiting, id);
        if (result.status === "failed")
            found?.reject(new ActionFailed(result));
        else
            found?.resolve(result);
    }
    refuse(id, error) {
        const found = pop(this.waiting, id);
        found?.reject(found.isSentAgain ? new ActionLost(error.message) : error);
        return found !== undefined;
    }
    flush(connection) {
        for (const each of this.waiting.values()) {
            connection.send(each.isSent ? `${each.text.slice(0, -1)},"again":true}` : each.text);
            each.isSentAgain = each.isSent;
            each.isSent = true;
        }
    }
    end(error) {
        endAll(this.waiting, error);
    }
}
function isFull(waiting, connection) {
    const buffered = connection?.bufferedBytes ?? 0;
    return waiting.size >= WAITING_MAX || buffered > BUFFERED_BYTES_MAX;
}
function pop(waiting, id) {
    const found = waiting.get(id);
    waiting.delete(id);
    return found;
}
function endAll(waiting, error) {
    for (const each of waiting.values())
        each.reject(error);
    waiting.clear();
}
function refused(error) {
    return quiet(Promise.reject(error));
}
function quiet(promise) {
    promise.catch(() => { });
    return promise;
}
