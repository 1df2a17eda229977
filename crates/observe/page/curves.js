// Miss-ratio curves: one for each tenant or keyspace, with its current size marked. The size axis
// is logarithmic. Numbers come from /api/stats (`curves`).

import { element, shape } from "/figures.js";
import { SPACE, bytes, duration, number, percent } from "/words.js";

const WIDTH = 420, HEIGHT = 190, LEFT = 44, RIGHT = 12, TOP = 10, BOTTOM = 26;

/** The miss ratio at a size: that of the largest point not above it. */
function missRatio(points, size) {
  let found = 1;
  for (const [at, ratio] of points) {
    if (at > size) break;
    found = ratio;
  }
  return found;
}

/** Powers of two in a range, at most six. */
function marks(low, high) {
  const first = Math.ceil(Math.log2(low)), last = Math.floor(Math.log2(high));
  const step = Math.max(1, Math.ceil((last - first + 1) / 6));
  const found = [];
  for (let power = first; power <= last; power += step) found.push(2 ** power);
  return found;
}

/** A mark on a curve. */
function place(x, y, size, ratio, kind, text) {
  const mark = shape("g", { class: kind });
  mark.append(
    shape("line", { class: "cursor", x1: x(size), x2: x(size), y1: y(1), y2: y(0) }),
    shape("circle", { cx: x(size), cy: y(ratio), r: 4.5 }),
    shape("title", {}, text),
  );
  return mark;
}

function draw(curve, has) {
  const steps = curve.points.filter(([size]) => size > 0);
  const sizes = [1, ...steps.map(([size]) => size), ...has.map(({ size }) => size)].filter((size) => size > 0);
  const low = Math.max(1, Math.min(...sizes.slice(1)) / 2), high = Math.max(...sizes) * 2;
  const x = (size) => LEFT + (WIDTH - LEFT - RIGHT) * Math.log(Math.max(size, low) / low) / Math.log(high / low);
  const y = (ratio) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - ratio);
  const svg = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" });
  for (const ratio of [0, 0.25, 0.5, 0.75, 1]) {
    svg.append(
      shape("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(ratio), y2: y(ratio) }),
      shape("text", { x: LEFT - 6, y: y(ratio) + 4, "text-anchor": "end" }, percent(ratio)),
    );
  }
  for (const size of marks(low, high)) {
    svg.append(shape("text", { x: x(size), y: HEIGHT - 8, "text-anchor": "middle" }, bytes(size)));
  }
  let path = `M${x(low).toFixed(1)} ${y(missRatio(curve.points, low)).toFixed(1)}`;
  for (const [size, ratio] of steps) path += `H${x(size).toFixed(1)}V${y(ratio).toFixed(1)}`;
  svg.append(shape("path", { class: "curve", d: `${path}H${x(high).toFixed(1)}` }));
  for (const { kind, name, size } of has.filter((one) => one.size > 0)) {
    const ratio = missRatio(curve.points, size);
    svg.append(place(x, y, size, ratio, kind, `${name}, ${bytes(size)}: miss ratio ${percent(ratio)}`));
  }
  return svg;
}

/** The current sizes of a tenant or keyspace: DRAM, and DRAM with flash; none if it shares its memory. */
function has(curve) {
  if (curve.dram_bytes_max === undefined) return [];
  const memory = Math.max(0, curve.dram_bytes_max - (curve.flash_dram_bytes ?? 0));
  const flash = curve.flash_bytes_max ?? 0, both = memory + flash;
  const dram = { kind: "kv", name: "DRAM", size: memory };
  return flash > 0 ? [dram, { kind: "block", name: "DRAM and flash", size: both }] : [dram];
}

function words(curve, all) {
  const size = all.at(-1)?.size;
  const at = (factor) => percent(missRatio(curve.points, size * factor));
  const parts = [];
  if (size) parts.push(`Miss ratio with the current ${bytes(size)}: ${at(1)}; with half of it ${at(0.5)}, with twice ${at(2)}.`);
  const backend = curve.backend_us === undefined ? "" : `, and ${duration(curve.backend_us)} from a miss to the store of its object`;
  parts.push(`Measured for ${number(curve.seconds)}${SPACE}s: ${number(curve.requests)} requests, sampled from ${percent(curve.sampled)} of the keys${backend}.`);
  if (curve.unseen > 0) parts.push(`${number(curve.unseen)} requests fell between the measured bursts.`);
  return parts.join(" ");
}

/** Draws the curves of all tenants into `place`. */
export function drawCurves(place, curves) {
  const items = curves.map((curve) => {
    const all = has(curve);
    const svg = draw(curve, all), said = words(curve, all);
    svg.setAttribute("aria-label", said);
    const title = curves.length > 1 || curve.name !== "default" ? curve.name : "all keys";
    return element("li", { "data-curve": curve.name },
      element("h3", {}, title), element("figure", {}, svg), element("p", { class: "quiet" }, said));
  });
  place.replaceChildren(...items);
}
