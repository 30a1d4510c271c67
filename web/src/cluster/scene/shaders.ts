// GLSL ES 3.0 of the marks. Every mark is one instanced quad: a frame of the animation only sets uTime and the camera.
//
// Places are in the world's pixels; the camera is uScale and uShift. uDetail goes from 0, far away, where a
// node is a tile of its colour, to 1, near by, where it is a body with rings, pie and bars.

const HEAD = `#version 300 es
precision highp float;
uniform float uScale;
uniform vec2 uShift;
uniform vec2 uView;
uniform float uTime;
uniform float uDetail;
`;

const TO_SCREEN = `
vec4 toClip(vec2 screen) {
  return vec4(screen.x / uView.x * 2.0 - 1.0, 1.0 - screen.y / uView.y * 2.0, 0.0, 1.0);
}
`;

export const NODE_VERTEX = `${HEAD}
in vec2 aCorner;
in vec4 aPlace;   // x, y, half width, half height
in vec4 aForm;    // shape, radius near, middle near, middle far
in vec4 aFar;     // half width and height far, state, flags
in vec4 aLevel;   // load before, load now, space, busy
in vec4 aPie0;
in vec4 aPie1;    // slices 5 and 6, cache hits, moment of the last change
in vec4 aBars0;
in vec4 aBars1;
in vec4 aBars2;
uniform float uMix;
out vec2 vAt;
flat out vec4 vPlace;
flat out vec4 vForm;
flat out vec4 vFar;
flat out vec3 vLevel;
flat out vec4 vPie0;
flat out vec4 vPie1;
flat out vec4 vBars0;
flat out vec4 vBars1;
flat out vec4 vBars2;
${TO_SCREEN}
void main() {
  // room for the outline and the ring of a change
  vec2 at = aCorner * (aPlace.zw + 14.0);
  vAt = at;
  vPlace = aPlace;
  vForm = aForm;
  vFar = aFar;
  // less than 0 is unknown: nothing to go over from
  float load = aLevel.x < 0.0 || aLevel.y < 0.0 ? aLevel.y : mix(aLevel.x, aLevel.y, uMix);
  vLevel = vec3(load, aLevel.zw);
  vPie0 = aPie0;
  vPie1 = aPie1;
  vBars0 = aBars0;
  vBars1 = aBars1;
  vBars2 = aBars2;
  gl_Position = toClip((aPlace.xy + at) * uScale + uShift);
}`;

