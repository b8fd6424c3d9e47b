import { isObject } from "./errors.js";
export function patch(old, delta) {
    if ("v" in delta)
        return delta.v;
    return Array.isArray(old) ? patchArray(old, delta) : patchObject(old, delta);
}
function patchObject(old, delta) {
    if (!isObject(old))
        throw new TypeError("the delta is for another value");
    const next = { ...old };
    for (const [key, value] of Object.entries(delta.s ?? {}))
        put(next, key, value);
    for (const [key, inner] of Object.entries(delta.c ?? {})) {
        if (!Object.hasOwn(next, key))
            throw new TypeError(`there is no ${key} to change`);
        put(next, key, patch(next[key], inner));
    }
    for (const key of delta.d ?? [])
        delete next[key];
    return next;
}
function put(object, key, value) {
    const member = { value, writable: true, enumerable: true, configurable: true };
    Object.defineProperty(object, key, member);
}
function patchArray(old, delta) {
    const next = [...old];
    for (const [key, value] of Object.entries(delta.s ?? {}))
        next[positionIn(next, key)] = value;
    for (const [key, inner] of Object.entries(delta.c ?? {})) {
        const position = positionIn(next, key);
        next[position] = patch(next[position], inner);
    }
    if (delta.n !== undefined)
        next.length = delta.n;
    return delta.a === undefined ? next : next.concat(delta.a);
}
function positionIn(array, key) {
    const position = Number(key);
    if (!(position in array))
        throw new TypeError(`there is no position ${key} to change`);
    return position;
}
export class View {
    shared = null;
    private = null;
    version = 0;
    isLost = false;
    take(event, data) {
        try {
            if (event === "state")
                return this.replace(data);
            return this.version > 0 && !this.isLost && this.advance(data);
        }
        catch {
            this.isLost = true;
            return false;
        }
    }
    replace(data) {
        if (!isObject(data) || typeof data.version !== "number")
            throw new TypeError("no state");
        this.version = data.version;
        this.shared = data.shared;
        this.private = data.private;
        this.isLost = false;
        return true;
    }
    advance(data) {
        if (!isObject(data) || typeof data.to !== "number")
            throw new TypeError("no delta");
        if (data.from !== this.version) {
            this.isLost = true;
            return false;
        }
        const [ofShared, ofPrivate] = [data.shared, data.private];
        const shared = ofShared ? patch(this.shared, ofShared) : this.shared;
        this.private = ofPrivate ? patch(this.private, ofPrivate) : this.private;
        this.shared = shared;
        this.version = data.to;
        return true;
    }
}
