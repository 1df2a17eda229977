// The page: asks the server once a second for what is new, and says it in words and
// figures. All numbers come from /api/stats; docs/http.md has their names.

import { Figure, element, shape } from "/figures.js";

const MIB = 1 << 20;
const COMPONENTS = [
  { kind: "kv", name: "Values (KV)", plural: "values", what: "Whole answers by key: a get that finds one reads nothing." },
  { kind: "kp", name: "Pointers (KP)", plural: "pointers", what: "Where an entry lies, in a few bytes: a get that finds one reads at most one block." },
  { kind: "block", name: "Blocks", plural: "blocks", what: "Pieces of files as they are stored: good for scans and for keys that are neighbours." },
];
const MEASURING = { kind: "measuring", name: "Measuring", what: "Notes on what was asked for and is not here: by them it is known what more bytes would save." };
const $ = (id) => document.getElementById(id);
const root = document.documentElement;

// ---- Numbers in words ----

const SPACE = "\u202f";

/** A number with three digits or so, and thin spaces between thousands. */
function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  const digits = size === 0 || size >= 100 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : 3;
  const text = value.toFixed(digits);
  const [whole, fraction] = text.split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+(?!\d))/g, SPACE);
  return fraction && Number(fraction) ? `${grouped}.${fraction.replace(/0+$/, "")}` : grouped;
}

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let power = 0;
  // 1000 KiB is longer to say than 0.98 MiB.
  while (value >= 999.5 && power < units.length - 1) { value /= 1024; power += 1; }
  return `${number(Number(value.toPrecision(3)))}${SPACE}${units[power]}`;
}

const percent = (value) => `${number(Number((value * 100).toPrecision(3)))}${SPACE}%`;

function duration(us) {
  if (us >= 1e6) return `${number(Number((us / 1e6).toPrecision(3)))}${SPACE}s`;
  if (us >= 1000) return `${number(Number((us / 1000).toPrecision(3)))}${SPACE}ms`;
  return `${number(Number(us.toPrecision(3)))}${SPACE}µs`;
}

// ---- What the server has told ----

/** Samples of one length: moments, and a list of numbers for each field. */
class Ring {
  constructor() { this.times = []; this.values = {}; }

  add({ unix_ms: times, values, kept }) {
    this.times.push(...times);
    const surplus = Math.max(0, this.times.length - kept);
    this.times.splice(0, surplus);
    for (const [name, added] of Object.entries(values)) {
      const all = (this.values[name] ??= []);
      all.push(...added);
      all.splice(0, surplus);
    }
  }

  at(name, i) { return this.values[name]?.[i] ?? null; }

  /** The mean of the last `count` samples up to `i`; null where nothing is known. */
  mean(name, i, count) {
    const some = (this.values[name] ?? []).slice(Math.max(0, i + 1 - count), i + 1);
    const known = some.filter((value) => value !== null);
    return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
  }
}

const told = { stats: null, rings: { fine: new Ring(), coarse: new Ring() } };
const view = { ring: "fine", moment: null };
/** How many samples a rate is taken over: single seconds are restless. */
const smooth = () => (view.ring === "fine" ? 5 : 1);
const ring = () => told.rings[view.ring];
const rate = (name, i) => ring().mean(name, i, smooth());

function take(stats) {
  if (told.stats && told.stats.started_ms !== stats.started_ms) {
    told.rings = { fine: new Ring(), coarse: new Ring() };
  }
  told.stats = stats;
  for (const name of ["fine", "coarse"]) told.rings[name].add(stats.history[name]);
}

// ---- Figures ----

/** Parts of a whole that is not there are nothing, not zero. */
function share(part, rest, i, least = 0) {
  const sum = (names) => names.reduce((total, name) => total + (rate(name, i) ?? 0), 0);
  const whole = sum(part) + sum(rest);
  return whole > least ? sum(part) / whole : null;
}