export const NODE_FRAGMENT = `${HEAD}
in vec2 vAt;
flat in vec4 vPlace;
flat in vec4 vForm;
flat in vec4 vFar;
flat in vec3 vLevel;
flat in vec4 vPie0;
flat in vec4 vPie1;
flat in vec4 vBars0;
flat in vec4 vBars1;
flat in vec4 vBars2;
uniform vec3 uRamp[6];
uniform vec3 uSlices[6];
// panel, track, muted, space, busy, accent, high, medium, read, write, hits
uniform vec3 uInk[11];
// pie, space, busy, sizes, cache
uniform float uShow[5];
out vec4 color;

const float TAU = 6.2831853;

float box(vec2 p, vec2 b, float r) {
  vec2 q = abs(p) - b + r;
  return length(max(q, 0.0)) + min(max(q.x, q.y), 0.0) - r;
}
float hexagon(vec2 p, float r) {
  vec3 k = vec3(-0.866025404, 0.5, 0.577350269);
  p = abs(p.yx);
  p -= 2.0 * min(dot(k.xy, p), 0.0) * k.xy;
  p -= vec2(clamp(p.x, -k.z * r, k.z * r), r);
  return length(p) * sign(p.y);
}
vec3 ramp(float share) {
  float at = clamp(share, 0.0, 1.0) * 5.0;
  int low = min(int(at), 4);
  return mix(uRamp[low], uRamp[low + 1], at - float(low));
}
void over(vec3 rgb, float alpha) {
  color = vec4(rgb, 1.0) * alpha + color * (1.0 - alpha);
}
float clockwise(vec2 p) {
  return fract(atan(p.x, -p.y) / TAU + 1.0);
}
void ring(vec2 q, float radius, float share, vec3 ink, float aa, float visible) {
  if (share < 0.0 || visible <= 0.0) {
    return;
  }
  float there = smoothstep(1.3 + aa, 1.3 - aa, abs(length(q) - radius)) * visible;
  float filled = step(clockwise(q), clamp(share, 0.0, 1.0));
  over(mix(uInk[1], ink, filled), there);
}

void main() {
  color = vec4(0.0);
  int shape = int(vForm.x);
  int state = int(vFar.z);
  int flags = int(vFar.w);
  float aa = 0.7 / uScale;
  // a group is a tile from near by too
  float near = shape == 4 ? 0.0 : uDetail;
  float r = vForm.y;
  vec2 q = vAt - vec2(0.0, mix(vForm.w, vForm.z, near));
  vec2 b = mix(vFar.xy, vec2(r), near);
  float far = min(b.x, b.y);
  float rounded = shape == 0 ? r : r * 0.34;
  float d = box(q, b, mix(far * 0.2, rounded, near));
  if (shape == 1) {
    d = mix(d, hexagon(q, r * 0.94) - 2.0, near);
  } else if (shape == 3) {
    d = mix(d, (abs(q.x) + abs(q.y) - r) * 0.707, near);
  }
  float dim = (flags & 4) != 0 ? 0.22 : 1.0;
  if ((flags & 1) != 0) {
    over(uInk[5], smoothstep(aa, -aa, box(vAt, vPlace.zw - 1.0, 8.0)) * 0.12);
  }

  // what it changed to a moment ago: a ring that grows
  float since = uTime - vPie1.w;
  if (since >= 0.0 && since < 3.0) {
    vec3 ink = state >= 2 ? uInk[6] : uInk[5];
    float grown = d - mod(since, 1.0) * 12.0;
    over(ink, smoothstep(1.6 + aa, 1.6 - aa, abs(grown)) * (1.0 - mod(since, 1.0)));
  }

  float inside = smoothstep(aa, -aa, d);
  float load = vLevel.x;
  vec3 fill = load < 0.0 ? uInk[1] : ramp(load);
  if (state == 1) {
    fill = mix(uInk[0], uInk[1], 0.6);
  } else if (state >= 2) {
    float stripe = step(0.5, fract((vAt.x + vAt.y) * uScale / 7.0));
    fill = mix(uInk[0], state == 2 ? uInk[7] : uInk[6], 0.16 + 0.16 * stripe);
  }
  over(fill, inside * (state == 4 ? 0.35 : 1.0) * dim);
  float stroke = state == 0 ? 0.6 / uScale : 1.5 / uScale;
  vec3 edge = state == 0 || state == 4 ? mix(fill, uInk[2], 0.45) : state == 1 ? uInk[2] : state == 2 ? uInk[7] : uInk[6];
  over(edge, smoothstep(stroke + aa, stroke - aa, abs(d + stroke)) * dim);
  if (state == 3) {
    float span = far * 0.42;
    float cross_ = min(abs(q.x - q.y), abs(q.x + q.y)) * 0.707 - max(1.2, 1.2 / uScale);
    if (max(abs(q.x), abs(q.y)) < span) {
      over(uInk[6], smoothstep(aa, -aa, cross_));
    }
  }

  if (shape == 1 && uShow[0] > 0.0 && vPie0.x >= 0.0 && state == 0) {
    float radius = mix(far * 0.66, r * 0.62, near);
    float e = length(q) - radius;
    over(uInk[0], smoothstep(aa, -aa, e - 1.8) * dim);
    float at = clockwise(q);
    float upto[6] = float[6](vPie0.x, vPie0.y, vPie0.z, vPie0.w, vPie1.x, vPie1.y);
    vec3 ink = uSlices[5];
    float sum = 0.0;
    for (int i = 0; i < 6; i++) {
      if (at >= sum) {
        ink = uSlices[i];
      }
      sum += upto[i];
    }
    over(ink, smoothstep(aa, -aa, e) * dim);
  }

  float rings = smoothstep(0.25, 0.75, near) * dim;
  if (shape == 0 && rings > 0.0) {
    ring(q, r + 4.5, vLevel.z, uInk[4], aa, rings * uShow[2]);
    ring(q, r + 9.0, vLevel.y, uInk[3], aa, rings * uShow[1]);
  } else if (shape == 2 && rings > 0.0) {
    ring(q, r * 0.52, vPie1.z, uInk[10], aa, rings * uShow[4] * step(0.0, vPie1.z));
  }

  if (shape == 0 && uShow[3] > 0.0 && rings > 0.0 && vBars0.x >= 0.0) {
    vec2 h = vAt - vec2(0.0, vForm.z + 72.0);
    float x = (h.x + 33.0) / 11.0;
    if (x >= 0.0 && x < 6.0 && abs(h.y) < 12.0) {
      int i = int(x);
      float bars[12] = float[12](vBars0.x, vBars0.y, vBars0.z, vBars0.w, vBars1.x, vBars1.y, vBars1.z, vBars1.w,
        vBars2.x, vBars2.y, vBars2.z, vBars2.w);
      float height = 11.0 * (h.y < 0.0 ? bars[i] : bars[i + 6]);
      float within = abs(fract(x) - 0.5) * 11.0 - 4.2;
      over(h.y < 0.0 ? uInk[8] : uInk[9],
        smoothstep(aa, -aa, within) * smoothstep(aa, -aa, abs(h.y) - height) * rings);
      over(uInk[2], smoothstep(aa, -aa, abs(h.y) - 0.4) * 0.7 * rings);
    }
  }

  if ((flags & 3) != 0) {
    float cell = box(vAt, vPlace.zw - 1.0, 8.0);
    float wide = ((flags & 1) != 0 ? 1.8 : 1.0) / min(uScale, 1.2);
    over(uInk[5], smoothstep(wide + aa, wide - aa, abs(cell)));
  }
}`;

