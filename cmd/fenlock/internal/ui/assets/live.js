"use strict";
// Keeps the page as it would be if it were loaded again now. The server sends pieces of
// HTML, made by the templates that made the page, and numbers; here they are put in their
// places, without moving the focus, and times go on between the news.

(() => {
  const body = document.body;
  const byId = (id) => document.getElementById(id);
  const calm = matchMedia("(prefers-reduced-motion: reduce)");

  // The one door for HTML: the page's policy closes all others.
  const door = window.trustedTypes
    ? trustedTypes.createPolicy("fenlock", { createHTML: (text) => text })
    : { createHTML: (text) => text };
  const parse = (text) => {
    const t = document.createElement("template");
    t.innerHTML = door.createHTML(text);
    return t.content;
  };

  // Times, as text.go has them.
  const two = (n) => String(n).padStart(2, "0");
  const passed = (ms) => {
    const s = Math.max(0, Math.floor(ms / 1000));
    if (s < 60) return `${s} s`;
    if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
    if (s < 48 * 3600) return `${Math.floor(s / 3600)} h ${two(Math.floor(s / 60) % 60)} min`;
    return `${Math.floor(s / 86400)} d ${two(Math.floor(s / 3600) % 24)} h`;
  };
  const left = (ms) => {
    const tenths = Math.max(0, Math.floor(ms / 100));
    return tenths < 600 ? `${Math.floor(tenths / 10)}.${tenths % 10} s` : passed(ms);
  };

  // The server's clock is this one's less so much.
  let ahead = Date.now() - Number(body.dataset.now);
  const write = (e, text) => { if (e.textContent !== text) e.textContent = text; };
  const tick = (root) => {
    const now = Date.now() - ahead;
    for (const e of root.querySelectorAll("[data-since]")) write(e, passed(now - Number(e.dataset.since)));
    for (const e of root.querySelectorAll("[data-until]")) {
      const rest = Number(e.dataset.until) - now;
      write(e.querySelector(".left"), left(rest));
      const fill = e.querySelector(".fill");
      // The bar moves for a second to where it is then.
      const then = calm.matches ? rest : rest - 1000;
      if (fill) fill.setAttribute("width", Math.min(100, Math.max(0, 100 * then / Math.max(1, Number(e.dataset.span)))).toFixed(2));
    }
  };

  // Runs f, which replaces what is in e, and puts the focus where it was.
  const keepFocus = (e, f) => {
    const had = document.activeElement;
    const inside = had && had !== body && e.contains(had);
    const href = inside && had.getAttribute("href");
    f();
    if (!inside || document.contains(had)) return;
    const links = [...e.querySelectorAll("a[href], button, input")];
    const to = links.find((l) => l.getAttribute("href") === href) || links[0];
    if (to) to.focus({ preventScroll: true });
  };

  const fillPart = (id, text) => {
    const e = byId(id);
    if (e) keepFocus(e, () => e.replaceChildren(parse(text)));
  };

  // Makes an item like the new one, cell by cell: what is the same stays, and with it the
  // focus and what is selected.
  const renew = (old, now) => {
    for (const name of old.getAttributeNames()) if (!now.hasAttribute(name)) old.removeAttribute(name);
    for (const name of now.getAttributeNames()) old.setAttribute(name, now.getAttribute(name));
    if (old.children.length !== now.children.length) {
      keepFocus(old, () => old.replaceChildren(...now.childNodes));
      return;
    }
    [...now.children].forEach((cell, i) => {
      const was = old.children[i];
      if (was.outerHTML !== cell.outerHTML) keepFocus(old, () => was.replaceWith(cell));
    });
  };

  const flash = (e, how) => {
    e.classList.remove("fresh", "moved");
    e.classList.add(how);
    e.addEventListener("animationend", () => e.classList.remove(how), { once: true });
  };

  const fillList = (id, { order, items = {} }, first) => {
    const list = byId(id);
    if (!list) return;
    const wanted = new Set(order);
    for (const e of [...list.children]) if (!wanted.has(e.id)) e.remove();
    order.forEach((key, i) => {
      let e = byId(key);
      const now = key in items ? parse(items[key]).firstElementChild : null;
      if (e && now) {
        const holder = (x) => { const h = x.querySelector(".holder .label"); return h ? h.textContent : ""; };
        const moved = holder(e) !== holder(now);
        renew(e, now);
        if (moved && !first) flash(e, "moved");
      } else if (now) {
        e = now;
        if (!first) flash(e, "fresh");
      }
      if (e && list.children[i] !== e) list.insertBefore(e, list.children[i] || null);
    });
  };

  const tell = (events) => {
    const trail = byId("trail");
    if (!trail) return;
    for (const text of events) trail.prepend(parse(text));
    while (trail.children.length > Number(trail.dataset.most)) trail.lastElementChild.remove();
  };

  // A lock is not broken from a page that may be out of date.
  const breaks = "a[href^='/break'], a[href^='break']";
  addEventListener("click", (e) => {
    if (body.classList.contains("stale") && e.target.closest(breaks)) e.preventDefault();
  });

  // Whether what is shown is what is so.
  const pulse = byId("pulse");
  let heard = 0;
  let patience = 5000; // for how long what was heard counts as what is so
  let title = document.title;
  const say = (live, text) => {
    pulse.hidden = false;
    pulse.classList.toggle("still", !live);
    body.classList.toggle("stale", !live);
    for (const a of document.querySelectorAll(breaks)) {
      if (live) a.removeAttribute("aria-disabled");
      else a.setAttribute("aria-disabled", "true");
    }
    write(pulse, text);
  };
  const lost = () => {
    say(false, heard ? `Not live: nothing was heard since ${new Date(heard).toLocaleTimeString([], { hour12: false })}` : "Not live yet");
    document.title = `not live – ${title}`;
  };

  let last = body.dataset.last;
  let first = true;
  const take = (m) => {
    const news = JSON.parse(m.data);
    if (news.instance !== body.dataset.instance) { // another program, perhaps another version
      location.reload();
      return;
    }
    heard = Date.now();
    patience = Math.max(5000, 2 * (news.next || 0));
    ahead = heard - news.at;
    last = m.lastEventId.split("-")[1] || last;
    document.title = title = news.title;
    for (const [id, text] of Object.entries(news.parts || {})) fillPart(id, text);
    for (const [id, list] of Object.entries(news.lists || {})) fillList(id, list, first);
    for (const [id, u] of Object.entries(news.until || {})) {
      const e = byId(id);
      if (e) { e.dataset.until = u.at; if (u.span) e.dataset.span = u.span; }
    }
    for (const [id, text] of Object.entries(news.texts || {})) if (byId(id)) write(byId(id), text);
    tell(news.trail || []);
    first = false;
    tick(body);
    say(true, "live");
  };

  let source = null;
  let again = 0;
  const open = () => {
    clearTimeout(again);
    if (source) return;
    first = true;
    const url = new URL(body.dataset.stream, location.href);
    url.searchParams.set("seen", `${body.dataset.instance}-${last}`);
    source = new EventSource(url);
    source.onmessage = take;
    source.onerror = () => {
      lost();
      if (source && source.readyState === EventSource.CLOSED) { // it does not try by itself
        close();
        again = setTimeout(open, 5000);
      }
    };
  };
  const close = () => {
    clearTimeout(again);
    if (source) source.close();
    source = null;
  };

  // A page that was hidden for ten minutes does not have the group looked at.
  let sleep = 0;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(sleep);
    if (document.hidden) sleep = setTimeout(() => { close(); lost(); }, 600000);
    else { tick(body); open(); }
  });
  addEventListener("pagehide", close);
  addEventListener("pageshow", (e) => { if (e.persisted) open(); });

  setInterval(() => {
    if (document.hidden) return;
    if (heard && Date.now() - heard > patience) lost();
    if (!body.classList.contains("stale")) tick(body);
  }, 1000);
  tick(body);
  open();
})();
