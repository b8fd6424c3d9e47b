import { CODES } from "./generated/refusals.js";
export class GreenroomError extends Error {
    hint;
    retryAfter = null;
    constructor(message, options, hint = null) {
        super(hint ? `${message} (${hint})` : message, options);
        this.hint = hint;
        this.name = new.target.name;
    }
}
export class ApiError extends GreenroomError {
    status;
    text;
    code;
    constructor(status, text, hint = null) {
        super(`${status}: ${text}`, undefined, hint);
        this.status = status;
        this.text = text;
        this.code = CODES[`${status} ${text}`] ?? null;
    }
}
export class Unauthorized extends ApiError {
}
export class Banned extends ApiError {
    banInfo = null;
}
export class NotFound extends ApiError {
}
export class RateLimited extends ApiError {
}
export class ServerError extends ApiError {
}
export class UnexpectedAnswer extends GreenroomError {
}
export class ConnectionFailed extends GreenroomError {
    wasSent;
    constructor(message, wasSent, cause) {
        super(message, { cause });
        this.wasSent = wasSent;
    }
}
export class MessageRefused extends GreenroomError {
    constructor(text, retryAfter = null) {
        super(text);
        this.retryAfter = retryAfter;
    }
}
export class ActionRefused extends GreenroomError {
    constructor(text, retryAfter = null) {
        super(text);
        this.retryAfter = retryAfter;
    }
}
export class ActionFailed extends GreenroomError {
    result;
    constructor(result) {
        super(`${result.action_type} has failed: ${JSON.stringify(result.response_data)}`);
        this.result = result;
    }
}
export class ActionLost extends GreenroomError {
}
export class RoomClosed extends GreenroomError {
    code;
    reason;
    constructor(code, reason, hint = null) {
        super(reason ? `${code}: ${reason}` : String(code), undefined, hint);
        this.code = code;
        this.reason = reason;
    }
}
export class TokenRefused extends RoomClosed {
}
export class Replaced extends RoomClosed {
}
export class RoomEnded extends RoomClosed {
}
export class SeatLost extends RoomClosed {
}
export class MessageTooBig extends RoomClosed {
}
export class ConnectionLost extends RoomClosed {
}
export const ABNORMAL = 1006;
const REASONS = {
    "Connection replaced": Replaced,
    "Room cleanup": RoomEnded,
    "Player disconnect": SeatLost,
};
export function closing(code, reason, hint = null) {
    if (code === 1008)
        return new TokenRefused(code, reason, hint);
    if (code === 1009)
        return new MessageTooBig(code, reason);
    return new (REASONS[reason] ?? ConnectionLost)(code, reason);
}
export function refusal(status, body, retryAfter) {
    const said = isObject(body) ? body : {};
    if (typeof said.error !== "string" && status < 400) {
        return new UnexpectedAnswer("the answer is not the JSON object that Greenroom sends");
    }
    const text = typeof said.error === "string" ? said.error : `HTTP ${status}`;
    const hint = typeof said.hint === "string" ? said.hint : null;
    const error = new (classOf(status))(status, text, hint);
    if (error instanceof Banned && isObject(said.ban_info)) {
        error.banInfo = said.ban_info;
    }
    if (error instanceof RateLimited) {
        error.retryAfter = seconds(said.retry_after) ?? seconds(retryAfter) ?? 1;
    }
    return error;
}
function classOf(status) {
    if (status === 401)
        return Unauthorized;
    if (status === 403)
        return Banned;
    if (status === 404)
        return NotFound;
    if (status === 429)
        return RateLimited;
    return status >= 500 ? ServerError : ApiError;
}
export function seconds(value) {
    const number = typeof value === "string" && value !== "" ? Number(value) : value;
    return typeof number === "number" && number >= 0 && Number.isFinite(number) ? number : null;
}
export function isObject(value) {
    return typeof value === "object" && value !== null && !Array.isArray(value);
}