export const BOX_VERTEX = `${HEAD}
in vec2 aCorner;
in vec4 aRect;    // x, y, width, height
in vec4 aFill;
in vec4 aStroke;
in float aRound;
out vec2 vAt;
flat out vec2 vHalf;
flat out vec4 vFill;
flat out vec4 vStroke;
flat out float vRound;
${TO_SCREEN}
void main() {
  vHalf = aRect.zw / 2.0;
  vAt = aCorner * (vHalf + 2.0 / uScale);
  vFill = aFill;
  vStroke = aStroke;
  vRound = aRound;
  gl_Position = toClip((aRect.xy + vHalf + vAt) * uScale + uShift);
}`;

export const BOX_FRAGMENT = `${HEAD}
in vec2 vAt;
flat in vec2 vHalf;
flat in vec4 vFill;
flat in vec4 vStroke;
flat in float vRound;
out vec4 color;
void main() {
  vec2 q = abs(vAt) - vHalf + vRound;
  float d = length(max(q, 0.0)) + min(max(q.x, q.y), 0.0) - vRound;
  float aa = 0.7 / uScale;
  float fill = smoothstep(aa, -aa, d) * vFill.a;
  float stroke = smoothstep(0.5 / uScale + aa, 0.5 / uScale - aa, abs(d)) * vStroke.a;
  color = vec4(vFill.rgb, 1.0) * fill;
  color = vec4(vStroke.rgb, 1.0) * stroke + color * (1.0 - stroke);
}`;

export const DOT_VERTEX = `${HEAD}
in vec2 aCorner;
in vec4 aLane;    // x, start and end near, start far
in vec4 aMove;    // end far, place at time 0, ways a second, kind
uniform vec2 uShowLane;
uniform float uSinceDots;
out vec2 vAt;
flat out float vAlpha;
flat out int vKind;
flat out float vDown;
${TO_SCREEN}
void main() {
  float along = fract(aMove.y + aMove.z * uSinceDots);
  float start = mix(aLane.w, aLane.y, uDetail);
  float end = mix(aMove.x, aLane.z, uDetail);
  vec2 at = vec2(aLane.x, mix(start, end, along)) * uScale + uShift;
  // never less than what can be seen, never more than a lane holds
  float size = clamp(5.0 * uScale, 1.6, 7.5);
  vKind = int(aMove.w);
  vDown = sign(end - start);
  vAlpha = smoothstep(0.0, 0.12, along) * smoothstep(1.0, 0.88, along) * (vKind < 2 ? uShowLane.x : uShowLane.y);
  vAt = aCorner;
  gl_Position = vAlpha > 0.0 ? toClip(at + aCorner * size) : vec4(2.0, 2.0, 2.0, 1.0);
}`;

export const DOT_FRAGMENT = `${HEAD}
in vec2 vAt;
flat in float vAlpha;
flat in int vKind;
flat in float vDown;
// received, sent, replica received, replica sent
uniform vec3 uTraffic[4];
out vec4 color;
void main() {
  // a triangle that points where it goes
  float y = vAt.y * vDown;
  float d = max(abs(vAt.x) * 1.5 + y * 0.75 - 0.72, -y - 0.85);
  float alpha = smoothstep(0.12, -0.12, d) * vAlpha;
  color = vec4(uTraffic[vKind], 1.0) * alpha;
}`;

export const TEXT_VERTEX = `${HEAD}
in vec2 aCorner;
in vec4 aAt;      // anchor in the world; offset in the screen's pixels
in vec4 aGlyph;   // left, top, width, height in the atlas
in float aInk;
uniform float uRatio;
uniform vec2 uAtlasSize;
out vec2 vUv;
flat out int vInk;
${TO_SCREEN}
void main() {
  vec2 anchor = floor((aAt.xy * uScale + uShift) * uRatio + 0.5) / uRatio;
  vec2 corner = aCorner * 0.5 + 0.5;
  vInk = int(aInk);
  vUv = (aGlyph.xy + corner * aGlyph.zw) / uAtlasSize;
  gl_Position = toClip(anchor + aAt.zw + corner * aGlyph.zw / uRatio);
}`;

export const TEXT_FRAGMENT = `${HEAD}
in vec2 vUv;
flat in int vInk;
uniform sampler2D uAtlas;
// text, muted, and what is read on dark and light tiles
uniform vec3 uTextInk[4];
out vec4 color;
void main() {
  color = vec4(uTextInk[vInk], 1.0) * texture(uAtlas, vUv).a;
}`;
