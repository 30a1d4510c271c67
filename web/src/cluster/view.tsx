// The cluster: legend, picture (or two), side panel, time.

import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { View } from "../app/address";
import type { Theme } from "../theme/theme";
import { LegendPanel } from "./legend";
import type { StreamState } from "./live";
import { COLOURINGS, needed } from "./measures";
import { ownerOf, type Placed } from "./membership";
import { NoticeList, useNotices } from "./notice-list";
import type { Notice } from "./notices";
import { Pane } from "./pane";
import { Panel } from "./panel";
import { Player, SPEEDS } from "./player";
import type { Look, Scales, Scene } from "./scene/scene";
import { clock, day, Timeline } from "./timeline";
import type { Grain, Info } from "./wire";
import "./cluster.css";

export interface ClusterProps {
  info: Info;
  view: View;
  change: (part: Partial<View>) => void;
  theme: Theme;
  onStream: (state: StreamState) => void;
}

/** Numbers beside the picture change so often at most. */
const PANEL_MS = 500;
const STEP_MS = 1_000;

/** A player with what the view needs of it, drawn into a scene. */
function usePlayer(info: Info, stream: boolean, moment: number | null, wanted: boolean) {
  const [player, setPlayer] = useState<Player | null>(null);
  const [tick, setTick] = useState(0);
  const [members, setMembers] = useState<Placed[]>([]);
  const [ready, setReady] = useState(false);
  const scene = useRef<Scene | null>(null);
  const feed = useRef<() => void>(() => {});

  useEffect(() => {
    if (!wanted) {
      return;
    }
    const url = new URL("live", location.href);
    url.protocol = url.protocol.replace("http", "ws");
    const made = new Player({ stream: stream ? url.href : null, trail: info.trail !== null });
    let key = "";
    let at = 0;
    let timer = 0;
    const panel = () => {
      timer = 0;
      at = performance.now();
      setTick((n) => n + 1);
    };
    feed.current = () => {
      const now = made.membership.key(made.moment);
      if (now !== key) {
        key = now;
        const found = made.membership.at(made.moment);
        setMembers(found);
        scene.current?.place(found, made.moment);
      }
      scene.current?.value(made.samples, made.moment);
      if (timer === 0) {
        timer = window.setTimeout(panel, Math.max(0, PANEL_MS - (performance.now() - at)));
      }
    };
    made.onSamples = () => feed.current();
    made.onChange = () => {
      if (timer === 0) {
        timer = window.setTimeout(panel, Math.max(0, 100 - (performance.now() - at)));
      }
    };
    setPlayer(made);
    void made.open(moment).then(() => setReady(true));
    let last = 0;
    let frame = 0;
    const step = (now: number) => {
      frame = requestAnimationFrame(step);
      const elapsed = last > 0 ? Math.min(250, now - last) : 0;
      last = now;
      const before = performance.now();
      made.advance(elapsed);
      if (scene.current) {
        scene.current.spent(performance.now() - before);
        scene.current.moving = made.playing || made.following;
      }
    };
    frame = requestAnimationFrame(step);
    return () => {
      cancelAnimationFrame(frame);
      clearTimeout(timer);
      made.close();
      setPlayer(null);
    };
  }, [info, stream, wanted]);

  const attach = useCallback((made: Scene) => {
    scene.current = made;
    setMembers((found) => {
      made.place(found, Date.now());
      return found;
    });
    feed.current();
  }, []);
  return { player, ready, tick, members, scene, attach };
}

