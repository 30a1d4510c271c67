import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { oneLine, visible } from "../src/format/visible";

// Python and Rust are held to the same.
const held: { ranges: [string, string][]; shown: [string, string][] } = JSON.parse(
  readFileSync(new URL("../../tests/fixtures/obeyed.json", import.meta.url), "utf-8"),
);

test("the same characters are shown as everywhere", () => {
  const expected = new Set<number>();
  for (const [first, last] of held.ranges) {
    for (let code = Number.parseInt(first, 16); code <= Number.parseInt(last, 16); code++) {
      expected.add(code);
    }
  }
  const found = new Set<number>();
  for (let code = 0; code < 0x110000; code++) {
    const letter = String.fromCodePoint(code);
    if (visible(letter) !== letter) {
      found.add(code);
    }
  }
  expect(found).toEqual(expected);
});

test("names are shown as everywhere", () => {
  for (const [name, shown] of held.shown) {
    expect(visible(name)).toBe(shown);
  }
  expect(oneLine("a\nb")).toBe("a\\nb");
});
