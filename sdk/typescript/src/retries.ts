// Whether a call is tried again, and after how long.
//
// A call is repeated where that is safe: it was never sent, or the server said 429 and so nothing
// has happened, or a second time changes nothing more.

import { ConnectionFailed, RateLimited, ServerError } from "./errors.js";

/** How often and when a client repeats a call. */
export interface Retries {
  /** Attempts, the first included; 1 never repeats. */
  attemptsMax: number;
  /** Seconds from the first attempt to the beginning of the last. */
  secondsMax: number;
  /** The longest pause in seconds after the first failure. Each further failure doubles it. */
  backoffSeconds: number;
  /** The longest pause in seconds after any failure, but for one that the server asks for. */
  backoffSecondsMax: number;
}

/** @internal */
export const RETRIES: Retries = {
  attemptsMax: 5,
  secondsMax: 30,
  backoffSeconds: 0.1,
  backoffSecondsMax: 5,
};

/** @internal Return the seconds to wait after so many failures in a row, from 1. */
export function pause(
  retries: Pick<Retries, "backoffSeconds" | "backoffSecondsMax">,
  failures: number,
): number {
  const longest = retries.backoffSeconds * 2 ** Math.min(failures - 1, 30);
  return Math.random() * Math.min(longest, retries.backoffSecondsMax);
}

/**
 * Return the seconds to wait before the next attempt; null to give up.
 *
 * @param failures attempts so far, from 1
 * @param passed seconds since the first attempt began
 *
 * @internal
 */
export function decidePause(
  retries: Retries,
  error: unknown,
  isRepeatable: boolean,
  failures: number,
  passed: number,
): number | null {
  if (failures >= retries.attemptsMax || !isSafe(error, isRepeatable)) return null;
  let wait = pause(retries, failures);
  if (error instanceof RateLimited) wait += error.retryAfter ?? 0;
  return passed + wait <= retries.secondsMax ? wait : null;
}

function isSafe(error: unknown, isRepeatable: boolean): boolean {
  if (error instanceof RateLimited) return true;
  if (error instanceof ConnectionFailed) return isRepeatable || !error.wasSent;
  return error instanceof ServerError && isRepeatable;
}
