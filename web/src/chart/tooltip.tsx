// One floating box of exact values beside the pointer, for all charts.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import "./tooltip.css";

export interface TooltipAt {
  /** Pointer, in pixels of the viewport. */
  x: number;
  y: number;
  content: ComponentChildren;
}

export function Tooltip({ at }: { at: TooltipAt | null }) {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (!at || !box.current) {
      return;
    }
    const { width, height } = box.current.getBoundingClientRect();
    const left = at.x + 16 + width > window.innerWidth ? at.x - 16 - width : at.x + 16;
    const top = Math.min(at.y + 12, window.innerHeight - height - 8);
    box.current.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
  });
  // The table views hold the same numbers for readers without a pointer.
  return at ? (
    <div class="tooltip" ref={box} aria-hidden="true">
      {at.content}
    </div>
  ) : null;
}

/** Rows of a name, a value and, where it has one, the colour it is drawn in. */
export function TooltipRows({ title, rows }: { title: string; rows: [string, string, string?][] }) {
  return (
    <>
      <div class="tooltip-title">{title}</div>
      {rows.map(([name, value, swatch]) => (
        <div class="tooltip-row" key={name}>
          <span>
            {swatch && <i class="swatch" style={{ background: swatch }} />}
            {name}
          </span>
          <b>{value}</b>
        </div>
      ))}
    </>
  );
}
