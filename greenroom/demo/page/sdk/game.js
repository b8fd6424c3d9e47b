import { Caller } from "./caller.js";
import { GameCalls } from "./generated/game-calls.js";
import { Player } from "./player.js";
export class Game extends GameCalls {
    options;
    constructor(url, apiToken, options = {}) {
        super(new Caller(url.replace(/\/+$/, ""), { "X-Api-Token": apiToken }, options));
        this.options = options;
    }
    async signUp(request = {}) {
        const account = await this.register(request);
        return this.player(account.private_key, {
            id: Number(account.player_id),
            name: account.player_name,
            tag: account.player_tag,
        });
    }
    async signIn(token) {
        const player = this.player(token, { id: 0, name: "", tag: "" });
        const { player: record } = await player.logIn();
        return this.player(token, {
            id: record.id,
            name: record.player_name,
            tag: record.player_tag,
        });
    }
    player(token, who) {
        return new Player(this.caller, token, who, this.options.webSocket);
    }
}
