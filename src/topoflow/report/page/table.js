// Tables and the theme: sorting, filtering.
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

function addSorting(table) {
  [...table.tHead.rows[0].cells].forEach((cell, column) => {
    const button = document.createElement("button");
    button.type = "button"; // a table in a form sorts, and sends nothing
    button.append(...cell.childNodes);
    cell.replaceChildren(button);
    button.addEventListener("click", () => sortBy(table, column, cell.getAttribute("aria-sort") !== "ascending"));
  });
}
document.querySelectorAll("table.sortable").forEach(addSorting);

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
