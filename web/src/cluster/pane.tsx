// One picture of one moment, and what the pointer does in it.

import { useEffect, useRef, useState } from "preact/hooks";
import { Tooltip, type TooltipAt, TooltipRows } from "../chart/tooltip";
import type { Theme } from "../theme/theme";
import type { Node } from "./layout";
import { readings } from "./panel";
import type { Player } from "./player";
import type { Sight } from "./scene/camera";
import { type Look, type Scales, Scene } from "./scene/scene";
import type { Grain } from "./wire";

export interface PaneProps {
  player: Player;
  look: Look;
  theme: Theme;
  /** null: everything. Shared by the panes. */
  sight: Sight | null;
  onSight: (sight: Sight | null) => void;
  /** The grain that the nearness asks for. */
  onGrain: (grain: Grain) => void;
  onSelect: (owners: string[], more: boolean) => void;
  onScales: (scales: Scales) => void;
  onReady: (scene: Scene) => void;
}

/** Below so many pixels a member is seen with its host, below the second with its rack. */
const MEMBER_PIXELS = 8;
const HOST_PIXELS = 2;

export function grainOf(pixels: number, now: Grain): Grain {
  // nearer than it was left, so that it doesn't flicker
  const member = MEMBER_PIXELS * (now === "member" ? 0.92 : 1.08);
  const host = HOST_PIXELS * (now === "rack" ? 1.08 : 0.92);
  return pixels >= member ? "member" : pixels >= host ? "host" : "rack";
}

