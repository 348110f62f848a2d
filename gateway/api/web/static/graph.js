// The graph page: draws the lists of the page, and puts the lists of other nodes into them.

import { fetchPart } from './page.js';

/** Maximum number of nodes that are drawn: a step of their layout takes 2 ms. */
const MOST_NODES = 500;
const STEPS = 240;
const RADIUS = 7;

const list = document.getElementById('graph');
const canvas = document.getElementById('canvas');
const picked = document.getElementById('picked');
const context = canvas.getContext('2d');
const nodes = new Map();
let edges = [];
let view = { x: 0, y: 0, scale: 1 };
let step = 0;
let frame = 0;
let chosen = null;
let hasMoved = false; // whether the reader has moved the view, which then stays as it is

/** Read nodes and edges from the lists, and keep the places of nodes that are known. */
function read() {
  edges = [];
  add(list, null);
  for (const one of list.querySelectorAll('li[data-node]')) {
    const parent = one.parentElement.closest('[data-node]');
    const from = add(parent, null);
    const to = add(one, from);
    if (!from || !to || from === to) continue;
    const isUse = one.closest('[data-side]').dataset.side === 'used';
    edges.push(isUse ? { from: to, to: from } : { from, to });
  }
  step = 0;
}

function add(element, near) {
  const id = element.dataset.node;
  const known = nodes.get(id);
  if (known) return known;
  if (nodes.size >= MOST_NODES) return null;
  const angle = nodes.size * 2.4; // the golden angle spreads them evenly
  const node = {
    element,
    label: element.dataset.label,
    x: (near?.x ?? 0) + 60 * Math.cos(angle),
    y: (near?.y ?? 0) + 60 * Math.sin(angle),
    dx: 0,
    dy: 0,
    hue: hueOf(element.dataset.repository),
  };
  nodes.set(id, node);
  return node;
}

/** Return the hue of a repository; null for an external node. */
function hueOf(repository) {
  if (!repository) return null;
  let hash = 7;
  for (const char of repository) hash = (hash * 31 + char.codePointAt(0)) % 360;
  return hash;
}

/** Move the nodes one step: they repel each other, and edges and the middle attract them. */
function move(heat) {
  const all = [...nodes.values()];
  for (const one of all) {
    one.dx = -one.x * 0.007;
    one.dy = -one.y * 0.02;
  }
  for (let i = 0; i < all.length; i += 1) {
    for (let j = i + 1; j < all.length; j += 1) {
      const x = all[i].x - all[j].x || 0.1;
      const y = all[i].y - all[j].y || 0.1;
      const push = 2600 / (x * x + y * y + 40);
      all[i].dx += x * push * 0.1;
      all[i].dy += y * push * 0.1;
      all[j].dx -= x * push * 0.1;
      all[j].dy -= y * push * 0.1;
    }
  }
  for (const { from, to } of edges) {
    const x = to.x - from.x;
    const y = to.y - from.y;
    const pull = (Math.hypot(x, y) - 90) * 0.0006;
    from.dx += x * pull;
    from.dy += y * pull;
    to.dx -= x * pull;
    to.dy -= y * pull;
  }
  for (const one of all) {
    one.x += Math.max(-12, Math.min(12, one.dx)) * heat;
    one.y += Math.max(-12, Math.min(12, one.dy)) * heat;
  }
}

function fit() {
  const xs = [...nodes.values()].map((one) => one.x);
  const ys = [...nodes.values()].map((one) => one.y);
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const { clientWidth: width, clientHeight: height } = canvas;
  const scale = Math.min(1.6, (width - 160) / (right - left + 1), (height - 80) / (bottom - top + 1));
  view = { scale, x: width / 2 - (scale * (left + right)) / 2, y: height / 2 - (scale * (top + bottom)) / 2 };
}

function draw() {
  const { clientWidth: width, clientHeight: height } = canvas;
  const dots = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * dots)) canvas.width = Math.round(width * dots);
  if (canvas.height !== Math.round(height * dots)) canvas.height = Math.round(height * dots);
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name);
  context.setTransform(dots, 0, 0, dots, 0, 0);
  context.clearRect(0, 0, width, height);
  context.translate(view.x, view.y);
  context.scale(view.scale, view.scale);
  context.strokeStyle = colour('--soft');
  context.fillStyle = colour('--soft');
  context.lineWidth = 1 / view.scale;
  for (const { from, to } of edges) arrow(from, to);
  context.font = `${12 / view.scale}px system-ui, sans-serif`;
  context.textBaseline = 'middle';
  const isDark = matchMedia('(prefers-color-scheme: dark)').matches;
  const root = nodes.get(list.dataset.node);
  for (const one of nodes.values()) {
    context.beginPath();
    context.arc(one.x, one.y, (one === root ? 1.5 : 1) * RADIUS / Math.sqrt(view.scale), 0, 7);
    context.fillStyle = one.hue === null ? colour('--chip') : `hsl(${one.hue} 55% ${isDark ? 62 : 45}%)`;
    context.fill();
    context.strokeStyle = colour(one === chosen ? '--ink' : '--soft');
    context.lineWidth = (one === chosen ? 3 : 1) / view.scale;
    context.stroke();
  }
  const taken = [];
  for (const one of new Set([root, chosen, ...nodes.values()])) {
    if (!one) continue;
    const [label, x] = [one.label.slice(0, 40), one.x + 12 / view.scale];
    const box = { x, y: one.y, width: context.measureText(label).width, height: 13 / view.scale };
    if (taken.some((other) => overlaps(box, other))) continue; // zooming in makes room for it
    taken.push(box);
    context.strokeStyle = colour('--card'); // keeps the label readable over lines
    context.lineWidth = 3 / view.scale;
    context.strokeText(label, x, one.y);
    context.fillStyle = colour('--ink');
    context.fillText(label, x, one.y);
  }
}

