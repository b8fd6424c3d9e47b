import { ConnectionFailed, isObject, refusal } from "./errors.js";
import { decidePause, RETRIES } from "./retries.js";
export function segment(text) {
    return encodeURIComponent(text);
}
export function milliseconds(seconds) {
    return Math.min(seconds * 1000, 2 ** 31 - 1);
}
export function sleep(seconds) {
    return new Promise((resolve) => setTimeout(resolve, milliseconds(seconds)));
}
export class Caller {
    url;
    headers;
    options;
    constructor(url, headers, options = {}) {
        this.url = url;
        this.headers = headers;
        this.options = options;
    }
    withHeader(name, value) {
        return new Caller(this.url, { ...this.headers, [name]: value }, this.options);
    }
    async call(method, path, isRepeatable, body, query = {}) {
        const retries = { ...RETRIES, ...this.options.retries };
        const began = performance.now();
        for (let failures = 1;; failures++) {
            try {
                return (await this.attempt(method, path, body, query));
            }
            catch (error) {
                const passed = (performance.now() - began) / 1000;
                const wait = decidePause(retries, error, isRepeatable, failures, passed);
                if (wait === null)
                    throw error;
                await sleep(wait);
            }
        }
    }
    async attempt(method, path, body, query) {
        const secondsMax = this.options.answerSecondsMax ?? 30;
        const signal = AbortSignal.timeout(milliseconds(secondsMax));
        const init = { method, headers: { ...this.headers }, signal, cache: "no-store" };
        if (method !== "GET") {
            init.body = JSON.stringify(body ?? {});
            init.headers = { ...this.headers, "Content-Type": "application/json" };
        }
        let answer, text;
        try {
            answer = await fetch(this.url + path + queryOf(query), init);
            text = await answer.text();
        }
        catch (error) {
            if (signal.aborted) {
                throw new ConnectionFailed(`no answer within ${secondsMax} s`, true, error);
            }
            throw new ConnectionFailed(why(error), !isUnsent(error), error);
        }
        const said = parse(text);
        if (answer.status === 200 && isObject(said) && said.success === true)
            return said;
        throw refusal(answer.status, said, answer.headers.get("Retry-After"));
    }
}
function queryOf(query) {
    const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
    if (given.length === 0)
        return "";
    return `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}`;
}
export function parse(text) {
    try {
        return JSON.parse(text);
    }
    catch {
        return undefined;
    }
}
function why(error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    return (cause instanceof Error && cause.message) || "the server could not be reached";
}
const UNSENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"]);
function isUnsent(error) {
    const cause = error instanceof Error ? error.cause : null;
    return isObject(cause) && UNSENT.has(String(cause.code));
}
