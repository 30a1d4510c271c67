// The page of `iotrail anomalies` as a view: the server makes it, without scripts, and it asks again until it is there. Its links
// lead to the I/O view of one measurement.

import "./view.css";

export function AnomaliesView() {
  return <iframe class="anomalies" title="Anomalies" src="anomalies" />;
}