function overlaps(one, other) {
  return one.x < other.x + other.width && other.x < one.x + one.width && Math.abs(one.y - other.y) < one.height;
}

function arrow(from, to) {
  const angle = Math.atan2(to.y - from.y, to.x - from.x);
  const gap = RADIUS / Math.sqrt(view.scale) + 2 / view.scale;
  const [x, y] = [to.x - gap * Math.cos(angle), to.y - gap * Math.sin(angle)];
  const size = 7 / view.scale;
  context.beginPath();
  context.moveTo(from.x, from.y);
  context.lineTo(x, y);
  context.stroke();
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(x - size * Math.cos(angle - 0.4), y - size * Math.sin(angle - 0.4));
  context.lineTo(x - size * Math.cos(angle + 0.4), y - size * Math.sin(angle + 0.4));
  context.fill();
}

/** Lay the nodes out, a few steps for each frame; at once for readers who want no motion. */
function animate() {
  cancelAnimationFrame(frame);
  const isStill = matchMedia('(prefers-reduced-motion: reduce)').matches;
  const until = Math.min(STEPS, step + (isStill ? STEPS : 6));
  for (; step < until; step += 1) move(1 - step / STEPS);
  if (!hasMoved) fit();
  draw();
  if (step < STEPS) frame = requestAnimationFrame(animate);
  else canvas.dataset.nodes = nodes.size;
}

function at(event) {
  const box = canvas.getBoundingClientRect();
  const x = (event.clientX - box.left - view.x) / view.scale;
  const y = (event.clientY - box.top - view.y) / view.scale;
  const near = [...nodes.values()].map((one) => ({ one, far: Math.hypot(one.x - x, one.y - y) * view.scale }));
  const found = near.reduce((best, now) => (now.far < best.far ? now : best), { far: 18 });
  return found.one ?? null;
}

/** Describe a node, and put the lists of its links below it. */
async function expand(node) {
  chosen = node;
  tell(node);
  draw();
  const { graph } = node.element.dataset;
  if (!graph || node.element.querySelector(':scope > .inside')) return;
  const inside = document.createElement('div');
  inside.className = 'inside';
  node.element.append(inside);
  inside.innerHTML = await fetchPart(graph);
  read();
  if (nodes.size >= MOST_NODES) picked.append(` Only the first ${MOST_NODES} nodes are drawn; the lists have all.`);
  animate();
}

function tell(node) {
  const { repository, code, graph } = node.element.dataset;
  picked.replaceChildren(`${repository || 'external'} ${node.label} `);
  for (const [text, url] of [['open the code', code], ['centre it', graph]]) {
    if (!url) continue;
    const link = document.createElement('a');
    link.href = url;
    link.textContent = text;
    picked.append(link, ' ');
  }
}

function zoom(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
  const scale = Math.max(0.05, Math.min(8, view.scale * factor));
  const by = scale / view.scale;
  view = { scale, x: x - (x - view.x) * by, y: y - (y - view.y) * by };
  hasMoved = true;
  draw();
}

let held = null;
canvas.addEventListener('pointerdown', (event) => {
  held = { x: event.clientX, y: event.clientY, isDrag: false };
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener('pointermove', (event) => {
  if (!held) {
    canvas.style.cursor = at(event) ? 'pointer' : 'grab';
    return;
  }
  const [x, y] = [event.clientX - held.x, event.clientY - held.y];
  if (!held.isDrag && Math.hypot(x, y) < 4) return;
  held = { x: event.clientX, y: event.clientY, isDrag: true };
  view = { ...view, x: view.x + x, y: view.y + y };
  hasMoved = true;
  draw();
});
canvas.addEventListener('pointerup', (event) => {
  const node = held?.isDrag ? null : at(event);
  held = null;
  if (node) expand(node);
});
canvas.addEventListener('wheel', (event) => {
  event.preventDefault();
  const box = canvas.getBoundingClientRect();
  zoom(event.deltaY < 0 ? 1.15 : 0.87, event.clientX - box.left, event.clientY - box.top);
}, { passive: false });

document.querySelector('.controls').addEventListener('click', (event) => {
  const factor = Number(event.target.dataset.zoom ?? -1);
  if (factor > 0) zoom(factor);
  if (factor !== 0) return;
  hasMoved = false;
  fit();
  draw();
});

new ResizeObserver(() => {
  if (!hasMoved) fit();
  draw();
}).observe(canvas);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);

read();
animate();
