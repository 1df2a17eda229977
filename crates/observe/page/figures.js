// Figures: lines and layers over time, each with a legend of the values at the selected time
// and a table of all values. Independent of the meaning of the series.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; strings become text, never markup. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** An element of a drawing. */
export function shape(name, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

/** The steps of an axis from 0 to `max`: round numbers, of bytes powers of two. */
function steps(max, isBytes) {
  if (!(max > 0)) return [0];
  const base = isBytes ? 2 : 10;
  let step = base ** Math.floor(Math.log(max / 4) / Math.log(base));
  for (const factor of isBytes ? [1, 2] : [1, 2, 5, 10]) {
    if ((step * factor * 4) >= max) { step *= factor; break; }
  }
  const found = [];
  for (let at = 0; at <= max * 1.0001; at += step) found.push(at);
  return found;
}

/** Powers of ten that hold `low` and `high`. */
function decades(low, high) {
  const from = Math.floor(Math.log10(low)), to = Math.max(from + 1, Math.ceil(Math.log10(high)));
  return Array.from({ length: to - from + 1 }, (_, at) => 10 ** (from + at));
}

/** A line through points, broken where a point is missing. */
function line(points) {
  let text = "", isOpen = false;
  for (const point of points) {
    if (point === null) { isOpen = false; continue; }
    text += `${isOpen ? "L" : "M"}${point[0].toFixed(1)} ${point[1].toFixed(1)}`;
    isOpen = true;
  }
  return text;
}

/** The area between two lines with the same number of points; empty where a point is missing. */
function area(upper, lower) {
  let text = "", top = [], bottom = [];
  const close = () => {
    if (top.length > 1) text += `${line(top)}${line(bottom.reverse()).replace("M", "L")}Z`;
    top = []; bottom = [];
  };
  upper.forEach((point, at) => {
    if (point === null || lower[at] === null) return close();
    top.push(point);
    bottom.push(lower[at]);
  });
  close();
  return text;
}

/** A place for a name between two lines: the middle of the longest stretch that is high enough. */
function widest(upper, lower, height) {
  let best = null, from = null;
  upper.forEach((point, at) => {
    if (lower[at][1] - point[1] < height) { from = null; return; }
    from ??= at;
    const width = point[0] - upper[from][0];
    if (!best || width > best.width) best = { width, from, to: at };
  });
  if (!best) return null;
  const middle = Math.round((best.from + best.to) / 2);
  return { width: best.width, x: upper[middle][0], y: (upper[middle][1] + lower[middle][1]) / 2 };
}

const clock = (ms) => new Date(ms).toLocaleTimeString([], { hour12: false });

/** The rows of a table: at most `most`, evenly spaced, including the last sample. */
function moments(length, most = 24) {
  const step = Math.max(1, Math.ceil(length / most));
  const found = [];
  for (let at = length - 1; at >= 0; at -= step) found.push(at);
  return found;
}

/**
 * A figure. `spec` has `series`, each with `name`, `kind` (a class of the style sheet),
 * `value(at)` and perhaps `format`; `format` for the axis; and either layers
 * (`layers: true`, series with `filled(at)`), or lines (`scale: "log"`, `max`, `between`:
 * fill the area between the first two).
 */
export class Figure {
  constructor(figure, spec, onPoint) {
    this.spec = spec;
    this.svg = shape("svg", { role: "img" });
    this.legend = element("ul", { class: "legend" });
    this.body = element("tbody");
    this.details = element("details", {}, element("summary", {}, "As a table"));
    const names = spec.series.map((series) => element("th", { scope: "col" }, series.name));
    const head = element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Time"), ...names));
    this.details.append(element("div", { class: "scroll" }, element("table", {}, head, this.body)));
    this.details.addEventListener("toggle", () => this.fillTable());
    figure.append(this.svg, ...(spec.layers ? [] : [this.legend]), this.details);
    this.values = spec.series.map((series) => {
      const value = element("b", {}, "–");
      const classes = `${series.kind}${series.dashed ? " dashed" : ""}`;
      this.legend.append(element("li", { class: classes }, series.name, " ", value));
      return value;
    });
    const point = (event) => {
      const box = this.svg.getBoundingClientRect();
      onPoint(this.timeAt(event.clientX - box.left));
    };
    this.svg.addEventListener("pointermove", point);
    this.svg.addEventListener("pointerdown", point);
    this.svg.addEventListener("pointerleave", () => onPoint(null));
  }

  timeAt(x) {
    if (!this.frame || !this.times?.length) return null;
    const { left, width } = this.frame;
    return this.from + (this.to - this.from) * Math.min(1, Math.max(0, (x - left) / width));
  }

  /** Draws samples at `times`, from `from` to `to`; the legend is of the sample `at`. */
  draw(times, from, to, at, isNow) {
    Object.assign(this, { times, from, to, at, isNow });
    const { spec, svg } = this;
    const box = svg.getBoundingClientRect();
    this.frame = { left: 58, top: 8, width: Math.max(40, box.width - 68), height: Math.max(40, box.height - 32) };
    svg.setAttribute("viewBox", `0 0 ${box.width || 300} ${box.height || 150}`);
    const columns = spec.series.map((series) => times.map((_, i) => finite(series.value(i))));
    const bounds = this.bounds(columns);
    const y = this.vertical(bounds);
    const x = (ms) => this.frame.left + this.frame.width * (ms - from) / Math.max(1, to - from);
    const parts = [...this.axes(bounds, y, x)];
    if (!columns.some((column) => column.some((value) => value !== null))) {
      const middle = { x: this.frame.left + this.frame.width / 2, y: this.frame.top + this.frame.height / 2 };
      parts.push(shape("text", { class: "nothing", ...middle }, spec.nothing || "no data yet"));
    } else {
      parts.push(...(spec.layers ? this.layers(columns, x, y) : this.lines(columns, x, y)));
    }
    if (!isNow && times.length) {
      const { top, height } = this.frame;
      parts.push(shape("line", { class: "cursor", x1: x(times[at]), x2: x(times[at]), y1: top, y2: top + height }));
    }
    svg.replaceChildren(...parts);
    this.say(columns);
    if (this.details.open || !this.body.childElementCount) this.fillTable();
  }

  bounds(columns) {
    const { spec } = this;
    const all = columns.flat().filter((value) => value !== null);
    if (spec.scale === "log") {
      const positive = all.filter((value) => value > 0);
      return positive.length ? decades(Math.min(...positive), Math.max(...positive)) : decades(10, 1000);
    }
    let max = spec.max ?? Math.max(0, ...all);
    if (spec.layers) {
      max = Math.max(0, ...columns[0].map((_, i) => columns.reduce((sum, column) => sum + (column[i] || 0), 0)));
    }
    const marks = steps(max || spec.least || 1, spec.isBytes);
    const last = marks[marks.length - 1];
    // The axis of layers ends at the budget, that of lines at a round number above them.
    if (!spec.layers && last < max) marks.push(last + (marks[1] - marks[0] || 1));
    return spec.layers ? [...marks, max] : marks;
  }

  vertical(bounds) {
    const { top, height } = this.frame;
    const low = bounds[0], high = bounds[bounds.length - 1] || 1;
    const part = this.spec.scale === "log"
      ? (value) => Math.log(Math.max(value, low) / low) / Math.log(high / low)
      : (value) => value / high;
    return (value) => top + height * (1 - part(value));
  }

  *axes(bounds, y, x) {
    const { left, top, width, height } = this.frame;
    // The top mark of layers is the budget; a mark just below it is omitted.
    const isClear = (mark) => mark === bounds.at(-1) || y(mark) - y(bounds.at(-1)) > 14;
    const marks = this.spec.layers ? bounds.filter(isClear) : bounds;
    for (const mark of marks) {
      yield shape("line", { class: "grid", x1: left, x2: left + width, y1: y(mark), y2: y(mark) });
      yield shape("text", { x: left - 8, y: y(mark) + 4, "text-anchor": "end" }, this.spec.format(mark));
    }
    const span = this.to - this.from;
    const choices = [5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600].map((s) => s * 1000);
    const step = choices.find((ms) => span / ms <= Math.max(2, width / 95)) || 3600000;
    for (let ms = Math.ceil(this.from / step) * step; ms <= this.to; ms += step) {
      if (x(ms) < left + 14 || x(ms) > left + width - 14) continue;
      const text = step < 60000 ? clock(ms) : clock(ms).slice(0, 5);
      yield shape("text", { x: x(ms), y: top + height + 18, "text-anchor": "middle" }, text);
    }
  }

  lines(columns, x, y) {
    const points = columns.map((column) =>
      column.map((value, i) => value === null ? null : [x(this.times[i]), y(value)]));
    const parts = [];
    if (this.spec.between) {
      const kind = this.spec.series[0].kind;
      parts.push(shape("path", { class: `between ${kind}`, d: area(points[1], points[0]) }));
    }
    this.spec.series.forEach((series, which) => {
      const classes = `line ${series.kind}${series.dashed ? " dashed" : ""}`;
      parts.push(shape("path", { class: classes, d: line(points[which]) }));
    });
    return parts;
  }

  layers(columns, x, y) {
    const parts = [], lines = [], names = [];
    let base = this.times.map(() => 0);
    this.spec.series.forEach((series, which) => {
      const top = base.map((value, i) => value + (columns[which][i] || 0));
      const full = base.map((value, i) => value + Math.min(series.filled(i) || 0, columns[which][i] || 0));
      const at = (heights) => heights.map((value, i) => [x(this.times[i]), y(value)]);
      const [upper, lower] = [at(top), at(base)];
      parts.push(shape("path", { class: `room ${series.kind}`, d: area(upper, lower) }));
      parts.push(shape("path", { class: `filled ${series.kind}`, d: area(at(full), lower), "data-layer": series.kind }));
      // A layer of no height has no line.
      const edge = line(upper.map((point, i) => (columns[which][i] > 0 ? point : null)));
      lines.push(shape("path", { class: "boundary", d: edge }));
      lines.push(shape("path", { class: `target ${series.kind}`, d: edge, "data-target": series.kind }));
      // In a high part rather than in a long flat one.
      const place = [160, 100, 60, 40, 24].map((height) => widest(upper, lower, height))
        .find((place) => place && place.width > 9 * series.name.length + 16);
      if (place) {
        names.push(shape("text", { class: `layer ${series.kind}`, x: place.x, y: place.y + 5 }, series.name));
      }
      base = top;
    });
    return [...parts, ...lines, ...names];
  }

  say(columns) {
    const formats = this.spec.series.map((series) => series.format || this.spec.format);
    const texts = columns.map((column, which) => {
      const value = column[this.at];
      return value === null || value === undefined ? "–" : formats[which](value);
    });
    texts.forEach((text, which) => { this.values[which].textContent = text; });
    const said = this.spec.series.map((series, which) => `${series.name} ${texts[which]}`);
    this.svg.setAttribute("aria-label", `${said.join(", ")}. The values over time are in the table.`);
  }

  fillTable() {
    if (!this.times) return;
    const rows = moments(this.times.length).map((at) => {
      const cells = this.spec.series.map((series) => {
        const value = finite(series.value(at));
        const format = series.format || this.spec.format;
        const cell = element("td", value === null ? {} : { "data-value": value }, value === null ? "–" : format(value));
        return cell;
      });
      const time = element("th", { scope: "row" }, clock(this.times[at]));
      return element("tr", { "data-ms": this.times[at] }, time, ...cells);
    });
    this.body.replaceChildren(...rows);
  }
}

function finite(value) {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}
