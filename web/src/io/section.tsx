// A titled part of the page.

import type { ComponentChildren } from "preact";

interface Props {
  id: string;
  title: string;
  /** One line on what is shown. */
  note?: ComponentChildren;
  /** Controls at the right of the title. */
  tools?: ComponentChildren;
  children: ComponentChildren;
}

export function Section({ id, title, note, tools, children }: Props) {
  return (
    <section id={id} aria-labelledby={`${id}-title`}>
      <div class="section-head">
        <div>
          <h2 id={`${id}-title`} tabIndex={-1}>
            {title}
          </h2>
          {note && <p class="section-note">{note}</p>}
        </div>
        {tools && <div class="section-tools">{tools}</div>}
      </div>
      {children}
    </section>
  );
}

/** Buttons of which one is pressed. */
export function Choices<T extends string>(props: {
  label: string;
  options: [T, string][];
  value: T;
  onChange: (value: T) => void;
}) {
  return (
    <div class="choices" role="group" aria-label={props.label}>
      {props.options.map(([value, text]) => (
        <button
          type="button"
          key={value}
          aria-pressed={props.value === value}
          onClick={() => props.onChange(value)}
        >
          {text}
        </button>
      ))}
    </div>
  );
}
