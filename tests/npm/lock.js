// node lock.js VERSION NAME USER HOST:PORT...
//
// Reads commands from standard input, one per line, and answers each with a
// line: "lock MS" -> "locked" or "refused"; "extend MS" -> "extended" or "failed";
// "unlock" -> "released" or "failed". "work" takes the lock again and again, holds it for some
// milliseconds, in which it writes "in" and "out", and ends with "worked" at the next line.
"use strict";

const Redis = require("ioredis");
const readline = require("node:readline");

const [version, name, username, ...addresses] = process.argv.slice(2);
const clients = addresses.map((address) => {
  const [host, port] = address.split(":");
  return new Redis(Number(port), host, { username, password: "any" });
});
const settings = { retryCount: 0, automaticExtensionThreshold: 0 };

let lock, take, extend, give;
if (version === "4") {
  const redlock = new (require("redlock4"))(clients, settings);
  take = (ms) => redlock.lock(name, ms);
  extend = (l, ms) => l.extend(ms);
  give = (l) => l.unlock();
} else {
  const redlock = new (require("redlock5").default)(clients, settings);
  redlock.on("error", () => {}); // of each node; the outcome is in the promise
  take = (ms) => redlock.acquire([name], ms);
  extend = (l, ms) => l.extend(ms);
  give = (l) => l.release();
}

const sleep = (ms) => new Promise((then) => setTimeout(then, ms));

async function answer(command, ms) {
  switch (command) {
    case "lock":
      return take(ms).then((l) => { lock = l; return "locked"; }, () => "refused");
    case "extend":
      return extend(lock, ms).then((l) => { lock = l; return "extended"; }, () => "failed");
    case "unlock":
      return give(lock).then(() => "released", () => "failed");
  }
  return "unknown command";
}

let working;
async function work() {
  while (working) {
    if ((await answer("lock", 60000)) !== "locked") {
      await sleep(5);
      continue;
    }
    console.log("in");
    await sleep(Math.random() * 5);
    if ((await answer("extend", 60000)) !== "extended") console.log("not extended");
    console.log("out");
    if ((await answer("unlock")) !== "released") console.log("not released");
    await sleep(Math.random() * 20);
  }
  console.log("worked");
}

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [command, ms] = line.split(" ");
    if (command === "work") {
      working = true;
      work();
    } else if (working) {
      working = false;
    } else {
      console.log(await answer(command, Number(ms)));
    }
  }
  clients.forEach((c) => c.disconnect());
})();