export function ClusterView({ info, view, change, theme, onStream }: ClusterProps) {
  const here = usePlayer(info, info.live, view.moment, true);
  const there = usePlayer(info, false, view.than, view.than !== null);
  const [near, setNear] = useState<Grain>("member");
  const [scales, setScales] = useState<Scales>({ colour: 1, traffic: 1 });
  const grain = view.grain ?? near;
  const colouring = COLOURINGS.find((one) => one.id === view.colouring) ?? COLOURINGS[0];
  const look: Look = useMemo(
    () => ({ colouring, off: view.off, grain, selected: view.selected, search: view.search }),
    [colouring, view.off, grain, view.selected, view.search],
  );
  const { player, members } = here;
  const notices = useNotices(info, player, here.tick);
  const [listed, setListed] = useState(false);
  // to be looked at once the picture has it
  const [target, setTarget] = useState<string | null>(null);
  const latest = useRef(view);
  latest.current = view;

  useEffect(() => {
    for (const each of [player, there.player]) {
      each?.look(grain, needed(colouring, view.off));
    }
  }, [player, there.player, grain, colouring, view.off]);
  useEffect(() => player?.setSpeed(view.speed), [player, view.speed]);
  useEffect(() => player?.play(view.playing), [player, view.playing]);

  // What the address says (a link, a step back in history) holds if it isn't what the player just said.
  const said = useRef<number | null>(view.moment);
  useEffect(() => {
    if (player && view.moment !== said.current) {
      said.current = view.moment;
      if (view.moment === null) {
        player.follow();
      } else {
        player.seek(view.moment);
      }
    }
  }, [player, view.moment]);
  useEffect(() => {
    if (there.player && view.than !== null) {
      there.player.seek(view.than);
    }
  }, [there.player, view.than]);

  useEffect(() => {
    if (!player) {
      return;
    }
    onStream(player.state);
    const moment = player.following ? null : player.moment;
    if (player.end > 0 && moment !== said.current) {
      said.current = moment;
      change({ moment });
    }
    if (player.playing !== latest.current.playing && player.moment >= player.end) {
      change({ playing: player.playing });
    }
  }, [player, here.tick]);

  const select = useCallback(
    (owners: string[], more: boolean) => {
      const { selected } = latest.current;
      const next = new Set(more ? selected : []);
      for (const owner of owners) {
        if (more && owners.length === 1 && selected.has(owner)) {
          next.delete(owner);
        } else {
          next.add(owner);
        }
      }
      change({ selected: next });
    },
    [change],
  );
  const go = useCallback(
    (owner: string) => {
      const { scene } = here;
      scene.current?.lookAt(owner);
      const camera = scene.current?.camera;
      change({
        selected: new Set([owner]),
        sight: camera && !camera.fitted ? { x: camera.x, y: camera.y, scale: camera.scale } : null,
      });
    },
    [change],
  );
  const goTo = (notice: Notice) => {
    change({ selected: new Set([notice.member]), grain: "member" });
    setTarget(notice.member);
    if (player && info.trail !== null) {
      play(false);
      seek(notice.since_ms);
    }
  };
  useEffect(() => {
    if (target !== null && grain === "member" && here.scene.current?.sees(target) !== undefined) {
      setTarget(null);
      go(target);
    }
  }, [target, grain, here.tick]);
  const found = useMemo(() => {
    const wanted = view.search.toLowerCase();
    return wanted === ""
      ? null
      : [...new Set(members.map((member) => ownerOf(member, grain)))].filter((owner) =>
          owner.toLowerCase().includes(wanted),
        );
  }, [members, grain, view.search]);
  const play = (playing: boolean) => {
    player?.play(playing);
    change({ playing });
  };
  const seek = (moment: number) => player?.seek(moment);
  const follow = () => {
    player?.follow();
    change({ playing: true });
  };

  useEffect(() => {
    const key = (event: KeyboardEvent) => {
      const { target } = event;
      if (
        target instanceof HTMLInputElement ||
        target instanceof HTMLSelectElement ||
        event.ctrlKey ||
        event.metaKey
      ) {
        return;
      }
      const now = latest.current;
      const camera = here.scene.current?.camera;
      const look_ = (act: () => void) => {
        if (camera) {
          act();
          here.scene.current?.sighted();
          change({ sight: camera.fitted ? null : { x: camera.x, y: camera.y, scale: camera.scale } });
        }
      };
      const step = (direction: number) => {
        if (player) {
          if (now.playing) {
            play(false);
          }
          seek(player.moment + direction * STEP_MS * (event.shiftKey ? 10 : 1));
        }
      };
      const faster = (by: number) =>
        change({ speed: SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, SPEEDS.indexOf(now.speed) + by))] });
      const keys: Record<string, () => void> = {
        " ": () => play(!now.playing),
        ArrowLeft: () => step(-1),
        ArrowRight: () => step(1),
        "[": () => faster(-1),
        "]": () => faster(1),
        "/": () => document.querySelector<HTMLInputElement>(".legend-panel input[type=search]")?.focus(),
        "+": () => look_(() => camera?.zoom(1.4)),
        "=": () => look_(() => camera?.zoom(1.4)),
        "-": () => look_(() => camera?.zoom(1 / 1.4)),
        "0": () => look_(() => camera?.fit()),
        l: () => info.live && follow(),
        n: () => setListed((shown) => !shown),
        c: () => change({ than: now.than === null ? (player?.moment ?? null) : null }),
        Escape: () => {
          setListed(false);
          change({ selected: new Set(), search: "" });
        },
      };
      const act = keys[event.key];
      if (act) {
        event.preventDefault();
        act();
      }
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  }, [player]);

  const paneOf = (one: typeof here, label: string | null) =>
    one.player && (
      <div class="pane-frame" key={one === here ? "here" : "there"}>
        {label && <span class="pane-label">{label}</span>}
        <Pane
          player={one.player}
          look={look}
          theme={theme}
          sight={view.sight}
          onSight={(sight) => change({ sight })}
          onGrain={one === here ? setNear : () => {}}
          onSelect={select}
          onScales={one === here ? setScales : () => {}}
          onReady={one.attach}
        />
        {one === here && (
          <NoticeList
            notices={notices}
            moment={here.player?.moment ?? 0}
            sees={(member) => grain === "member" && here.scene.current?.sees(member) === true}
            open={listed}
            onOpen={setListed}
            onGo={goTo}
          />
        )}
        {one.player.error && (
          <p class="pane-note" role="alert">
            {one.player.error.message}
            {one.player.error.hint && <small>{one.player.error.hint}</small>}
          </p>
        )}
        {one.ready && one.members.length === 0 && !one.player.error && (
          <p class="pane-note">
            {info.live
              ? "No member of the cluster has been seen yet."
              : "This trail has no members of a cluster."}
          </p>
        )}
      </div>
    );
  const moment = player?.moment ?? 0;
  return (
    <main class="cluster">
      <LegendPanel
        colouring={colouring}
        scales={scales}
        off={view.off}
        grain={grain}
        chosen={view.grain}
        search={view.search}
        found={found?.length ?? null}
        onColouring={(id) => change({ colouring: id })}
        onOff={(off) => change({ off })}
        onGrain={(one) => change({ grain: one })}
        onSearch={(search) => change({ search })}
        onFound={() => found && found.length > 0 && select(found, false)}
      />
      <div class={`panes ${view.than === null ? "" : "two"}`}>
        {paneOf(here, view.than === null ? null : `${day(moment)} ${clock(moment)}`)}
        {view.than !== null && paneOf(there, `${day(view.than)} ${clock(view.than)}`)}
      </div>
      {player && (
        <Panel
          player={player}
          tick={here.tick}
          members={members}
          grain={grain}
          colouring={colouring}
          selected={view.selected}
          theme={theme}
          trail={info.trail !== null}
          onSelect={select}
          onGo={go}
          onRequests={() => change({ view: "requests", request: null })}
        />
      )}
      {player && (
        <Timeline
          start={player.start}
          end={player.end}
          moment={player.moment}
          than={view.than}
          following={player.following}
          playing={player.playing}
          speed={view.speed}
          waiting={player.waiting}
          live={info.live}
          changes={player.membership.changes}
          onSeek={seek}
          onThan={(than) => change({ than })}
          onPlay={play}
          onSpeed={(speed) => change({ speed })}
          onFollow={follow}
        />
      )}
    </main>
  );
}
