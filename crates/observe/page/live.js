// Shared by both pages: polls the server once a second for new samples, keeps them, draws the
// figures, and lets the reader go back in time. Independent of the meaning of the fields.

import { Figure } from "/figures.js";
import { duration } from "/words.js";

export const $ = (id) => document.getElementById(id);
const root = document.documentElement;

// ---- Samples of the server ----

/** Samples of one interval: their end times, and a list of values for each field. */
class Ring {
  constructor() { this.times = []; this.values = {}; }

  /** Fields of parts, such as devices, are stored as `name@number`. */
  add({ unix_ms: times, values, kept, devices = [] }) {
    this.times.push(...times);
    const surplus = Math.max(0, this.times.length - kept);
    this.times.splice(0, surplus);
    const keep = (name, added) => {
      const all = (this.values[name] ??= []);
      all.push(...added);
      all.splice(0, surplus);
    };
    for (const [name, added] of Object.entries(values)) keep(name, added);
    devices.forEach((device, number) => {
      for (const [name, added] of Object.entries(device)) keep(`${name}@${number}`, added);
    });
  }

  at(name, i) { return this.values[name]?.[i] ?? null; }

  /** The mean of the last `count` samples up to `i`; null if none has a value. */
  mean(name, i, count) {
    const some = (this.values[name] ?? []).slice(Math.max(0, i + 1 - count), i + 1);
    const known = some.filter((value) => value !== null);
    return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
  }
}

export const told = { stats: null, rings: { fine: new Ring(), coarse: new Ring() } };
const view = { ring: "fine", moment: null };
/** The number of samples that a rate averages: single seconds are noisy. */
const smooth = () => (view.ring === "fine" ? 5 : 1);
export const ring = () => told.rings[view.ring];
export const rate = (name, i) => ring().mean(name, i, smooth());

function take(stats) {
  if (told.stats && told.stats.started_ms !== stats.started_ms) {
    told.rings = { fine: new Ring(), coarse: new Ring() };
  }
  told.stats = stats;
  for (const name of ["fine", "coarse"]) told.rings[name].add(stats.history[name]);
}

/** The share of `part` in `part` and `rest`; null, not zero, if both are empty. */
export function share(part, rest, i, least = 0) {
  const sum = (names) => names.reduce((total, name) => total + (rate(name, i) ?? 0), 0);
  const whole = sum(part) + sum(rest);
  return whole > least ? sum(part) / whole : null;
}

/** A latency figure; `part` selects one of several, such as a device. */
export const latency = (name, part = "") => ({
  scale: "log", between: true, format: duration, nothing: "no recent samples",
  series: [
    { kind: "accent", name: "p50", value: (i) => rate(`${name}_us_p50${part}`, i) },
    { kind: "strong", name: "p99", value: (i) => rate(`${name}_us_p99${part}`, i) },
  ],
});

// ---- Figures and time ----

/** The callbacks of a page: `show()` after new samples, and `drawn(at, isNow, from, to)` after its
    figures are drawn, with the selected sample and the time range in ms. */
let page = null;
const figures = [];

/** Adds a figure to those that are drawn. */
export function addFigure(place, spec) {
  figures.push(new Figure(place, spec, (time) => look(time === null ? null : nearest(time))));
}

function nearest(time) {
  const { times } = ring();
  let best = times.length - 1;
  while (best > 0 && Math.abs(times[best - 1] - time) <= Math.abs(times[best] - time)) best -= 1;
  return best >= times.length - 1 ? null : times[best];
}

/** Selects the sample of a time; null: the last one. */
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
  // Just after a start the range is shorter.
  const from = Math.max(to - SPANS[view.ring], Math.min(times[0] ?? to, to - 60000));
  for (const figure of figures) figure.draw(times, from, to, at, found < 0);
  const slider = $("moment");
  slider.max = Math.max(0, last);
  slider.value = Math.max(0, at);
  const text = found < 0 ? "now" : new Date(times[at]).toLocaleTimeString([], { hour12: false });
  slider.setAttribute("aria-valuetext", text);
  // Screen readers announce each change here, so write only real ones.
  if ($("moment-time").textContent !== text) $("moment-time").textContent = text;
  page.drawn(at, found < 0, from, to);
}

// ---- Polling ----

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
    // The server was restarted: fetch all samples of this run.
    if (told.stats && told.stats.started_ms !== stats.started_ms) stats = await fetchStats(0);
  } catch {
    misses += 1;
    if (misses > 1) say("away", "No response from the server. Retrying…");
    return;
  }
  misses = 0;
  take(stats);
  page.show();
  root.dataset.number = stats.number;
  draw();
  say("live", "live, updated every second");
}

async function live() {
  // A hidden page does not poll: the server keeps the history.
  if (!document.hidden) await ask();
  setTimeout(live, TICK_MS);
}

function complain() {
  root.dataset.errors = Number(root.dataset.errors) + 1;
}

/** Starts the page: `specs` are figures by the ids of their elements. */
export function watch(specs, own) {
  page = own;
  for (const [id, spec] of Object.entries(specs)) addFigure($(id), spec);
  live();
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
