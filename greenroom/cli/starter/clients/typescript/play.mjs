// Plays one round in the terminal: node play.mjs http://127.0.0.1:8080 KEY
import { play } from "./game.js";

const [url, key] = process.argv.slice(2);
if (key === undefined) {
  console.error("Say where the server is, and the project key: node play.mjs http://127.0.0.1:8080 KEY");
  process.exit(2);
}
await play(url, key, console.log);
