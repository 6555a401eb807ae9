// Puts the parts of the page that changed in the place of the old ones, as the server sends them.
"use strict";

const live = document.getElementById("live");
const connection = document.getElementById("connection");

// Names of all parts in their order, and the HTML of those that changed.
function show(names, changed) {
  const old = new Map([...live.querySelectorAll("[data-part]")].map((part) => [part.dataset.part, part]));
  for (const [name, part] of old) if (!names.includes(name)) part.remove();
  let before = null;
  for (const name of names) {
    const there = old.get(name);
    if (!(name in changed)) {
      before = there ?? before;
      continue;
    }
    const fresh = document.createElement("template");
    fresh.innerHTML = changed[name];
    const part = fresh.content.querySelector("[data-part]");
    // Who scrolls a wide table, or has come to it by the keyboard, stays there.
    const scrolled = there?.querySelector(".scroll");
    const left = scrolled?.scrollLeft ?? 0;
    const focused = scrolled && document.activeElement === scrolled;
    const pressed = there?.contains(document.activeElement) ? { ...document.activeElement.dataset } : {};
    if (there) there.replaceWith(part);
    else if (before) before.after(part);
    else live.prepend(part);
    const scroll = part.querySelector(".scroll");
    if (scroll) scroll.scrollLeft = left;
    if (scroll && focused) scroll.focus({ preventScroll: true });
    if (pressed.action) buttonLike(part, pressed)?.focus({ preventScroll: true });
    before = part;
  }
}

// Who was on a button of a table stays at that table, though it may be another button by now.
function buttonLike(part, pressed) {
  const same = [...part.querySelectorAll("button[data-action]")].filter(
    (button) => button.dataset.table === pressed.table && button.dataset.link === pressed.link);
  return same.find((button) => button.dataset.action === pressed.action) ?? same[0];
}

const told = document.getElementById("told");
// A button that is disabled would lose the keyboard.
const underWay = new Set();

async function act(button) {
  const { action, table, link } = button.dataset;
  const question = {
    drop: `${link} will forget how far ${table} is loaded, and load no more of it until a snapshot with --full-refresh. Drop it?`,
    snapshot: `All rows of ${table} will be read again at the source, while changes go on. Begin?`,
    replay: `The code of ${link} will run again on each dead letter that was not replayed yet, and what comes of it is published. Begin?`,
    skip: `The change at which ${table} stopped at ${link} will be passed over, and kept with its reason. Skip it?`,
  }[action];
  const name = JSON.stringify([action, table, link]);
  if (underWay.has(name) || (question && !window.confirm(question))) return;
  underWay.add(name);
  let text;
  if (action === "replay") {
    told.textContent = `${link}: its dead letters are being replayed.`;
    told.hidden = false;
  }
  try {
    const answer = await fetch("/tables", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ action, table, link }),
    });
    const said = await answer.json();
    text = said.told ?? `${said.error}. What to do: ${said.hint}`;
  } catch {
    // It may have come to the server all the same, and its answer not to us.
    text = "No answer came: look whether it was done.";
  }
  told.textContent = text;
  told.hidden = false;
  underWay.delete(name);
}

live.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-action]");
  if (button) act(button);
});

// The server ends each stream after minutes, and the browser comes back at once.
let lost = null;

function connect() {
  const events = new EventSource("/events/");
  events.onmessage = (event) => {
    clearTimeout(lost);
    lost = null;
    const { names, changed } = JSON.parse(event.data);
    if (names.length) show(names, changed);
    connection.hidden = Boolean(names.length);
  };
  events.onerror = () => {
    const isRefused = events.readyState === EventSource.CLOSED;
    lost ??= setTimeout(() => { connection.hidden = false; }, isRefused ? 0 : 3000);
    // A browser gives up for good where it was refused: by too many pages, or a proxy while we start again.
    // After 5 to 30 s, so that not all pages come at once.
    if (isRefused) setTimeout(connect, 5000 + 25000 * Math.random());
  };
}

connect();
