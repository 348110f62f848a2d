// Search as you type. The URL is the whole state, so links, reload, and the back button work; the
// server renders every result, with and without this script.

import { fetchPart } from './page.js';

const DEBOUNCE_MS = 180;

const form = document.getElementById('search');
const input = document.getElementById('q');
const results = document.getElementById('results');
const announced = document.getElementById('announced'); // screen readers read its changes, but not a replaced element
let running = new AbortController();
let asked = ''; // the URL of the pending request
let timer = 0;
let shown = location.pathname + location.search;

/** Return the URL of the search that the form and the filters of the results ask for. */
function wanted() {
  const given = [...new FormData(form)].filter(([, value]) => value.trim());
  return given.length ? `/search?${new URLSearchParams(given)}` : '/';
}

/** Show the results at the URL; a later call aborts an earlier one. */
async function show(url, { history: kept = 'push' } = {}) {
  clearTimeout(timer);
  if (url === asked && kept !== 'none') return; // Enter, a moment after the last letter
  running.abort();
  const isShown = url === shown && kept !== 'none';
  showWaiting(!isShown);
  asked = isShown ? '' : url;
  if (isShown) return;
  running = new AbortController();
  try {
    const part = await fetchPart(url, running.signal);
    results.innerHTML = part;
    if (kept === 'push') history.pushState(null, '', url);
    if (kept === 'replace') history.replaceState(null, '', url);
    shown = url;
    announced.textContent = document.getElementById('summary')?.textContent ?? '';
    const query = new URL(url, location).searchParams.get('q');
    document.title = query ? `${query.slice(0, 60)} – codelode` : 'codelode';
  } catch (error) {
    if (error.name !== 'AbortError') throw error;
    return;
  }
  asked = '';
  showWaiting(false);
}

function showWaiting(isWaiting) {
  results.classList.toggle('is-waiting', isWaiting);
  results.setAttribute('aria-busy', `${isWaiting}`);
}

input.addEventListener('input', () => {
  clearTimeout(timer);
  timer = setTimeout(() => show(wanted(), { history: 'replace' }), DEBOUNCE_MS);
});

form.addEventListener('submit', (event) => {
  event.preventDefault();
  show(wanted());
});

results.addEventListener('click', (event) => {
  const link = event.target.closest('a');
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const url = new URL(link.href);
  if (url.origin !== location.origin || !['/', '/search'].includes(url.pathname)) return;
  event.preventDefault();
  input.value = url.searchParams.get('q') ?? '';
  show(url.pathname + url.search).then(() => document.getElementById('main').focus({ preventScroll: true }));
});

addEventListener('popstate', () => {
  input.value = new URLSearchParams(location.search).get('q') ?? '';
  show(location.pathname + location.search, { history: 'none' });
});
