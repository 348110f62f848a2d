// The map page: draws the points of a map, and fetches the chunks at them.

import { fetchPart } from './page.js';

const POLL_MS = 1000;
/** How near to a point the pointer must be, and how long it must rest, to request the point. */
const NEAR_PX = 12;
const REST_MS = 80;
/** Maximum number of points that are listed at once: those nearest to the middle. */
const LISTED = 100;
const COLUMNS = 5;

const state = document.getElementById('state');
const drawing = document.querySelector('.drawing');
const canvas = document.getElementById('canvas');
const picked = document.getElementById('picked');
const hidden = new Set(); // groups
const places = new Map(); // HTML by the number of a point
let points = new Uint16Array();
let colours = [];
let view = { x: 0, y: 0, scale: 1 };
let hasMoved = false;
let frame = 0;
let loaded = null;
let image = null; // what is drawn, kept so that each frame does not allocate it again

/** Show the progress of the map, and reload the page when it is ready. */
async function follow() {
  while (state.querySelector('[data-busy]')) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    state.innerHTML = await fetchPart(state.dataset.url);
    if (!state.querySelector('[data-busy]')) location.reload();
  }
}

/** Return the CSS colour of each group; neighbours in the table differ most. */
function palette(count) {
  const isDark = matchMedia('(prefers-color-scheme: dark)').matches;
  const pen = document.createElement('canvas').getContext('2d');
  return Array.from({ length: count }, (_, at) => {
    pen.fillStyle = `hsl(${(at * 137.5 + 215) % 360} ${at < 12 ? 70 : 45}% ${isDark ? 62 : 42}%)`;
    return pen.fillStyle;
  });
}

function paint() {
  const groups = [...document.querySelectorAll('[data-swatch]')];
  const css = palette(groups.length);
  groups.forEach((one, at) => { one.style.background = css[at]; });
  colours = css.map((one) => {
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(one.slice(at, at + 2), 16));
    return (255 << 24) | (blue << 16) | (green << 8) | red;
  });
}

function fit() {
  const { clientWidth: width, clientHeight: height } = canvas;
  const scale = (Math.min(width, height) - 24) / 65535;
  view = { scale, x: (width - 65535 * scale) / 2, y: (height - 65535 * scale) / 2 };
}

/** Draw every point as a square of pixels: 100,000 circles would take longer than a frame. */
function draw() {
  frame = 0;
  const began = performance.now();
  const dots = devicePixelRatio || 1;
  const [width, height] = [Math.round(canvas.clientWidth * dots), Math.round(canvas.clientHeight * dots)];
  if (!width || !height) return;
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const context = canvas.getContext('2d');
  if (!points.length) return;
  const pixels = cleared(width, height);
  const column = Number(drawing.dataset.column);
  const count = points.length / COLUMNS;
  const spread = (view.scale * 65535) / Math.sqrt(count + 1); // mean pixels between points
  const size = Math.max(2, Math.min(7, Math.round(spread * 0.6))) * Math.ceil(dots);
  const [scale, left, top] = [view.scale * dots, view.x * dots - size / 2, view.y * dots - size / 2];
  const shown = colours.map((colour, group) => (hidden.has(group) ? 0 : colour));
  for (let at = 0; at < points.length; at += COLUMNS) {
    const colour = shown[points[at + column]];
    const x = Math.round(points[at] * scale + left);
    const y = Math.round(points[at + 1] * scale + top);
    if (!colour || x < 0 || y < 0 || x + size > width || y + size > height) continue;
    // Single assignments: a call of `fill` for each row takes several times as long.
    for (let row = y * width + x; row < (y + size) * width; row += width) {
      for (let pixel = row; pixel < row + size; pixel += 1) pixels[pixel] = colour;
    }
  }
  context.putImageData(image, 0, 0);
  canvas.dataset.points = count;
  canvas.dataset.ms = (performance.now() - began).toFixed(1);
}

/** Return the pixels of the image, all transparent. */
function cleared(width, height) {
  const isKept = image?.width === width && image.height === height;
  if (!isKept) image = new ImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  return isKept ? pixels.fill(0) : pixels;
}

function redraw() {
  frame ||= requestAnimationFrame(draw);
}

/** Return the numbers of the points near a place of the canvas, nearest first. */
function near(x, y, within, most) {
  const found = [];
  const column = Number(drawing.dataset.column);
  for (let at = 0; at < points.length; at += COLUMNS) {
    const far = Math.hypot(points[at] * view.scale + view.x - x, points[at + 1] * view.scale + view.y - y);
    if (far <= within && !hidden.has(points[at + column])) found.push({ point: at / COLUMNS, far });
  }
  return found.sort((one, other) => one.far - other.far).slice(0, most).map((one) => one.point);
}

