// Entry of the page of `iotrail serve`.

import { render } from "preact";
import "../theme/theme.css";
import "./app.css";
import { AskError, askInfo } from "../cluster/asker";
import { oneLine, showAll } from "../format/visible";
import { App } from "./app";

async function open(root: HTMLElement): Promise<void> {
  try {
    const info = await askInfo().answer;
    document.title = oneLine(`${(info.trail ?? info.collector ?? "").split("/").at(-1)} – iotrail`);
    root.innerHTML = "";
    render(<App info={info} />, root);
  } catch (error) {
    root.innerHTML = "";
    render(
      <main class="failure">
        <h1>No answer from the server</h1>
        <p>{error instanceof Error ? error.message : String(error)}</p>
        <p>{(error instanceof AskError && error.hint) || "Is iotrail serve still running? Then reload."}</p>
      </main>,
      root,
    );
  }
}

showAll();
const root = document.getElementById("page");
if (root) {
  void open(root);
}