function perMiB(name, size, i) {
  const mib = (rate(size, i) ?? 0) / MIB;
  return mib > 0.03 ? (rate(name, i) ?? 0) / mib : null;
}

const perOperation = (i) => {
  const operations = rate("operations", i);
  return operations > 0 ? rate("reads", i) / operations : null;
};

const perColdLookup = (name, i) => {
  const lookups = rate("cold_lookups", i);
  return lookups > 0 ? rate(name, i) / lookups : null;
};

const layer = ({ kind, name }) => ({
  kind, name, format: bytes,
  value: (i) => ring().at(`${kind}_bytes_max`, i),
  filled: (i) => ring().at(`${kind}_bytes`, i),
});
const [values, pointers, blocks] = COMPONENTS;
const each = (value) => COMPONENTS.map(({ kind, name }) => ({ kind, name, value: (i) => value(kind, i) }));
const latency = (name) => ({
  scale: "log", between: true, format: duration, nothing: "none lately",
  series: [
    { kind: "accent", name: "half take at most", value: (i) => rate(`${name}_us_p50`, i) },
    { kind: "strong", name: "99 % take at most", value: (i) => rate(`${name}_us_p99`, i) },
  ],
});

const SPECS = {
  tide: {
    layers: true, isBytes: true, format: bytes,
    // From the bottom: deep water, shallow water, sand.
    series: [layer(blocks), layer(values), layer(pointers), {
      ...MEASURING, format: bytes,
      value: (i) => ring().at("measuring_bytes", i), filled: (i) => ring().at("measuring_bytes", i),
    }],
  },
  "per-operation": {
    format: number, least: 1, nothing: "no operations lately",
    series: [{ kind: "accent", name: "reads for an operation", value: perOperation }],
  },
  next: {
    format: number, nothing: "not measured",
    series: each((kind, i) => perMiB(`${kind}_wanted`, "window_bytes", i)),
  },
  saved: {
    format: number, nothing: "nothing in the caches yet",
    series: each((kind, i) => perMiB(`${kind}_saved`, `${kind}_bytes`, i)),
  },
  hits: {
    format: percent, max: 1, nothing: "nothing asked lately",
    series: [
      { kind: "kv", name: "Values", value: (i) => share(["kv_hits"], ["kp_hits", "point_misses"], i) },
      { kind: "kp", name: "Pointers, for the rest", value: (i) => share(["kp_hits"], ["point_misses"], i) },
      { kind: "block", name: "Data blocks", value: (i) => share(["data_hits"], ["data_misses"], i) },
      { kind: "metadata", name: "Index and filter blocks", dashed: true, value: (i) => share(["metadata_hits"], ["metadata_misses"], i) },
    ],
  },
  filters: {
    format: number, least: 1,
    series: [
      { kind: "accent", name: "false positives a second", value: (i) => rate("false_positives", i) },
      { kind: "strong", name: "repairs a second", value: (i) => rate("repairs", i) },
      { kind: "soft", name: "storage reads for repairs", dashed: true, value: (i) => rate("repair_reads", i) },
    ],
  },
  cold: {
    format: number, least: 1, nothing: "no lookup waited lately",
    series: [
      { kind: "accent", name: "all blocks", value: (i) => perColdLookup("cold_reads", i) },
      { kind: "strong", name: "in vain", value: (i) => perColdLookup("cold_reads_in_vain", i) },
      { kind: "soft", name: "filters", dashed: true, value: (i) => perColdLookup("cold_filter_reads", i) },
    ],
  },
  load: {
    format: number, least: 10,
    series: [
      { kind: "accent", name: "operations a second", value: (i) => rate("operations", i) },
      { kind: "soft", name: "storage reads a second", dashed: true, value: (i) => rate("reads", i) },
    ],
  },
  "read-latency": latency("read"),
  "write-latency": latency("write"),
};

const figures = Object.entries(SPECS).map(([id, spec]) => new Figure($(id), spec, (time) => {
  look(time === null ? null : nearest(time));
}));