export function Pane(props: PaneProps) {
  const { player, look, theme } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const scene = useRef<Scene | null>(null);
  const current = useRef(props);
  current.current = props;
  const [band, setBand] = useState<[number, number, number, number] | null>(null);
  const [tooltip, setTooltip] = useState<TooltipAt | null>(null);
  const [failure, setFailure] = useState<string | null>(null);

  useEffect(() => {
    let closed = false;
    let opened: Scene | null = null;
    let observer: ResizeObserver | null = null;
    const element = box.current;
    if (!canvas.current || !element) {
      return;
    }
    Scene.open(canvas.current, current.current.look).then(
      (made) => {
        if (closed) {
          made.close();
          return;
        }
        opened = made;
        scene.current = made;
        made.onScales = (scales) => current.current.onScales(scales);
        made.onSight = () => {
          const grain = grainOf(made.cellPixels, current.current.look.grain);
          if (grain !== current.current.look.grain && made.layout.nodes.length > 0) {
            current.current.onGrain(grain);
          }
        };
        const { clientWidth, clientHeight } = element;
        made.resize(clientWidth, clientHeight);
        observer = new ResizeObserver(() => made.resize(element.clientWidth, element.clientHeight));
        observer.observe(element);
        if (current.current.sight) {
          made.camera.set(current.current.sight);
        }
        current.current.onReady(made);
        // for tests: a canvas has no elements to point at
        Object.assign(element, { where: made.where.bind(made), nodes: () => made.layout.nodes.length });
      },
      (error) => setFailure(error instanceof Error ? error.message : String(error)),
    );
    return () => {
      closed = true;
      observer?.disconnect();
      scene.current = null;
      opened?.close();
    };
  }, [player]);

  useEffect(() => scene.current?.show(look), [look]);
  useEffect(() => scene.current?.paint(), [theme]);
  useEffect(() => {
    const made = scene.current;
    const { sight } = props;
    if (made && (sight ? !same(made.camera, sight) || made.camera.fitted : !made.camera.fitted)) {
      if (sight) {
        made.camera.set(sight);
      } else {
        made.camera.fit();
      }
      made.sighted();
    }
  }, [props.sight]);

  useEffect(() => {
    const element = canvas.current;
    if (!element) {
      return;
    }
    const pointers = new Map<number, [number, number]>();
    let moved = 0;
    let start: [number, number] = [0, 0];
    let banding = false;
    const at = (event: MouseEvent): [number, number] => {
      const bounds = element.getBoundingClientRect();
      return [event.clientX - bounds.left, event.clientY - bounds.top];
    };
    const sighted = () => {
      const camera = scene.current?.camera;
      if (camera) {
        scene.current?.sighted();
        current.current.onSight(camera.fitted ? null : { x: camera.x, y: camera.y, scale: camera.scale });
      }
    };
    const down = (event: PointerEvent) => {
      element.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, at(event));
      if (pointers.size === 1) {
        start = at(event);
        moved = 0;
        banding = event.shiftKey;
      }
      setTooltip(null);
    };
    const move = (event: PointerEvent) => {
      const made = scene.current;
      if (!made) {
        return;
      }
      const [x, y] = at(event);
      const before = pointers.get(event.pointerId);
      if (!before) {
        const node = made.nodeAt(x, y);
        made.hover(node?.owner ?? null);
        element.style.cursor = node ? "pointer" : "grab";
        setTooltip(
          node ? { x: event.clientX, y: event.clientY, content: about(node, current.current.player) } : null,
        );
        return;
      }
      moved += Math.abs(x - before[0]) + Math.abs(y - before[1]);
      if (pointers.size === 2) {
        const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1] ?? before;
        const apart = (p: [number, number]) => Math.hypot(p[0] - other[0], p[1] - other[1]);
        made.camera.zoom(apart([x, y]) / Math.max(1, apart(before)), (x + other[0]) / 2, (y + other[1]) / 2);
        sighted();
      } else if (banding) {
        setBand([
          Math.min(start[0], x),
          Math.min(start[1], y),
          Math.abs(x - start[0]),
          Math.abs(y - start[1]),
        ]);
      } else if (moved > 4) {
        made.camera.pan(x - before[0], y - before[1]);
        sighted();
      }
      pointers.set(event.pointerId, [x, y]);
    };
    const up = (event: PointerEvent) => {
      const made = scene.current;
      const [x, y] = at(event);
      if (made && pointers.has(event.pointerId) && pointers.size === 1) {
        const more = event.ctrlKey || event.metaKey || event.shiftKey;
        if (banding && moved > 4) {
          const owners = made.nodesWithin(start[0], start[1], x, y).map((node) => node.owner);
          current.current.onSelect(owners, event.ctrlKey || event.metaKey);
        } else if (moved <= 4) {
          const node = made.nodeAt(x, y);
          current.current.onSelect(node ? [node.owner] : [], more);
        }
      }
      pointers.delete(event.pointerId);
      setBand(null);
    };
    const leave = () => {
      scene.current?.hover(null);
      setTooltip(null);
    };
    const wheel = (event: WheelEvent) => {
      event.preventDefault();
      const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
      // a pinch on a touchpad comes as a wheel with Ctrl, in finer steps
      const factor = Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.0016));
      scene.current?.camera.zoom(factor, ...at(event));
      setTooltip(null);
      sighted();
    };
    const twice = (event: MouseEvent) => {
      scene.current?.camera.zoom(2.5, ...at(event));
      sighted();
    };
    element.addEventListener("pointerdown", down);
    element.addEventListener("pointermove", move);
    element.addEventListener("pointerup", up);
    element.addEventListener("pointercancel", up);
    element.addEventListener("pointerleave", leave);
    element.addEventListener("wheel", wheel, { passive: false });
    element.addEventListener("dblclick", twice);
    return () => {
      element.removeEventListener("pointerdown", down);
      element.removeEventListener("pointermove", move);
      element.removeEventListener("pointerup", up);
      element.removeEventListener("pointercancel", up);
      element.removeEventListener("pointerleave", leave);
      element.removeEventListener("wheel", wheel);
      element.removeEventListener("dblclick", twice);
    };
  }, []);

  return (
    <div class="pane" ref={box}>
      {/* The side panel lists the same in words. */}
      <canvas ref={canvas} aria-label="The cluster's members, by role, rack and host" role="img" />
      {band && (
        <div
          class="rubber-band"
          style={{ left: `${band[0]}px`, top: `${band[1]}px`, width: `${band[2]}px`, height: `${band[3]}px` }}
        />
      )}
      {failure && <p class="pane-note">The picture can't be drawn: {failure}. It needs WebGL 2.</p>}
      <Tooltip at={tooltip} />
    </div>
  );
}

const same = (camera: Sight, sight: Sight): boolean =>
  Math.abs(camera.x - sight.x) < 0.6 &&
  Math.abs(camera.y - sight.y) < 0.6 &&
  Math.abs(camera.scale / sight.scale - 1) < 0.001;

function about(node: Node, player: Player) {
  const owner = player.samples.find(node.owner);
  const one = node.members.length === 1 ? node.members[0] : null;
  const where = one ? [one.rack, one.host].filter((part) => part && part !== node.label).join(" / ") : "";
  const title = [node.label, where, node.state === "up" ? "" : node.state].filter(Boolean).join(" · ");
  const rows: [string, string][] = one?.detail ? [["", one.detail]] : [];
  if (node.members.length > 1) {
    rows.push(["members", String(node.members.length)]);
  }
  if (owner >= 0) {
    rows.push(...readings(player.samples, owner).map(([name, value]): [string, string] => [name, value]));
  }
  return <TooltipRows title={title} rows={rows} />;
}
