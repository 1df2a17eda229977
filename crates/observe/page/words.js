// Formatting of numbers, the same on all pages.

export const SPACE = "\u202f";

/** A number with about three digits, and thin spaces between thousands. */
export function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  const digits = size === 0 || size >= 100 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : 3;
  const text = value.toFixed(digits);
  const [whole, fraction] = text.split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+(?!\d))/g, SPACE);
  return fraction && Number(fraction) ? `${grouped}.${fraction.replace(/0+$/, "")}` : grouped;
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let power = 0;
  // 0.98 MiB is shorter than 1000 KiB.
  while (value >= 999.5 && power < units.length - 1) { value /= 1024; power += 1; }
  return `${number(Number(value.toPrecision(3)))}${SPACE}${units[power]}`;
}

export const percent = (value) => `${number(Number((value * 100).toPrecision(3)))}${SPACE}%`;

export function duration(us) {
  if (us >= 1e6) return `${number(Number((us / 1e6).toPrecision(3)))}${SPACE}s`;
  if (us >= 1000) return `${number(Number((us / 1000).toPrecision(3)))}${SPACE}ms`;
  return `${number(Number(us.toPrecision(3)))}${SPACE}µs`;
}
