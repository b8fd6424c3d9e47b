import { segment } from "../caller.js";
export class PlayerCalls {
    caller;
    constructor(caller) {
        this.caller = caller;
    }
    logIn() {
        return this.caller.call("PUT", "/api/game_players.php/login", true);
    }
    beat() {
        return this.caller.call("POST", "/api/game_players.php/heartbeat", true);
    }
    logOut() {
        return this.caller.call("POST", "/api/game_players.php/logout", true);
    }
    rename(request) {
        return this.caller.call("PUT", "/api/game_players.php/rename", true, request);
    }
    rotate() {
        return this.caller.call("POST", "/api/game_players.php/rotate", false);
    }
    getPlayer() {
        return this.caller.call("GET", "/api/game_data.php/player/get", true);
    }
    setPlayer(document) {
        return this.caller.call("PUT", "/api/game_data.php/player/update", true, document);
    }
    createRoom(request = {}) {
        return this.caller.call("POST", "/api/game_room.php/create", false, request);
    }
    joinRoom(roomId, request = {}) {
        return this.caller.call("POST", `/api/game_room.php/${segment(roomId)}/join`, false, request);
    }
    roomPlayers() {
        return this.caller.call("GET", "/api/game_room.php/players", true);
    }
    leaveRoom() {
        return this.caller.call("POST", "/api/game_room.php/leave", false);
    }
    roomBeat() {
        return this.caller.call("POST", "/api/game_room.php/heartbeat", true);
    }
    roomCurrent() {
        return this.caller.call("GET", "/api/game_room.php/current", true);
    }
    stopRoom() {
        return this.caller.call("POST", "/api/game_room.php/stop", false);
    }
    roomKick(request) {
        return this.caller.call("POST", "/api/game_room.php/kick", false, request);
    }
    roomPassword(request) {
        return this.caller.call("POST", "/api/game_room.php/password", true, request);
    }
    roomJoinToken() {
        return this.caller.call("POST", "/api/game_room.php/join_token", false);
    }
    sendActions(request) {
        return this.caller.call("POST", "/api/game_room.php/actions", false, request);
    }
    actionResults() {
        return this.caller.call("GET", "/api/game_room.php/actions/poll", true);
    }
    pendingActions() {
        return this.caller.call("GET", "/api/game_room.php/actions/pending", true);
    }
    completeAction(actionId, request) {
        return this.caller.call("POST", `/api/game_room.php/actions/${segment(actionId)}/complete`, false, request);
    }
    sendUpdates(request) {
        return this.caller.call("POST", "/api/game_room.php/updates", false, request);
    }
    pollUpdates(request = {}) {
        return this.caller.call("POST", "/api/game_room.php/updates/poll", true, request);
    }
    createLobby(request) {
        return this.caller.call("POST", "/api/matchmaking.php/create", false, request);
    }
    askToJoin(matchmakingId, request = {}) {
        return this.caller.call("POST", `/api/matchmaking.php/${segment(matchmakingId)}/request`, false, request);
    }
    joinRequest(requestId) {
        return this.caller.call("GET", `/api/matchmaking.php/${segment(requestId)}/status`, true);
    }
    joinLobby(matchmakingId, request = {}) {
        return this.caller.call("POST", `/api/matchmaking.php/${segment(matchmakingId)}/join`, false, request);
    }
    lobbyCurrent() {
        return this.caller.call("GET", "/api/matchmaking.php/current", true);
    }
    leaveLobby() {
        return this.caller.call("POST", "/api/matchmaking.php/leave", false);
    }
    lobbyPlayers() {
        return this.caller.call("GET", "/api/matchmaking.php/players", true);
    }
    lobbyBeat() {
        return this.caller.call("POST", "/api/matchmaking.php/heartbeat", true);
    }
    answerRequest(requestId, request) {
        return this.caller.call("POST", `/api/matchmaking.php/${segment(requestId)}/response`, false, request);
    }
    removeLobby() {
        return this.caller.call("POST", "/api/matchmaking.php/remove", false);
    }
    startLobby() {
        return this.caller.call("POST", "/api/matchmaking.php/start", false);
    }
    stopLobby() {
        return this.caller.call("POST", "/api/matchmaking.php/stop", false);
    }
    lobbyKick(request) {
        return this.caller.call("POST", "/api/matchmaking.php/kick", false, request);
    }
    lobbyPassword(request) {
        return this.caller.call("POST", "/api/matchmaking.php/password", true, request);
    }
    lobbyJoinToken() {
        return this.caller.call("POST", "/api/matchmaking.php/join_token", false);
    }
    mintToken() {
        return this.caller.call("POST", "/api/realtime.php/token", true);
    }
    listFriends() {
        return this.caller.call("GET", "/api/friends.php/list", true);
    }
    lookUp(request = {}) {
        return this.caller.call("POST", "/api/friends.php/lookup", true, request);
    }
    requestFriend(request = {}) {
        return this.caller.call("POST", "/api/friends.php/request", false, request);
    }
    acceptFriend(request) {
        return this.caller.call("POST", "/api/friends.php/accept", false, request);
    }
    declineFriend(request) {
        return this.caller.call("POST", "/api/friends.php/decline", false, request);
    }
    removeFriend(request) {
        return this.caller.call("POST", "/api/friends.php/remove", false, request);
    }
    platformFriends(request) {
        return this.caller.call("POST", "/api/friends.php/platform", true, request);
    }
    invite(request) {
        return this.caller.call("POST", "/api/friends.php/invite", false, request);
    }
    listInvites() {
        return this.caller.call("GET", "/api/friends.php/invites", true);
    }
    acceptInvite(request) {
        return this.caller.call("POST", "/api/friends.php/invites/accept", false, request);
    }
    declineInvite(request) {
        return this.caller.call("POST", "/api/friends.php/invites/decline", false, request);
    }
}
