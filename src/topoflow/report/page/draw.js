// What is drawn on a page, in order, when it has loaded and whenever its theme changes.
"use strict";

const drawings = []; // functions, each of which draws one chart

async function unpack(text) {
  const raw = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// The choices of a select element: [value, text] each; `draw` is called when another one is chosen.
function options(id, texts, draw, chosen = 0) {
  const select = document.getElementById(id);
  if (!select) return;
  select.replaceChildren(...texts.map(([value, text], n) => new Option(text, value, n === chosen, n === chosen)));
  select.addEventListener("change", draw);
}

async function drawAll() {
  for (const draw of drawings) await draw();
  await Promise.all(showing.splice(0));
  topoflow.ready = true;
}
window.addEventListener("DOMContentLoaded", () => {
  // One drawing after the other: a change of the theme waits for what is being drawn.
  topoflow.drawing = drawAll();
  document.addEventListener("theme", () => {
    topoflow.drawing = topoflow.drawing.then(drawAll);
  });
});
