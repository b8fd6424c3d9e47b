export class GameCalls {
    caller;
    constructor(caller) {
        this.caller = caller;
    }
    register(request = {}) {
        return this.caller.call("POST", "/api/game_players.php/register", false, request);
    }
    getGame() {
        return this.caller.call("GET", "/api/game_data.php/game/get", true);
    }
    listRooms(request = {}) {
        return this.caller.call("POST", "/api/game_room.php/list", true, request);
    }
    listLobbies(request = {}) {
        return this.caller.call("POST", "/api/matchmaking.php/list", true, request);
    }
    censor(request) {
        return this.caller.call("POST", "/api/censor.php", true, request);
    }
    leaderboard(request) {
        return this.caller.call("POST", "/api/leaderboard.php", true, request);
    }
    time(request = {}) {
        return this.caller.call("GET", "/api/time.php", true, undefined, request);
    }
}