function nearest(time) {
  const { times } = ring();
  let best = times.length - 1;
  while (best > 0 && Math.abs(times[best - 1] - time) <= Math.abs(times[best] - time)) best -= 1;
  return best >= times.length - 1 ? null : times[best];
}

/** Looks at the sample of a moment; null: at the last one. */
function look(moment) {
  if (moment === view.moment) return;
  view.moment = moment;
  draw();
}

const SPANS = { fine: 600000, coarse: 7200000 };

function draw() {
  const { times } = ring();
  const last = times.length - 1;
  const found = view.moment === null ? -1 : times.indexOf(view.moment);
  const at = found >= 0 ? found : last;
  const to = times[last] ?? Date.now();
  // A young server is not squeezed into the right edge.
  const from = Math.max(to - SPANS[view.ring], Math.min(times[0] ?? to, to - 60000));
  for (const figure of figures) figure.draw(times, from, to, at, found < 0);
  const slider = $("moment");
  slider.max = Math.max(0, last);
  slider.value = Math.max(0, at);
  const text = found < 0 ? "now" : new Date(times[at]).toLocaleTimeString([], { hour12: false });
  slider.setAttribute("aria-valuetext", text);
  // Screen readers say what changes here, so nothing may seem to.
  if ($("moment-time").textContent !== text) $("moment-time").textContent = text;
  drawComponents(at);
}

function drawComponents(at) {
  const items = COMPONENTS.map(({ kind, name, what }) => {
    const taken = ring().at(`${kind}_bytes`, at) ?? 0, most = ring().at(`${kind}_bytes_max`, at) ?? 0;
    return element("li", { class: kind, "data-component": kind, "data-bytes": taken, "data-bytes-max": most },
      element("h3", {}, name),
      element("p", {}, most > 0 ? `${bytes(taken)} of ${bytes(most)}` : "no memory"),
      element("p", { class: "quiet" }, what));
  });
  const measuring = ring().at("measuring_bytes", at) ?? 0;
  items.push(element("li", { class: MEASURING.kind },
    element("h3", {}, MEASURING.name),
    element("p", {}, measuring > 0 ? bytes(measuring) : "nothing is measured"),
    element("p", { class: "quiet" }, MEASURING.what)));
  $("components").replaceChildren(...items);
}

// ---- Words ----

/** Of the budget, what has to change hands within so many seconds to be worth a word. */
const MOVED = 0.015;
const LATELY = 15;

/** What becomes of the lines between the caches, and whether another MiB is measured. */
function lines() {
  const { policy, outlook } = told.stats;
  if (outlook.reason === "blocks-alone") return "none";
  if (outlook.reason === "other-ghosts") return "by other ghosts";
  const moves = policy.startsWith("tide") && !policy.includes("controller");
  return moves ? "by worth" : "fixed";
}

/** How the boundaries have moved lately: who gained most, and from whom. */
function drift() {
  const { fine } = told.rings;
  const last = fine.times.length - 1, first = Math.max(0, last - LATELY);
  const budget = fine.at("cache_bytes_max", last), windowMib = fine.at("window_bytes", last) / MIB;
  const moves = COMPONENTS.map((component) => {
    const most = `${component.kind}_bytes_max`;
    const wanted = fine.mean(`${component.kind}_wanted`, last, LATELY) ?? 0;
    const worth = windowMib > 0 ? wanted / windowMib : 0;
    return { ...component, gained: fine.at(most, last) - fine.at(most, first), worth };
  }).sort((a, b) => b.gained - a.gained);
  const [gainer, , loser] = moves;
  // The budget itself may have changed, which is no tide.
  const least = MOVED * budget;
  const isMoving = gainer.gained > least && loser.gained < -least;
  return { isMoving, gainer, loser, moves };
}

/** Whether no command has come since the start. */
const isUntouched = () => told.stats.now.counters["server.commands"] === 0;