function askFor(numbers) {
  const url = new URL(drawing.dataset.places, location);
  for (const one of numbers) url.searchParams.append('point', one);
  return fetchPart(url);
}

/** Describe a point, and return the URL of its code. */
async function tell(point) {
  if (!places.has(point)) places.set(point, await askFor([point]));
  picked.innerHTML = places.get(point);
  picked.dataset.point = point;
  return picked.querySelector('a.open')?.href;
}

async function list() {
  await loaded;
  const { clientWidth: width, clientHeight: height } = canvas;
  const inside = near(width / 2, height / 2, Math.hypot(width, height) / 2, points.length).filter((one) => {
    const [x, y] = [points[one * COLUMNS] * view.scale + view.x, points[one * COLUMNS + 1] * view.scale + view.y];
    return x >= 0 && y >= 0 && x <= width && y <= height;
  });
  const target = document.getElementById('places');
  const more = inside.length > LISTED ? `; the ${LISTED} nearest to the middle` : '';
  target.innerHTML = inside.length ? await askFor(inside.slice(0, LISTED)) : '';
  target.insertAdjacentHTML('afterbegin', `<p class="facts">${inside.length} in view${more}</p>`);
}

function move(x, y) {
  view = { ...view, x: view.x + x, y: view.y + y };
  hasMoved = true;
  redraw();
}

function zoom(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
  const scale = Math.max(0.001, Math.min(2, view.scale * factor));
  const by = scale / view.scale;
  view = { scale, x: x - (x - view.x) * by, y: y - (y - view.y) * by };
  hasMoved = true;
  redraw();
}

function reset() {
  hasMoved = false;
  fit();
  redraw();
}

function place(event) {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

function listen() {
  let held = null;
  let resting = 0;
  canvas.addEventListener('pointerdown', (event) => {
    held = { x: event.clientX, y: event.clientY, isDrag: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', (event) => {
    if (!held) {
      clearTimeout(resting);
      const [point] = near(...place(event), NEAR_PX, 1);
      canvas.style.cursor = point === undefined ? 'grab' : 'pointer';
      if (point !== undefined) resting = setTimeout(() => tell(point), REST_MS);
      return;
    }
    const [x, y] = [event.clientX - held.x, event.clientY - held.y];
    if (!held.isDrag && Math.hypot(x, y) < 4) return;
    held = { x: event.clientX, y: event.clientY, isDrag: true };
    move(x, y);
  });
  canvas.addEventListener('pointerup', async (event) => {
    const isClick = held && !held.isDrag;
    held = null;
    const [point] = isClick ? near(...place(event), NEAR_PX, 1) : [];
    if (point === undefined) return;
    const url = await tell(point);
    if (url) location.assign(url);
  });
  canvas.addEventListener('wheel', (event) => {
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.15 : 0.87, ...place(event));
  }, { passive: false });
  canvas.addEventListener('keydown', (event) => {
    const keys = {
      ArrowLeft: () => move(40, 0), ArrowRight: () => move(-40, 0), ArrowUp: () => move(0, 40), ArrowDown: () => move(0, -40),
      '+': () => zoom(1.3), '=': () => zoom(1.3), '-': () => zoom(0.77), 0: reset, Enter: list,
    };
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  document.querySelector('.controls').addEventListener('click', (event) => {
    const factor = Number(event.target.dataset.zoom ?? -1);
    if (factor > 0) zoom(factor);
    else if (factor === 0) reset();
  });
  document.getElementById('list').addEventListener('click', list);
  document.getElementById('groups').addEventListener('change', (event) => {
    const group = Number(event.target.dataset.group);
    if (event.target.checked) hidden.delete(group);
    else hidden.add(group);
    redraw();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { paint(); redraw(); });
  new ResizeObserver(() => {
    if (!hasMoved) fit();
    redraw();
  }).observe(canvas);
}

async function load() {
  const response = await fetch(drawing.dataset.points);
  if (!response.ok) {
    picked.textContent = 'The points could not be loaded; load the page again.';
    return;
  }
  points = new Uint16Array(await response.arrayBuffer());
  draw();
}

document.getElementById('colour')?.addEventListener('change', (event) => event.target.form.requestSubmit());
follow();
if (drawing) {
  paint();
  fit();
  loaded = load();
  listen();
}
