// The worlds of a report: links to a row, and its configuration. The table is in table.js, the charts are in charts.js.
"use strict";

// The configuration of a world: what all have in common, with what it has of its own.
function choose(number) {
  const row = page.rows[number];
  if (!row) return;
  for (const each of document.querySelectorAll("tr.chosen")) each.classList.remove("chosen");
  document.getElementById(row.id)?.classList.add("chosen");
  history.replaceState(null, "", `#${row.id}`);
  document.getElementById("chosen").textContent = row.world;
  document.getElementById("config").textContent = JSON.stringify({ ...page.common, ...row.own }, null, 2);
  const shown = document.getElementById("configuration");
  shown.open = true;
  shown.scrollIntoView({ block: "nearest" });
}
const page = JSON.parse(document.getElementById("data").textContent);
function chooseFromAddress() {
  const number = page.rows.findIndex((row) => `#${row.id}` === location.hash);
  if (number >= 0) {
    choose(number);
  }
}
window.addEventListener("hashchange", chooseFromAddress);
chooseFromAddress();
