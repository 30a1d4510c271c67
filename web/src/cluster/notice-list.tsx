// Notices in a corner of the picture: how many, and a list that leads to each.

import { useEffect, useState } from "preact/hooks";
import { plural } from "../format/units";
import { holdsAt, type Notice } from "./notices";
import type { Player } from "./player";
import { clock } from "./timeline";
import type { Told } from "./watcher.worker";
import type { Info } from "./wire";

/** All that was noticed, newest first: of the stream, and of the minutes before the moment that the player shows. */
export function useNotices(info: Info, player: Player | null, tick: number): Notice[] {
  const [worker, setWorker] = useState<Worker | null>(null);
  const [notices, setNotices] = useState<Notice[]>([]);
  useEffect(() => {
    const made = new Worker(new URL("./watcher.worker.ts", import.meta.url), { type: "module" });
    const url = new URL("live", location.href);
    url.protocol = url.protocol.replace("http", "ws");
    made.onmessage = (event: MessageEvent<Notice[]>) => setNotices(event.data);
    const told: Told = { base: location.href, stream: info.live ? url.href : null };
    made.postMessage(told);
    setWorker(made);
    return () => made.terminate();
  }, [info]);
  useEffect(() => {
    if (worker && player && info.trail !== null && player.end > 0) {
      const { moment, following, start, end } = player;
      const told: Told = { moment, following, start, end };
      worker.postMessage(told);
    }
  }, [worker, player, tick]);
  return notices;
}

interface Props {
  notices: Notice[];
  moment: number;
  /** Whether a member is in sight: what one sees anyway is said less loudly. */
  sees: (member: string) => boolean;
  open: boolean;
  onOpen: (open: boolean) => void;
  onGo: (notice: Notice) => void;
}

export function NoticeList({ notices, moment, sees, open, onOpen, onGo }: Props) {
  const now = notices.filter((notice) => holdsAt(notice, moment));
  const unseen = now.filter((notice) => !sees(notice.member));
  const loud = unseen.some((notice) => notice.state) ? "failed" : unseen.length > 0 ? "unusual" : "";
  return (
    <section class="notices" aria-label="Notices">
      {open && (
        <ul class="notice-list">
          {notices.map((notice) => {
            const words = [
              notice.state ? "failed" : "unusual",
              holdsAt(notice, moment) ? "now" : "",
              sees(notice.member) ? "seen" : "",
            ];
            return (
              <li key={notice.id}>
                <button type="button" class={words.join(" ")} onClick={() => onGo(notice)}>
                  <i />
                  <time>{clock(notice.since_ms)}</time>
                  <b>{notice.member}</b>
                  <span>{notice.what}</span>
                  <small>
                    {notice.text}
                    {notice.until_ms !== null && ` · until ${clock(notice.until_ms)}`}
                  </small>
                </button>
              </li>
            );
          })}
          {notices.length === 0 && <li class="muted">Nothing unusual was noticed.</li>}
        </ul>
      )}
      <button
        type="button"
        class={`notice-count ${loud}`}
        aria-expanded={open}
        title="What is unusual, in sight or not (N)"
        onClick={() => onOpen(!open)}
      >
        <i />
        <span aria-live="polite">
          {now.length === 0 ? "No notices" : plural(now.length, "notice")}
          {unseen.length > 0 && `, ${unseen.length} out of sight`}
        </span>
      </button>
    </section>
  );
}
