// What each page has at its top: the name with its mark, and the switch between light and dark.

import type { Theme } from "./theme";

export function Brand() {
  return (
    <span class="brand">
      <svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true">
        <path
          d="M3 17h3l2.5-9 3.5 12 3-15 2.5 12H21"
          fill="none"
          stroke="currentColor"
          stroke-width="2.2"
          stroke-linecap="round"
          stroke-linejoin="round"
        />
      </svg>
      iotrail
    </span>
  );
}

export function ThemeButton({
  theme,
  onToggle,
  class: classes,
}: {
  theme: Theme;
  onToggle: () => void;
  class: string;
}) {
  return (
    <button
      type="button"
      class={classes}
      onClick={onToggle}
      aria-label={`Switch to the ${theme === "dark" ? "light" : "dark"} theme`}
    >
      {theme === "dark" ? "Light" : "Dark"}
    </button>
  );
}
