// Text in which nothing acts on who shows it, as `iotrail.visible` in Python: names of files, programs and requests are
// data. A browser obeys changes of direction in them and hides what has no width; both are shown as \u202e.
//
// Preact passes every text and attribute through here; only what is drawn or set without it must ask.

import { options } from "preact";

// C0 and C1 (ISO/IEC 6429), line and paragraph separators, directions (Unicode annex 9), what has no width, and halves of
// what UTF-16 has in two.
const OBEYED =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  /[\0-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb]/gu;
const LETTERS: Record<string, string> = { "\t": "\\t", "\r": "\\r" };

/** The text with what a browser would obey or hide shown as `\x1b`; line ends stay. */
export function visible(text: string): string {
  return text.replace(OBEYED, (found) => {
    const code = found.charCodeAt(0);
    const [kind, digits] = code < 256 ? ["x", 2] : ["u", 4];
    return LETTERS[found] ?? `\\${kind}${code.toString(16).padStart(digits, "0")}`;
  });
}

/** As `visible`, line ends too: for a name within a line. */
export function oneLine(text: string): string {
  return visible(text).replaceAll("\n", "\\n");
}

/** Attributes that people read or hear. */
const READ = ["title", "aria-label", "placeholder"] as const;

/** From now on all that Preact draws is visible: texts and the attributes that are read. Values stay as they are. */
export function showAll(): void {
  const before = options.vnode;
  options.vnode = (vnode) => {
    // Preact makes a vnode without a type of each text; its type doesn't say so
    const { type, props } = vnode as unknown as { type: unknown; props: string | Record<string, unknown> };
    if (type === null && typeof props === "string") {
      (vnode as unknown as { props: string }).props = oneLine(props);
    } else if (typeof type === "string" && typeof props === "object") {
      for (const name of READ) {
        const value = props[name];
        if (typeof value === "string") {
          props[name] = oneLine(value);
        }
      }
    }
    before?.(vnode);
  };
}
