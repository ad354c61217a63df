// Levels of detail of a timeline: the rectangles of what a window shows, as few as it has pixels to tell apart.
"use strict";

const MAX_RECTANGLES = 10000; // of one view: drawn and hovered at once
const LANE_PIXELS = 2; // the least height of a lane: servers that are lower share one
const GAP = 0.04; // between the bands of two kinds, as a share of a band

// Where tasks are drawn. tasks: columns, times in ns from the start of the step; groups: servers of each distinct group, [] for none.
// By server, a row for each server has a lane for each kind; by kind, a band for each kind has a row for each server.
function timelineLayout(tasks, servers, byKind) {
  const kinds = [...new Set(tasks.kind)].sort((a, b) => (tasks.kinds[b] === "compute") - (tasks.kinds[a] === "compute") || a - b);
  const rows = servers + (tasks.groups.some((group) => !group.length) ? 1 : 0); // the last row: on no server
  const laneOf = new Map(kinds.map((kind, lane) => [kind, lane]));
  const band = rows * (1 + GAP);
  const height = byKind ? band * kinds.length - rows * GAP : rows;
  // from and to: rows [from, to) of a lane
  const place = (lane, from, to) => (byKind ? [lane * band + from, lane * band + to] : [from + (to - from) * (0.06 + (0.88 * lane) / kinds.length), from + (to - from) * (0.06 + (0.88 * (lane + 1)) / kinds.length)]);
  const groups = tasks.groups.map((group) => (group.length ? [...group].sort((a, b) => a - b) : [servers]));
  return { tasks, servers, rows, kinds, byKind, height, place, band, groups, lane: tasks.kind.map((kind) => laneOf.get(kind)) };
}

// Rows of a group in blocks: [from, to) of every run of neighbouring blocks; by server, of every block.
function runs(group, block, rows, byKind) {
  const found = [];
  for (const server of group) {
    const at = Math.floor(server / block);
    const last = found[found.length - 1];
    if (last && last[1] > at) continue;
    if (last && byKind && last[1] === at) last[1] = at + 1;
    else found.push([at, at + 1]);
  }
  return found.map(([from, to]) => [from * block, Math.min(to * block, rows)]);
}

// The same for all tasks that a picture cannot tell apart: short ones within two steps, others whose ends are.
function moment(start, finish, step) {
  return finish - start < 2 * step ? `${Math.floor(start / (2 * step))}` : `${Math.round(start / step)}-${Math.round(finish / step)}`;
}

function merge(found, key, lane, from, to, part) {
  const old = found.get(key);
  if (!old) found.set(key, { lane, from, to, start: part.start, finish: part.finish, count: part.count, task: part.task });
  else {
    old.start = Math.min(old.start, part.start);
    old.finish = Math.max(old.finish, part.finish);
    old.count += part.count;
  }
}

// Rectangles of one level: blocks of `block` servers, times to `step` ns. Null where there are more than there is room for.
function level(layout, view, block, step) {
  const { tasks, groups, lane, rows, byKind } = layout;
  const together = new Map(); // tasks of one group, before they are drawn on its servers
  for (let n = 0; n < tasks.start.length; n++) {
    const [start, finish] = [tasks.start[n], tasks.finish[n]];
    if (finish < view.left || start > view.right) continue;
    merge(together, `${tasks.on[n]}:${lane[n]}:${moment(start, finish, step)}`, lane[n], tasks.on[n], 0, { start, finish, count: 1, task: n });
  }
  const [found, known] = [new Map(), new Map()];
  for (const part of together.values()) {
    if (!known.has(part.from)) known.set(part.from, runs(groups[part.from], block, rows, byKind));
    for (const [from, to] of known.get(part.from)) {
      const [low, high] = layout.place(part.lane, from, to);
      if (high < view.low || low > view.high) continue;
      merge(found, `${from}:${to}:${part.lane}:${moment(part.start, part.finish, step)}`, part.lane, from, to, part);
    }
    if (found.size > MAX_RECTANGLES) return null;
  }
  return [...found.values()];
}

// The finest level that the pixels of a view show and that has at most MAX_RECTANGLES, the longest rectangles first.
// view: left and right in ns, low and high in rows, width and height in pixels.
function levelOfDetail(layout, view) {
  const row = view.height / (view.high - view.low); // pixels of a server
  let block = Math.max(1, Math.ceil((LANE_PIXELS * (layout.byKind ? 1 : layout.kinds.length)) / row));
  let step = (view.right - view.left) / view.width;
  for (;;) {
    const found = level(layout, view, block, step);
    if (found) return { block, step, rectangles: found.sort((a, b) => b.finish - b.start - (a.finish - a.start)) };
    [block, step] = [Math.min(2 * block, layout.rows), 2 * step];
  }
}