function headline() {
  const { fine } = told.rings;
  const last = fine.times.length - 1;
  if (last < 0) return "The server has just started.";
  const operations = fine.mean("operations", last, 5), reads = fine.mean("reads", last, 5);
  if (operations < 0.05) {
    return isUntouched() ? "Nothing has been asked of this server yet." : "No operations at the moment.";
  }
  const count = number(operations < 10 ? operations : Math.round(operations));
  const one = `${count} operation${count === "1" ? "" : "s"} a second`;
  return reads < 0.05 ? `${one}, all without reading storage.` : `${one}, ${number(reads / operations)} storage reads each.`;
}

/** What another MiB would save, of the component where it is most first. */
function worths(moves) {
  const [best, ...others] = [...moves].sort((a, b) => b.worth - a.worth);
  const rest = others.map((other) => `one of ${other.plural} ${number(other.worth)}`).join(" and ");
  return best.worth < 0.05
    ? "More memory would save no reads in any of the caches."
    : `Another MiB of ${best.plural} would save ${number(best.worth)} reads a second, ${rest}.`;
}

function reason() {
  const { policy, outlook } = told.stats;
  const { fine } = told.rings, kind = lines();
  if (!fine.times.length) return "";
  if (kind === "none") return `The policy ${policy} gives the caches’ memory to blocks alone: nothing moves.`;
  const { isMoving, gainer, loser, moves } = drift();
  const name = gainer.plural[0].toUpperCase() + gainer.plural.slice(1);
  const gain = `${name} get more memory at the moment (${bytes(gainer.gained)} in the last ${LATELY}${SPACE}s)`;
  if (kind === "by other ghosts") {
    return `The policy ${policy} moves the lines by ghosts of its own.${isMoving ? ` ${gain}.` : ""}`;
  }
  const isQuiet = fine.mean("reads", fine.times.length - 1, 5) < 0.05;
  if (kind === "fixed") {
    const worth = isQuiet || outlook.reason ? "" : ` ${worths(moves)}`;
    return `The policy ${policy} keeps the lines where they are.${worth}`;
  }
  if (isUntouched()) return "Its caches are empty. Connect a client, and watch where their memory goes.";
  if (isQuiet) return "The lines between the caches stay where they are while storage is not read: there is nothing to save.";
  if (isMoving) {
    const why = gainer.worth > loser.worth
      ? `, because another MiB of ${gainer.plural} would save ${number(gainer.worth)} reads a second, and one of ${loser.plural} ${number(loser.worth)}`
      : "";
    return `${gain}${why}.`;
  }
  if (outlook.reason === "too-small") {
    return "The caches are too small to measure what their bytes are worth, so the lines stay.";
  }
  return `The lines are at rest. ${worths(moves)}`;
}

function sharing() {
  const budget = `a budget of ${bytes(told.stats.cache_bytes_max)}`;
  return {
    none: `Blocks have all of ${budget}.`,
    fixed: `Three caches share ${budget}. The lines between them stay where the policy has put them.`,
    "by other ghosts": `Three caches share ${budget}. The lines between them move as the policy’s own ghosts say.`,
    "by worth": `Three caches share ${budget}. The lines between them move to where a byte saves the most reads of storage.`,
  }[lines()];
}

const UNKNOWN = {
  idle: "In the last minute hardly anything was asked for that storage had to be read for: there is nothing to estimate, and little that more memory could save.",
  "blocks-alone": "It is not measured: where blocks have all of the memory, nobody takes notes.",
  "other-ghosts": "It is not measured: the policy’s own ghosts say where the lines go, and not what more memory would save.",
  "no-ghosts": "It is not measured: under this policy nobody takes notes of what has left.",
  "too-small": "It is not measured: the caches are too small for that.",
};

