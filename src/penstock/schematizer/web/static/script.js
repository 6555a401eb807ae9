// What is better with JavaScript. Everything works without it.
"use strict";

// Live figures: fetched once the page stands, and put in the place of the link to them.
for (const place of document.querySelectorAll("[data-live]")) {
  const shown = place.innerHTML;
  const waiting = document.createElement("p");
  waiting.className = "muted";
  waiting.textContent = "Asking Kafka…";
  place.replaceChildren(waiting);
  fetch(place.dataset.live, { credentials: "same-origin" })
    .then((answer) => answer.text())
    .then((text) => {
      const figures = new DOMParser().parseFromString(text, "text/html").getElementById("figures");
      if (!figures) throw new Error("no figures");
      place.replaceChildren(...figures.childNodes);
    })
    .catch(() => { place.innerHTML = shown; });
}

// The name for the history is asked once.
const KEPT = "penstock-author";
for (const input of document.querySelectorAll("[data-author]")) {
  try {
    input.value ||= localStorage.getItem(KEPT) ?? "";
    input.form.addEventListener("submit", () => localStorage.setItem(KEPT, input.value));
  } catch { /* Storage may be forbidden: then the name is typed each time. */ }
}

// A form that opens has the cursor in its first field; Escape closes it.
for (const details of document.querySelectorAll("details.edit")) {
  details.addEventListener("toggle", () => {
    if (details.open) details.querySelector("[aria-invalid], textarea, input:not([type=hidden])")?.focus();
  });
  details.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      details.open = false;
      details.querySelector("summary").focus();
    }
  });
}

// Long lists can be narrowed while typing.
for (const list of document.querySelectorAll("[data-filter]")) {
  const rows = [...list.querySelectorAll(".row:not(.head)")];
  if (rows.length < 8) continue;
  const label = document.createElement("label");
  label.className = "narrow";
  label.textContent = list.dataset.filter;
  const input = document.createElement("input");
  input.type = "search";
  label.append(input);
  list.before(label);
  const texts = rows.map((row) => [...row.children].filter((cell) => !cell.matches(".whole")).map((cell) => cell.textContent).join(" ").toLowerCase());
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/);
    rows.forEach((row, number) => { row.hidden = !words.every((word) => texts[number].includes(word)); });
  });
}

// "/" leads to the search field.
document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, textarea, select");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    document.getElementById("q").focus();
  }
});
