// Calls of the API: one request, its answer, and its retries.

import { ConnectionFailed, isObject, refusal } from "./errors.js";
import { decidePause, RETRIES, type Retries } from "./retries.js";

type Method = "GET" | "POST" | "PUT";

/** How calls are made. */
export interface CallOptions {
  /** Seconds that one attempt may take; 30 if left out. */
  answerSecondsMax?: number;
  /** How often a failed call is repeated, where that is safe. */
  retries?: Partial<Retries>;
}

/** @internal Return a part of a path as it stands in an address. */
export function segment(text: string): string {
  return encodeURIComponent(text);
}

/** @internal Return seconds as timers take them: what is longer than 24 days would end at once. */
export function milliseconds(seconds: number): number {
  return Math.min(seconds * 1000, 2 ** 31 - 1);
}

/** @internal Return after so many seconds. */
export function sleep(seconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds(seconds)));
}

/** Calls operations with one set of headers. */
export class Caller {
  constructor(
    private readonly url: string,
    private readonly headers: Readonly<Record<string, string>>,
    private readonly options: CallOptions = {},
  ) {}

  /** Return a caller that sends this header, too. */
  withHeader(name: string, value: string): Caller {
    return new Caller(this.url, { ...this.headers, [name]: value }, this.options);
  }

  /**
   * Call an operation, and repeat it where that is safe.
   *
   * @param isRepeatable whether a second call changes nothing more
   * @param body what the request holds; undefined for nothing
   * @param query what stands in the query; members that are null or undefined are left out
   */
  async call<Reply>(
    method: Method,
    path: string,
    isRepeatable: boolean,
    body?: object,
    query: object = {},
  ): Promise<Reply> {
    const retries = { ...RETRIES, ...this.options.retries };
    const began = performance.now();
    for (let failures = 1; ; failures++) {
      try {
        return (await this.attempt(method, path, body, query)) as Reply;
      } catch (error) {
        const passed = (performance.now() - began) / 1000;
        const wait = decidePause(retries, error, isRepeatable, failures, passed);
        if (wait === null) throw error;
        await sleep(wait);
      }
    }
  }

  private async attempt(
    method: Method,
    path: string,
    body: object | undefined,
    query: object,
  ): Promise<unknown> {
    const secondsMax = this.options.answerSecondsMax ?? 30;
    const signal = AbortSignal.timeout(milliseconds(secondsMax));
    const init: RequestInit = { method, headers: { ...this.headers }, signal, cache: "no-store" };
    if (method !== "GET") {
      init.body = JSON.stringify(body ?? {});
      init.headers = { ...this.headers, "Content-Type": "application/json" };
    }
    let answer: Response, text: string;
    try {
      answer = await fetch(this.url + path + queryOf(query), init);
      text = await answer.text();
    } catch (error) {
      if (signal.aborted) {
        throw new ConnectionFailed(`no answer within ${secondsMax} s`, true, error);
      }
      throw new ConnectionFailed(why(error), !isUnsent(error), error);
    }
    const said = parse(text);
    if (answer.status === 200 && isObject(said) && said.success === true) return said;
    throw refusal(answer.status, said, answer.headers.get("Retry-After"));
  }
}

function queryOf(query: object): string {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
  if (given.length === 0) return "";
  return `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}`;
}

/** @internal Return what a text of JSON says; undefined for any other text. */
export function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function why(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return (cause instanceof Error && cause.message) || "the server could not be reached";
}

const UNSENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"]);

/** Return whether a request surely never left; only Node tells, browsers do not. */
function isUnsent(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : null;
  return isObject(cause) && UNSENT.has(String(cause.code));
}
