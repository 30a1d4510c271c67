// Light or dark: what the system prefers until the reader chooses, then the choice.

import { flushSync } from "preact/compat";
import { useEffect, useState } from "preact/hooks";

export type Theme = "light" | "dark";

const KEY = "iotrail-theme";
// Paper is light, and canvases must be drawn again for it.
const printing = window.matchMedia("print");
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");

function chosen(): Theme | null {
  try {
    const stored = localStorage.getItem(KEY);
    return stored === "light" || stored === "dark" ? stored : null;
  } catch {
    // Storage is denied to some pages opened from file://.
    return null;
  }
}

function current(): Theme {
  return printing.matches ? "light" : (chosen() ?? (prefersDark.matches ? "dark" : "light"));
}

/** The theme, and a function that switches it. Also sets the attribute that theme.css goes by. */
export function useTheme(): [Theme, () => void] {
  const [theme, setTheme] = useState<Theme>(current);
  document.documentElement.dataset.theme = theme;
  useEffect(() => {
    // At once: the browser prints what is drawn when the event returns.
    const follow = () => flushSync(() => setTheme(current()));
    for (const query of [prefersDark, printing]) {
      query.addEventListener("change", follow);
    }
    return () => {
      for (const query of [prefersDark, printing]) {
        query.removeEventListener("change", follow);
      }
    };
  }, []);
  const toggle = () => {
    const next = theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem(KEY, next);
    } catch {
      // The choice then lasts as long as the page.
    }
    setTheme(next);
  };
  return [theme, toggle];
}

/** The value of a custom property of theme.css, for canvases. */
export function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
