// Evaluates what a test asks for, line by line, as a browser's console would.

import { createInterface } from "node:readline";

globalThis.sdk = await import("../dist/index.js");
globalThis.admin = await import("../dist/admin.js");
globalThis.story = await import("./story.mjs");

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    answer = { value: (await (0, eval)(line)) ?? null };
  } catch (error) {
    answer = { error: `${error?.stack ?? error}` };
  }
  console.log(JSON.stringify(answer));
}
