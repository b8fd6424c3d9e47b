import { PlayerCalls } from "./generated/player-calls.js";
import { Room } from "./room.js";
export class Player extends PlayerCalls {
    base;
    webSocket;
    id;
    tag;
    currentName;
    currentToken;
    constructor(base, token, who, webSocket) {
        super(base.withHeader("X-Game-Player-Token", token));
        this.base = base;
        this.webSocket = webSocket;
        this.id = who.id;
        this.tag = who.tag;
        this.currentName = who.name;
        this.currentToken = token;
    }
    get name() {
        return this.currentName;
    }
    get token() {
        return this.currentToken;
    }
    async rename(request) {
        const reply = await super.rename(request);
        this.currentName = reply.new_name;
        return reply;
    }
    async rotate() {
        const reply = await super.rotate();
        this.currentToken = reply.private_key;
        this.caller = this.base.withHeader("X-Game-Player-Token", reply.private_key);
        return reply;
    }
    async enter(options = {}) {
        const room = new Room(() => this.mintToken(), this.webSocket, options);
        await room.open();
        return room;
    }
}
