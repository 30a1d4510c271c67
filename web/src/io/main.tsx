// Entry of the report: the I/O view over the data inlined in the page.

import { render } from "preact";
import { useCallback, useEffect, useState } from "preact/hooks";
import "../theme/theme.css";
import { oneLine, showAll } from "../format/visible";
import { Brand, ThemeButton } from "../theme/brand";
import { useTheme } from "../theme/theme";
import { InlinedSource, type IoData, type IoSource } from "./data";
import { IoPage } from "./page";

async function open(source: IoSource, root: HTMLElement): Promise<void> {
  let data: IoData;
  try {
    data = await source.load();
  } catch (error) {
    root.innerHTML = "";
    render(<Failure error={error} />, root);
    return;
  }
  root.innerHTML = "";
  document.title = oneLine(`${data.trail.name} – iotrail report`);
  render(<Report data={data} />, root);
}

function Report({ data }: { data: IoData }) {
  const [theme, toggleTheme] = useTheme();
  const [words, setWords] = useState(() => location.hash.slice(1));
  useEffect(() => {
    const follow = () => setWords(location.hash.slice(1));
    window.addEventListener("hashchange", follow);
    return () => window.removeEventListener("hashchange", follow);
  }, []);
  const onWords = useCallback((now: string) => {
    // Replaced, not pushed: a brush is hundreds of states, and Back should leave the report.
    history.replaceState(null, "", now ? `#${now}` : location.pathname + location.search);
    setWords(now);
  }, []);
  return (
    <IoPage data={data} theme={theme} words={words} onWords={onWords}>
      <div class="brand-row">
        <Brand />
        <span class="trail-name mono" title={data.trail.path}>
          {data.trail.path}
        </span>
        <button type="button" class="button no-print" onClick={() => window.print()}>
          Print
        </button>
        <ThemeButton theme={theme} onToggle={toggleTheme} class="button no-print" />
      </div>
    </IoPage>
  );
}

function Failure({ error }: { error: unknown }) {
  return (
    <div class="io">
      <main class="failure">
        <h1>This report can't be read</h1>
        <p>{error instanceof Error ? error.message : String(error)}</p>
        <p>
          The file is cut short or was changed. Write it again: <code>iotrail report X.trail</code>
        </p>
      </main>
    </div>
  );
}

const root = document.getElementById("page");
showAll();
const inlined = document.getElementById("iotrail-data");
if (root && inlined) {
  void open(new InlinedSource(inlined), root);
}
