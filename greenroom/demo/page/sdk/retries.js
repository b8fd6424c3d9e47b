import { ConnectionFailed, RateLimited, ServerError } from "./errors.js";
export const RETRIES = {
    attemptsMax: 5,
    secondsMax: 30,
    backoffSeconds: 0.1,
    backoffSecondsMax: 5,
};
export function pause(retries, failures) {
    const longest = retries.backoffSeconds * 2 ** Math.min(failures - 1, 30);
    return Math.random() * Math.min(longest, retries.backoffSecondsMax);
}
export function decidePause(retries, error, isRepeatable, failures, passed) {
    if (failures >= retries.attemptsMax || !isSafe(error, isRepeatable))
        return null;
    let wait = pause(retries, failures);
    if (error instanceof RateLimited)
        wait += error.retryAfter ?? 0;
    return passed + wait <= retries.secondsMax ? wait : null;
}
function isSafe(error, isRepeatable) {
    if (error instanceof RateLimited)
        return true;
    if (error instanceof ConnectionFailed)
        return isRepeatable || !error.wasSent;
    return error instanceof ServerError && isRepeatable;
}
