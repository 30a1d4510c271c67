// Text of the scene: letters of the page's font in one texture, one quad each. Their size is the screen's, not the
// world's, so that they are sharp at each zoom.

import { Texture } from "pixi.js";
import { oneLine } from "../../format/visible";
import type { Instances } from "./marks";

const FIRST = 32;
const EXTRA = "·µ–%×…≥";
const CHARACTERS = Array.from({ length: 95 }, (_, i) => String.fromCharCode(FIRST + i)).join("") + EXTRA;
export const LINE = 14;
/** From the top of a line down to its baseline. */
export const ASCENT = 11;
const FONTS = [
  "500 11px 'Inter Report', system-ui, sans-serif",
  "650 11px 'Inter Report', system-ui, sans-serif",
];

interface Glyph {
  left: number;
  top: number;
  width: number;
  height: number;
  advance: number;
}

/** The page's text and muted text; what is read on light and on dark tiles. */
export type Ink = 0 | 1 | 2 | 3;

export class Letters {
  readonly texture: Texture;
  readonly size: [number, number];
  private glyphs: Map<string, Glyph>[] = [];

  /** `ratio`: pixels of the display by CSS pixel. Fonts must be loaded. */
  constructor(readonly ratio: number) {
    const canvas = document.createElement("canvas");
    canvas.width = Math.ceil(1024 * ratio);
    canvas.height = Math.ceil(128 * ratio);
    const context = canvas.getContext("2d");
    if (!context) {
      throw new Error("This browser gives no 2D canvas.");
    }
    context.fillStyle = "#fff";
    context.textBaseline = "alphabetic";
    let left = 1;
    let top = 0;
    const height = Math.ceil(LINE * ratio) + 2;
    for (const font of FONTS) {
      context.font = font.replace(/\d+px/, `${11 * ratio}px`);
      const found = new Map<string, Glyph>();
      for (const character of CHARACTERS) {
        const advance = context.measureText(character).width;
        const width = Math.ceil(advance) + 2;
        if (left + width > canvas.width) {
          left = 1;
          top += height;
        }
        context.fillText(character, left + 1, top + ASCENT * ratio);
        found.set(character, { left, top, width, height, advance: advance / ratio });
        left += width + 1;
      }
      this.glyphs.push(found);
    }
    this.size = [canvas.width, canvas.height];
    this.texture = Texture.from(canvas);
  }

  width(text: string, bold = false): number {
    let sum = 0;
    for (const character of oneLine(text)) {
      sum += this.glyphs[bold ? 1 : 0].get(character)?.advance ?? 6;
    }
    return sum;
  }

  /**
   * Appends a text to the instances, `align` 0 to the right of the anchor, 0.5 in its middle; returns how many there
   * are then. (dx, dy) is in pixels of the screen.
   */
  write(
    into: Instances,
    from: number,
    text: string,
    x: number,
    y: number,
    dx: number,
    dy: number,
    ink: Ink,
    align: number,
    bold = false,
  ): number {
    const shown = oneLine(text);
    into.reserve(from + shown.length);
    let count = from;
    let at = Math.round((dx - align * this.width(text, bold)) * this.ratio) / this.ratio;
    for (const character of shown) {
      const glyph = this.glyphs[bold ? 1 : 0].get(character);
      if (!glyph) {
        at += 6;
        continue;
      }
      if (character !== " ") {
        const data = into.data;
        const o = count * into.stride;
        data[o] = x;
        data[o + 1] = y;
        data[o + 2] = Math.round((at - 1 / this.ratio) * this.ratio) / this.ratio;
        data[o + 3] = Math.round(dy);
        data[o + 4] = glyph.left;
        data[o + 5] = glyph.top;
        data[o + 6] = glyph.width;
        data[o + 7] = glyph.height;
        data[o + 8] = ink;
        count += 1;
      }
      at += glyph.advance;
    }
    return count;
  }
}
