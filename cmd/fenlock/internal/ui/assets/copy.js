"use strict";
// Copies the name of a lock, or the address of its page. Without this script, the buttons are not there.

(() => {
  document.documentElement.classList.add("script");

  // A page that is not on this machine, and has no TLS, has no clipboard but the old one.
  const copy = async (text) => {
    if (navigator.clipboard && isSecureContext) return navigator.clipboard.writeText(text);
    const e = document.createElement("textarea");
    e.value = text;
    e.className = "hidden";
    document.body.append(e);
    const had = document.activeElement;
    e.select();
    const done = document.execCommand("copy");
    e.remove();
    if (had) had.focus({ preventScroll: true });
    if (!done) throw new Error("the browser does not copy");
  };

  addEventListener("click", async (event) => {
    const button = event.target.closest(".copy");
    if (!button) return;
    try {
      await copy("copyLink" in button.dataset ? location.href : button.dataset.copy);
      button.classList.add("done");
    } catch {
      button.classList.add("failed");
    }
    setTimeout(() => button.classList.remove("done", "failed"), 1500);
  });
})();
