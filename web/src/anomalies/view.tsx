// The page of `iotrail anomalies` as a view: the server makes it, without scripts, and it asks again until it is there. Its links
// lead to the I/O view of one measurement.

import { useEffect, useRef } from "preact/hooks";
import type { Theme } from "../theme/theme";
import "./view.css";

export function AnomaliesView({ theme }: { theme: Theme }) {
  const frame = useRef<HTMLIFrameElement>(null);
  // The page by itself follows the system; here it is as the views around it.
  const paint = () => {
    const page = frame.current?.contentDocument?.documentElement;
    if (page) {
      page.style.colorScheme = theme;
    }
  };
  useEffect(paint, [theme]);
  return <iframe ref={frame} class="anomalies" title="Anomalies" src="anomalies" onLoad={paint} />;
}
