// Puts the parts of the page that changed in the place of the old ones, as the server sends them.
"use strict";

const live = document.getElementById("live");
const connection = document.getElementById("connection");

function show(html) {
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  const parts = [...fresh.content.querySelectorAll("[data-part]")];
  const names = parts.map((part) => part.dataset.part);
  const old = new Map([...live.querySelectorAll("[data-part]")].map((part) => [part.dataset.part, part]));
  for (const [name, part] of old) if (!names.includes(name)) part.remove();
  let before = null;
  for (const part of parts) {
    const there = old.get(part.dataset.part);
    if (there && there.outerHTML === part.outerHTML) {
      before = there;
      continue;
    }
    // Who scrolls a wide table, or has come to it by the keyboard, stays there.
    const scrolled = there?.querySelector(".scroll");
    const left = scrolled?.scrollLeft ?? 0;
    const focused = scrolled && document.activeElement === scrolled;
    if (there) there.replaceWith(part);
    else if (before) before.after(part);
    else live.prepend(part);
    const scroll = part.querySelector(".scroll");
    if (scroll) scroll.scrollLeft = left;
    if (scroll && focused) scroll.focus({ preventScroll: true });
    before = part;
  }
}

const events = new EventSource("/events/");
events.onmessage = (event) => {
  const html = JSON.parse(event.data);
  if (html) show(html);
  connection.hidden = Boolean(html);
};
events.onerror = () => { connection.hidden = false; };
