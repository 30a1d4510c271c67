// Keys and gestures.

const KEYS: [string, string][] = [
  ["Space", "play or pause"],
  ["← →", "a second back or on; with Shift ten"],
  ["[ ]", "slower, faster"],
  ["L", "follow the live stream"],
  ["/", "search; Enter selects what was found"],
  ["+ − 0", "nearer, farther, everything"],
  ["N", "what was noticed"],
  ["C", "another moment beside this one"],
  ["Esc", "select nothing"],
  ["1 – 5", "views"],
  ["?", "this"],
];
const POINTER: [string, string][] = [
  ["Click", "select; with Ctrl or Shift more"],
  ["Shift and drag", "select what is within"],
  ["Drag, wheel, pinch", "move and come nearer"],
  ["Double click", "go there"],
];

export function Help({ close }: { close: () => void }) {
  const open = (dialog: HTMLDialogElement | null) => {
    if (dialog && !dialog.open) {
      dialog.showModal();
    }
  };
  return (
    <dialog class="help" aria-label="Keys" ref={open} onClose={close} {...{ closedby: "any" }}>
      {[KEYS, POINTER].map((rows) => (
        <dl key={rows[0][0]}>
          {rows.map(([key, meaning]) => (
            <div key={key}>
              <dt>
                <kbd>{key}</kbd>
              </dt>
              <dd>{meaning}</dd>
            </div>
          ))}
        </dl>
      ))}
    </dialog>
  );
}
