// node lock.js VERSION NAME HOST:PORT...
//
// Reads commands from standard input, one per line, and answers each with a
// line: "lock" -> "locked" or "refused"; "unlock" -> "released" or "failed".
"use strict";

const Redis = require("ioredis");
const readline = require("node:readline");

const [version, name, ...addresses] = process.argv.slice(2);
const clients = addresses.map((address) => {
  const [host, port] = address.split(":");
  return new Redis(Number(port), host);
});
const settings = { retryCount: 0, automaticExtensionThreshold: 0 };
const TTL = 60000;

let lock, take, give;
if (version === "4") {
  const redlock = new (require("redlock4"))(clients, settings);
  take = () => redlock.lock(name, TTL);
  give = (l) => l.unlock();
} else {
  const redlock = new (require("redlock5").default)(clients, settings);
  redlock.on("error", () => {}); // of each node; the outcome is in the promise
  take = () => redlock.acquire([name], TTL);
  give = (l) => l.release();
}

async function answer(command) {
  switch (command) {
    case "lock":
      return take().then((l) => { lock = l; return "locked"; }, () => "refused");
    case "unlock":
      return give(lock).then(() => "released", () => "failed");
  }
  return "unknown command";
}

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    console.log(await answer(line));
  }
  clients.forEach((c) => c.disconnect());
})();