function drawOutlook() {
  const { outlook, cache_bytes_max: budget } = told.stats;
  const target = $("outlook");
  if (outlook.unknown) {
    const why = UNKNOWN[outlook.reason ?? outlook.unknown];
    target.replaceChildren(element("p", { class: "note" }, why));
    return;
  }
  const { reads_half: half, reads_now: now, reads_twice: twice, operations } = outlook;
  const most = Math.max(half, now, twice, 1e-9);
  const rows = [
    ["half", half, "Half", 0.5, "soft"], ["now", now, "Now", 1, "strong"], ["twice", twice, "Twice", 2, "accent"],
  ];
  const parts = rows.flatMap(([key, reads, name, factor, kind]) => {
    const bar = shape("svg", { class: kind, "aria-hidden": "true", preserveAspectRatio: "none", viewBox: "0 0 100 10" });
    bar.append(shape("rect", { x: 0, y: 0, height: 10, width: 100 * reads / most, rx: 0.6 }));
    const amount = `${number(reads)} reads each, ${number(reads * operations)}${SPACE}/s`;
    return [
      element("dt", {}, element("b", {}, name), element("span", { class: "quiet" }, bytes(budget * factor))),
      element("dd", { "data-outlook": key, "data-reads": reads }, bar, element("span", { class: "amount" }, amount)),
    ];
  });
  const note = "It assumes that the curve of reads over memory goes on as it runs here (a power law). Where a "
    + "working set just fits, real curves break; the farther from now, the less this can be trusted."
    + (lines() === "fixed" ? " And it takes for granted that memory goes where it saves most, which this policy does not do." : "");
  target.replaceChildren(element("dl", { class: "bars" }, ...parts), element("p", { class: "note" }, note));
}

function show() {
  const { stats } = told;
  $("headline").textContent = headline();
  $("reason").textContent = reason();
  $("sharing").textContent = sharing();
  $("goes").hidden = lines() !== "by worth";
  $("place").textContent = location.host;
  $("version").textContent = `TideKV ${stats.version}, policy ${stats.policy}, ${bytes(stats.memory_bytes_max)} of memory.`;
  root.dataset.number = stats.number;
  drawOutlook();
  draw();
}

// ---- Asking the server ----

const TICK_MS = 1000;
let misses = 0;

function say(state, text) {
  if (root.dataset.state === state && $("status").textContent === text) return;
  root.dataset.state = state;
  $("status").textContent = text;
}

async function fetchStats(since) {
  const controller = new AbortController();
  const patience = setTimeout(() => controller.abort(), 5000);
  try {
    const answer = await fetch(`/api/stats?since=${since}`, { signal: controller.signal });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    return await answer.json();
  } finally {
    clearTimeout(patience);
  }
}

async function ask() {
  let stats;
  try {
    stats = await fetchStats(told.stats?.number ?? 0);
    // Another life of the server, of which we have seen nothing.
    if (told.stats && told.stats.started_ms !== stats.started_ms) stats = await fetchStats(0);
  } catch {
    misses += 1;
    if (misses > 1) say("away", "The server does not answer. Trying again…");
    return;
  }
  misses = 0;
  take(stats);
  show();
  say("live", "live, every second");
}

async function live() {
  // Nobody looks: the server keeps the history meanwhile.
  if (!document.hidden) await ask();
  setTimeout(live, TICK_MS);
}

function complain() {
  root.dataset.errors = Number(root.dataset.errors) + 1;
}

window.addEventListener("error", complain);
window.addEventListener("unhandledrejection", complain);
window.addEventListener("resize", () => told.stats && draw());
$("moment").addEventListener("input", (event) => {
  const at = Number(event.target.value), { times } = ring();
  look(at >= times.length - 1 ? null : times[at]);
});
for (const button of document.querySelectorAll("[data-ring]")) {
  button.addEventListener("click", () => {
    Object.assign(view, { ring: button.dataset.ring, moment: null });
    for (const other of document.querySelectorAll("[data-ring]")) {
      other.setAttribute("aria-pressed", String(other === button));
    }
    if (told.stats) draw();
  });
}
live();
