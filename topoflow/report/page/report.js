// The table and the theme: sorting, filtering, links to a row. The charts are in charts.js.
"use strict";

const root = document.documentElement;
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
const themeButton = document.getElementById("theme");
const isDark = () => root.dataset.theme === "dark";

function setTheme(dark) {
  root.dataset.theme = dark ? "dark" : "light";
  themeButton.textContent = dark ? "Light" : "Dark";
  themeButton.setAttribute("aria-label", `${themeButton.textContent} colours`);
  document.dispatchEvent(new Event("theme"));
}
themeButton.addEventListener("click", () => setTheme(!isDark()));
prefersDark.addEventListener("change", (event) => setTheme(event.matches));
window.addEventListener("beforeprint", () => setTheme(false));
setTheme(prefersDark.matches);

// A cell sorts by data-value where it has one, a number in SI units; cells without a value come last.
function key(row, column) {
  const cell = row.cells[column];
  const value = cell.dataset.value;
  return value === undefined ? cell.textContent : value === "" ? null : Number(value);
}

function sortBy(table, column, ascending) {
  const rows = [...table.tBodies[0].rows];
  rows.sort((a, b) => {
    const [x, y] = [key(a, column), key(b, column)];
    if (x === null || y === null) return (x === null) - (y === null);
    const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), undefined, { numeric: true });
    return ascending ? order : -order;
  });
  table.tBodies[0].append(...rows);
  [...table.tHead.rows[0].cells].forEach((cell, number) => {
    cell.setAttribute("aria-sort", number !== column ? "none" : ascending ? "ascending" : "descending");
  });
}

for (const table of document.querySelectorAll("table.sortable")) {
  [...table.tHead.rows[0].cells].forEach((cell, column) => {
    const button = document.createElement("button");
    button.textContent = cell.textContent;
    cell.replaceChildren(button);
    button.addEventListener("click", () => sortBy(table, column, cell.getAttribute("aria-sort") !== "ascending"));
  });
}

const filter = document.getElementById("filter");
filter?.addEventListener("input", () => {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of document.querySelectorAll("table.sortable tbody tr")) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
    shown += !row.hidden;
  }
  document.getElementById("filtered").textContent = words.length ? `${shown} rows` : "";
});

// The configuration of a world: what all have in common, with what it has of its own.
function choose(number) {
  const row = page.rows[number];
  if (!row) return;
  for (const each of document.querySelectorAll("tr.chosen")) each.classList.remove("chosen");
  document.getElementById(row.id)?.classList.add("chosen");
  history.replaceState(null, "", `#${row.id}`);
  document.getElementById("chosen").textContent = row.world;
  document.getElementById("config").textContent = JSON.stringify({ ...page.common, ...row.own }, null, 2);
}
const page = JSON.parse(document.getElementById("data").textContent);
function chooseFromAddress() {
  const number = page.rows.findIndex((row) => `#${row.id}` === location.hash);
  if (number >= 0) {
    choose(number);
    document.getElementById(page.rows[number].id)?.scrollIntoView({ block: "center" });
  }
}
window.addEventListener("hashchange", chooseFromAddress);
chooseFromAddress();
