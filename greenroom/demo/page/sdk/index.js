export * from "./errors.js";
export { Game } from "./game.js";
export { Player } from "./player.js";
export * from "./room.js";
