// The code page: line ranges in the URL, the permalink, the file tree, and what a name means.

import { addShortcut, fetchPart } from './page.js';

const viewer = document.getElementById('viewer');
const code = document.getElementById('code');
const names = document.getElementById('names');
const field = document.getElementById('name');
const { repository, ref, path, permalink, lines } = viewer.dataset;
let anchor = 0;
let looking = new AbortController();

/** Return the lines that the URL names, as `#L10-L20`, or as `lines=10-20#L10`. */
function range() {
  const found = /^#L(\d+)(?:-L?(\d+))?$/.exec(location.hash);
  if (!found) return null;
  const given = /^(\d+)-(\d+)$/.exec(new URLSearchParams(location.search).get('lines'));
  const more = !found[2] && given?.[1] === found[1] ? given[2] : found[1];
  const ends = [Number(found[1]), Number(found[2] ?? more)];
  return { first: Math.min(...ends), last: Math.max(...ends) };
}

/** Mark the lines that the URL names; if this page lacks them, open the page that has them. */
function mark() {
  const asked = range();
  if (!asked || asked.first > Number(lines)) return; // a link to a longer version of the file
  if (!document.getElementById(`L${asked.first}`)) {
    const url = new URL(location);
    url.searchParams.delete('start');
    if (url.searchParams.get('lines') === `${asked.first}-${asked.last}`) return;
    url.searchParams.set('lines', `${asked.first}-${asked.last}`);
    location.replace(url);
    return;
  }
  for (const line of code.querySelectorAll('li.on')) line.classList.remove('on');
  for (let number = asked.first; number <= asked.last; number += 1) {
    document.getElementById(`L${number}`)?.classList.add('on');
  }
  anchor = asked.first;
}

/** Put the lines into the URL. */
function select(first, last) {
  const url = new URL(location);
  const [from, to] = [Math.min(first, last), Math.max(first, last)];
  url.searchParams.set('lines', from === to ? `${from}` : `${from}-${to}`);
  url.searchParams.delete('start');
  url.hash = from === to ? `L${from}` : `L${from}-L${to}`;
  history.replaceState(null, '', url);
  mark();
}

/** Return the name at a point of the code; empty in a comment or a string. */
function nameAt(event) {
  if (event.target.closest('.c, .s, .m, .k, .n') || !event.target.closest('code')) return '';
  const at = document.caretPositionFromPoint?.(event.clientX, event.clientY);
  const old = at ? null : document.caretRangeFromPoint?.(event.clientX, event.clientY);
  const node = at?.offsetNode ?? old?.startContainer;
  const offset = at?.offset ?? old?.startOffset;
  if (node?.nodeType !== Node.TEXT_NODE) return '';
  const word = /[\p{L}_$][\p{L}\p{N}_$]*/gu;
  for (const found of node.data.matchAll(word)) {
    if (found.index <= offset && offset <= found.index + found[0].length) return found[0];
  }
  return '';
}

/** Show what a name means; the URL keeps it. */
async function lookUp(name, { isNew = true } = {}) {
  looking.abort();
  looking = new AbortController();
  field.value = name;
  const url = new URL(location);
  if (name) url.searchParams.set('name', name);
  else url.searchParams.delete('name');
  if (isNew) history.pushState(null, '', url);
  if (!name) {
    names.replaceChildren();
    return;
  }
  names.setAttribute('aria-busy', 'true');
  const asked = new URLSearchParams({ repository, ref, path, name });
  try {
    names.innerHTML = await fetchPart(`/code/names?${asked}`, looking.signal);
    names.removeAttribute('aria-busy');
    if (isNew) names.scrollIntoView({ block: 'nearest' });
  } catch (error) {
    if (error.name !== 'AbortError') throw error;
  }
}

code.addEventListener('click', (event) => {
  const number = event.target.closest('a.n');
  if (number) {
    event.preventDefault();
    const line = Number(number.textContent);
    select(event.shiftKey && anchor ? anchor : line, line);
    return;
  }
  if (!getSelection().isCollapsed) return;
  const name = nameAt(event);
  if (name) lookUp(name);
});

document.querySelector('.look-up').addEventListener('submit', (event) => {
  event.preventDefault();
  lookUp(field.value.trim());
});

document.querySelector('.tree').addEventListener('click', async (event) => {
  const folder = event.target.closest('a.folder');
  if (!folder || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const inside = folder.parentElement.querySelector('ul');
  folder.toggleAttribute('data-open');
  if (inside) inside.hidden = !folder.hasAttribute('data-open');
  else folder.insertAdjacentHTML('afterend', await fetchPart(folder.dataset.part));
});

addShortcut('y', () => {
  if (!permalink) return;
  const url = new URL(permalink, location);
  for (const kept of ['lines', 'start', 'name']) {
    const value = new URL(location).searchParams.get(kept);
    if (value) url.searchParams.set(kept, value);
  }
  url.hash = location.hash;
  history.replaceState(null, '', url);
});
addShortcut('n', () => field.select());

addEventListener('hashchange', mark);
addEventListener('popstate', () => {
  const name = new URLSearchParams(location.search).get('name') ?? '';
  if (name !== field.value) lookUp(name, { isNew: false });
});

mark();
if (!range()) code.querySelector('li.on')?.scrollIntoView({ block: 'center' });
