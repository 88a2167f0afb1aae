"use strict";
// Draws the events of a demo as they come: bars along the time for each who takes part,
// and a list, which says the same in words.

(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const make = (name, attributes, ...children) => {
    const e = attributes.svg ? document.createElementNS(SVG, name) : document.createElement(name);
    for (const [k, v] of Object.entries(attributes)) if (k !== "svg") e.setAttribute(k, v);
    e.append(...children);
    return e;
  };
  const byId = (id) => document.getElementById(id);
  const seconds = (ns) => `${(ns / 1e9).toFixed(2)} s`;
  const kind = (what) => what.replace(" ", "-");

  // A scene: its lanes, by who takes part, and when it began by this page's clock.
  const scenes = new Map();
  const sceneOf = (name) => {
    if (!scenes.has(name)) scenes.set(name, { name, lanes: new Map(), last: 0, heard: performance.now(), over: false });
    return scenes.get(name);
  };
  // Clients are above what they use.
  const rank = (who) => ["client", "account", "s", "n"].findIndex((p) => who.startsWith(p));
  const takesPart = (who) => /^(client .|account$|[sn]\d)/.test(who);

  const laneOf = (scene, who) => {
    if (!scene.lanes.has(who)) {
      const svg = make("svg", { svg: true, "aria-hidden": "true" }, make("line", { svg: true, class: "rail", x1: "0", x2: "100%", y1: "50%", y2: "50%" }));
      scene.lanes.set(who, { who, label: make("span", { class: "who" }, who), svg, bars: [], marks: [] });
      const at = byId(scene.name).querySelector(".lanes");
      const order = [...scene.lanes.values()].sort((a, b) => rank(a.who) - rank(b.who) || a.who.localeCompare(b.who, "en", { numeric: true }));
      scene.axis = scene.axis || make("div", { class: "axis", "aria-hidden": "true" }, make("span", {}), make("span", {}));
      at.replaceChildren(...order.flatMap((l) => [l.label, l.svg]), scene.axis);
      byId(scene.name).querySelector("figure").hidden = false;
    }
    return scene.lanes.get(who);
  };

  const shape = { holds: ["25%", "50%"], waits: ["36%", "28%"], stopped: ["10%", "80%"], up: ["44%", "12%"] };
  const begin = (lane, what, at) => {
    end(lane, what, at);
    const bar = make("rect", { svg: true, class: what, rx: "3", y: shape[what][0], height: shape[what][1] });
    lane.svg.append(bar);
    lane.bars.push({ what, bar, from: at, to: null });
  };
  const end = (lane, what, at) => {
    for (const b of lane.bars) if (b.what === what && b.to === null) b.to = at;
  };
  const mark = (lane, what, at, text) => {
    const cross = "M-5-3-3-5 0-2 3-5 5-3 2 0 5 3 3 5 0 2-3 5-5 3-2 0Z";
    const diamond = "M0-6 6 0 0 6-6 0Z";
    const dot = "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0Z";
    const path = make("path", { svg: true, d: { harm: cross, killed: cross, stale: diamond }[what] || dot }, make("title", { svg: true }, text));
    // In a frame of its own, whose corner is a place along the time.
    const frame = make("svg", { svg: true, class: `mark ${what}`, y: "50%", overflow: "visible" }, path);
    lane.svg.append(frame);
    lane.marks.push({ frame, at });
  };

  const draw = (scene) => {
    const now = scene.over ? scene.last : scene.last + (performance.now() - scene.heard) * 1e6;
    const span = Math.max(8e9, now * 1.02);
    const part = (t) => `${(100 * t / span).toFixed(2)}%`;
    for (const lane of scene.lanes.values()) {
      for (const b of lane.bars) {
        b.bar.setAttribute("x", part(b.from));
        b.bar.setAttribute("width", part(Math.max(span / 400, (b.to ?? now) - b.from)));
      }
      for (const m of lane.marks) m.frame.setAttribute("x", part(m.at));
    }
    if (scene.axis) {
      scene.axis.firstChild.textContent = "0 s";
      scene.axis.lastChild.textContent = `${(span / 1e9).toFixed(0)} s`;
    }
  };

  // Where a bar begins or ends, and what is marked.
  const record = (scene, e) => {
    const at = e.at;
    const subjects = (e.whom || [e.actor || ""]).filter(takesPart).map((who) => laneOf(scene, who));
    for (const lane of subjects) {
      switch (e.what) {
        case "holds": end(lane, "waits", at); begin(lane, "holds", at); break;
        case "waits": begin(lane, "waits", at); break;
        case "gives": end(lane, "holds", at); break;
        case "lost": end(lane, "holds", at); mark(lane, "lost", at, e.text || "has lost the lock"); break;
        case "stopped": begin(lane, "stopped", at); break;
        case "goes on": end(lane, "stopped", at); break;
        case "started": begin(lane, "up", at); break;
        case "killed": end(lane, "up", at); mark(lane, "killed", at, e.text || "is killed"); break;
        default: mark(lane, kind(e.what), at, e.text || "");
      }
    }
    if (e.what === "tell") for (const lane of scene.lanes.values()) { end(lane, "holds", at); end(lane, "waits", at); }
  };

  // Who looks at a scene that is over is left there; others are taken along.
  let chosen = null;
  const show = (name) => {
    for (const s of document.querySelectorAll(".scene")) s.hidden = s.id !== name;
    for (const a of document.querySelectorAll("#scenes a")) {
      if (a.dataset.scene === name) a.setAttribute("aria-current", "true"); else a.removeAttribute("aria-current");
    }
  };
  for (const a of document.querySelectorAll("#scenes a")) {
    a.addEventListener("click", (click) => {
      click.preventDefault();
      show(a.dataset.scene);
      chosen = sceneOf(a.dataset.scene).over ? a.dataset.scene : null;
    });
  }
  const state = (name, text, how) => {
    const a = document.querySelector(`#scenes a[data-scene="${name}"]`);
    a.querySelector(".state").textContent = text;
    a.classList.remove("good", "bad");
    if (how) a.classList.add(how);
  };

  const tell = (section, e) => {
    const story = section.querySelector(".story");
    const row = e.what === "tell"
      ? make("li", { class: "tell" }, make("p", {}, e.text))
      : make("li", { class: kind(e.what) }, make("time", {}, seconds(e.at)), make("span", { class: "who" }, e.actor || ""), make("p", {}, e.text));
    const near = innerHeight + scrollY > document.documentElement.scrollHeight - 150;
    story.append(row);
    if (near && !section.hidden) row.scrollIntoView({ block: "nearest" });
  };

  const conclude = (section, e) => {
    const verdict = section.querySelector(".verdict");
    const head = { shown: "Shown: ", promise: "Promise: ", failed: "It failed: ", lacks: "" }[e.what];
    verdict.classList.toggle("bad", e.what === "failed" || e.what === "lacks");
    verdict.append(make("p", {}, make("strong", {}, head), e.text));
    if (e.what === "failed") state(e.scene, "went another way", "bad");
    else if (e.what === "lacks") state(e.scene, "not played", "bad");
    else state(e.scene, "went as told", "good");
    sceneOf(e.scene).over = true;
    draw(sceneOf(e.scene));
  };

  const take = (m) => {
    const e = JSON.parse(m.data);
    const scene = sceneOf(e.scene);
    const section = byId(e.scene);
    if (!section) return;
    if (!["shown", "promise", "failed", "lacks"].includes(e.what)) {
      scene.last = Math.max(scene.last, e.at);
      scene.heard = performance.now();
    }
    switch (e.what) {
      case "begin":
        state(e.scene, "is played", "");
        if (!chosen) show(e.scene);
        break;
      case "shown": case "promise": case "failed": case "lacks":
        conclude(section, e);
        break;
      default:
        record(scene, e);
        if (e.text) tell(section, e);
        draw(scene);
    }
  };

  const pulse = byId("pulse");
  const say = (live, text) => {
    pulse.hidden = false;
    pulse.classList.toggle("still", !live);
    pulse.textContent = text;
  };
  const source = new EventSource("/events");
  source.onopen = () => say(true, "live");
  source.onmessage = take;
  source.onerror = () => say(false, source.readyState === EventSource.CLOSED ? "Not live" : "Not live: the demo has ended, or cannot be reached");
  source.addEventListener("over", () => {
    source.close();
    for (const s of scenes.values()) s.over = true;
    say(true, "The demo is over");
    pulse.classList.add("done");
  });

  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  setInterval(() => {
    if (document.hidden) return;
    for (const s of scenes.values()) if (!s.over) draw(s);
  }, calm.matches ? 2000 : 200);
  const first = document.querySelector("#scenes a");
  if (first) show(first.dataset.scene);
})();
