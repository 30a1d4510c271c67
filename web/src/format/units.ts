// Numbers for people: time in SI units, bytes in IEC units (1 KiB = 1,024 B), counts in SI (1 k = 1,000).
// Three significant digits; tooltips give exact values.

const TIME: [number, string][] = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
];
const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const COUNT = ["", "k", "M", "G", "T"];

const NONE = "–";

/** Three significant digits, without an exponent and without a sign of more precision than there is. */
export function digits(value: number): string {
  const size = Math.abs(value);
  if (size >= 99.95) {
    return Math.round(value).toLocaleString("en-US");
  }
  return value.toFixed(size >= 9.995 ? 1 : 2);
}

/** A plain number without trailing zeros. */
export const plain = (value: number): string => String(Number(digits(value).replaceAll(",", "")));

/** A duration in ns. */
export function time(ns: number | null): string {
  if (ns === null) {
    return NONE;
  }
  if (ns === 0) {
    return "0 s";
  }
  if (Math.abs(ns) >= 600e9) {
    return clock(ns);
  }
  // A value that would round to 1,000 of a unit is written in the next one.
  const [scale, unit] = TIME.find(([s]) => Math.abs(ns) >= s * 0.9995) ?? TIME[3];
  return unit === "ns" ? `${Math.round(ns)} ns` : `${digits(ns / scale)} ${unit}`;
}

/** Long durations: 1 h 02 min. */
function clock(ns: number): string {
  const seconds = Math.round(ns / 1e9);
  const two = (n: number) => String(n).padStart(2, "0");
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor((seconds % 3600) / 60);
  return hours > 0 ? `${hours} h ${two(minutes)} min` : `${minutes} min ${two(seconds % 60)} s`;
}

/** A moment on the run's axis whose ticks are `step` ns apart: all ticks in one unit, as precise as the step. */
export function moment(ns: number, step: number): string {
  // Seconds down to steps of a millisecond, which keeps times of a run comparable at a glance.
  const [scale, unit] = TIME[step >= 1e6 ? 0 : step >= 1e3 ? 1 : 2];
  let places = Math.max(0, Math.ceil(-Math.log10(step / scale) - 1e-9));
  // Steps of 2.5, of which every other tick has a half.
  const digits = (step / scale) * 10 ** places;
  places += Math.abs(digits - Math.round(digits)) > 1e-6 ? 1 : 0;
  const text = (ns / scale).toLocaleString("en-US", {
    minimumFractionDigits: places,
    maximumFractionDigits: places,
  });
  return `${text === "-0" ? "0" : text} ${unit}`;
}

export function bytes(value: number | null): string {
  if (value === null) {
    return NONE;
  }
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1023.5 && unit < BYTES.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return unit === 0 ? `${Math.round(size)} B` : `${digits(size)} ${BYTES[unit]}`;
}

export const rate = (value: number): string => `${bytes(value)}/s`;

export function count(value: number | null): string {
  if (value === null) {
    return NONE;
  }
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 999.5 && unit < COUNT.length - 1) {
    size /= 1000;
    unit += 1;
  }
  if (unit === 0) {
    return Number.isInteger(size) ? String(size) : digits(size);
  }
  return `${digits(size)} ${COUNT[unit]}`;
}

/** All digits, in groups of three. */
export function exact(value: number | null): string {
  return value === null ? NONE : value.toLocaleString("en-US");
}

export function share(part: number, whole: number): string {
  if (whole <= 0) {
    return NONE;
  }
  const percent = (100 * part) / whole;
  if (percent > 0 && percent < 0.1) {
    return "< 0.1 %";
  }
  return `${percent >= 99.95 ? "100" : percent.toFixed(1)} %`;
}

/** `one file`, `2 files`. */
export function plural(n: number, noun: string, nouns = `${noun}s`): string {
  return `${exact(n)} ${n === 1 ? noun : nouns}`;
}
