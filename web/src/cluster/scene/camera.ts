// What part of the world is in sight. screen = world * scale + shift, in CSS pixels.

export interface Sight {
  /** World point in the middle, and scale. */
  x: number;
  y: number;
  scale: number;
}

const NEAREST = 4;

export class Camera {
  x = 0;
  y = 0;
  scale = 1;
  width = 1;
  height = 1;
  /** Whether it follows the layout, because nobody moved it. */
  fitted = true;
  /** Unknown until there is a layout: a link's sight must outlast that. */
  private world: { width: number; height: number } | null = null;

  view(width: number, height: number): void {
    this.width = Math.max(1, width);
    this.height = Math.max(1, height);
    if (this.fitted) {
      this.fit();
    }
  }

  over(width: number, height: number): void {
    this.world = { width: Math.max(1, width), height: Math.max(1, height) };
    if (this.fitted) {
      this.fit();
    } else {
      this.clamp();
    }
  }

  get farthest(): number {
    const margin = 20;
    const { width, height } = this.world ?? { width: 1, height: 1 };
    return Math.min((this.width - 2 * margin) / width, (this.height - 2 * margin) / height, 1.6);
  }

  fit(): void {
    this.fitted = true;
    this.scale = this.farthest;
    this.x = (this.world?.width ?? 0) / 2;
    this.y = (this.world?.height ?? 0) / 2;
  }

  set(sight: Sight): void {
    this.fitted = false;
    Object.assign(this, sight);
    this.clamp();
  }

  get shift(): [number, number] {
    return [this.width / 2 - this.x * this.scale, this.height / 2 - this.y * this.scale];
  }

  toWorld(x: number, y: number): [number, number] {
    const [dx, dy] = this.shift;
    return [(x - dx) / this.scale, (y - dy) / this.scale];
  }

  pan(dx: number, dy: number): void {
    this.fitted = false;
    this.x -= dx / this.scale;
    this.y -= dy / this.scale;
    this.clamp();
  }

  /** Nearer by a factor, around a point of the screen. */
  zoom(factor: number, x = this.width / 2, y = this.height / 2): void {
    const [wx, wy] = this.toWorld(x, y);
    const scale = Math.max(this.farthest * 0.8, Math.min(NEAREST, this.scale * factor));
    this.fitted = scale <= this.farthest * 1.001 && factor < 1;
    if (this.fitted) {
      this.fit();
      return;
    }
    this.scale = scale;
    this.x = wx - (x - this.width / 2) / scale;
    this.y = wy - (y - this.height / 2) / scale;
    this.clamp();
  }

  sees(x: number, y: number, width: number, height: number): boolean {
    const [dx, dy] = this.shift;
    const left = x * this.scale + dx;
    const top = y * this.scale + dy;
    return (
      left < this.width && top < this.height && left + width * this.scale > 0 && top + height * this.scale > 0
    );
  }

  private clamp(): void {
    if (this.world) {
      this.x = Math.max(0, Math.min(this.world.width, this.x));
      this.y = Math.max(0, Math.min(this.world.height, this.y));
    }
  }
}
